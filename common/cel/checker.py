"""Static types: which overloads each call can mean, and what the expression gives.

What the device's attributes are is known only when a device is there; all else is typed, and a mistake is refused here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from kubenexus.common.cel import regex
from kubenexus.common.cel.errors import CelError
from kubenexus.common.cel.library import FUNCTIONS
from kubenexus.common.cel.overloads import Overload
from kubenexus.common.cel.syntax import (
    MAYBE_SELECT,
    RESULT,
    Bind,
    Call,
    ListOf,
    Literal,
    Logic,
    Loop,
    MapOf,
    Name,
    Node,
    Select,
)
from kubenexus.common.cel.types import (
    ANY,
    BOOL,
    DEVICE,
    DEVICE_FIELDS,
    DYN,
    INT,
    OPEN,
    Type,
    assign,
    filled,
    is_dynamic,
    is_same,
    listing,
    mapping,
    more_general,
    optional,
)
from kubenexus.common.cel.values import TypeOf, type_name

TYPE_NAMES: Final = frozenset(
    {"bool", "bytes", "double", "int", "list", "map", "null_type", "optional_type", "string", "type", "uint"}
)
# A type that is made of more is refused: `{a: a}` of an `a` that was made like that doubles with every step.
MAX_TYPE: Final = 200


@dataclass(frozen=True, slots=True)
class Checked:
    """The type of each node, and the overloads of each call that its arguments allow."""

    types: dict[Node, Type] = field(default_factory=dict)
    overloads: dict[Node, tuple[Overload, ...]] = field(default_factory=dict)


def check(text: str, root: Node) -> Checked:
    """All types; raises `CelError` for the first mistake, or if the expression can give no bool."""
    checker = _Checker(text)
    result = checker.visit(root, {"device": DEVICE})
    if result not in (BOOL, ANY):
        raise CelError(f"must evaluate to bool or the unknown type, not {result}")
    return checker.checked


_Scope = dict[str, Type]


class _Checker:
    def __init__(self, text: str) -> None:
        self._text = text
        self._loose = False
        self.checked = Checked()

    def visit(self, node: Node, scope: _Scope) -> Type:
        found = self._type(node, scope)
        if found.size > MAX_TYPE:
            raise self._error("the type of this is too large", node)
        self.checked.types[node] = found
        return found

    def _type(self, node: Node, scope: _Scope) -> Type:
        match node:
            case Literal():
                return Type(type_name(node.value))
            case Name():
                return self._name(node, scope)
            case Select():
                return self._select(node, scope)
            case Call():
                return self._call(node, scope)
            case Logic():
                return self._logic(node, scope)
            case ListOf():
                return listing(self._joined(node.items, scope))
            case MapOf():
                names = self._joined(tuple(name for name, _ in node.entries), scope)
                return mapping(names, self._joined(tuple(value for _, value in node.entries), scope))
            case Bind():
                return self.visit(node.body, {**scope, node.name: self.visit(node.value, scope)})
            case Loop():
                return self._loop(node, scope)

    def _name(self, node: Name, scope: _Scope) -> Type:
        if node.name in scope:
            return scope[node.name]
        if node.name in TYPE_NAMES:
            return Type(type_name(TypeOf(node.name)))
        raise self._error(f"undeclared reference to '{node.name}' (in container '')", node)

    def _select(self, node: Select, scope: _Scope) -> Type:
        found = self._field(node, self.visit(node.operand, scope), node.field)
        return BOOL if node.test else found

    def _field(self, node: Node, operand: Type, name: str) -> Type:
        if operand.name == "optional_type":
            return optional(self._field(node, operand.args[0], name))
        if operand.name == "map":
            return operand.args[1]
        if operand == DEVICE and name in DEVICE_FIELDS:
            return DEVICE_FIELDS[name]
        if operand == DEVICE or operand.name.startswith("kubernetes."):
            raise self._error(f"undefined field '{name}'", node)
        if not is_dynamic(operand):
            raise self._error(f"type '{operand}' does not support field selection", node)
        return DYN

    def _call(self, node: Call, scope: _Scope) -> Type:
        given = self._given(node, scope)
        declared = FUNCTIONS.get(node.function)
        if declared is None:
            raise self._error(f"undeclared reference to '{node.function}' (in container '')", node)
        results: list[Type] = []
        matching: list[Overload] = []
        for overload in declared:
            result = _result(overload, node, given)
            if result is not None:
                matching.append(overload)
                results.append(result)
        if not matching:
            raise self._no_overload(node, given)
        self.checked.overloads[node] = tuple(matching)
        self._check_pattern(node)
        if node.function == MAYBE_SELECT:
            return self._maybe_select(node, given[0])
        return results[0] if all(result == results[0] for result in results) else DYN

    def _given(self, node: Call, scope: _Scope) -> tuple[Type, ...]:
        """The types of the arguments. Only the list of a `format` may be written with values of several types."""
        loose, self._loose = self._loose, self._loose or node.function == "format"
        given = tuple(self.visit(arg, scope) for arg in node.args)
        self._loose = loose
        return given

    def _maybe_select(self, node: Call, operand: Type) -> Type:
        name = node.args[1]
        assert isinstance(name, Literal)
        found = self._field(node, operand, str(name.value))
        return found if operand.name == "optional_type" else optional(found)

    def _check_pattern(self, node: Call) -> None:
        pattern = node.args[1] if node.function in ("matches", "find", "findAll") else None
        if not isinstance(pattern, Literal):
            return
        try:
            regex.compiled(str(pattern.value))
        except regex.RegexError as error:
            raise self._error(f"invalid {node.function} argument: {error}", pattern) from None

    def _logic(self, node: Logic, scope: _Scope) -> Type:
        given = [self.visit(term, scope) for term in node.terms]
        for one in given:
            if one != BOOL and not is_dynamic(one):
                raise self._error(f"expected type 'bool' but found '{one}'", node.terms[given.index(one)])
        return BOOL

    def _joined(self, nodes: tuple[Node, ...], scope: _Scope) -> Type:
        """The one type of items, keys or values; Kubernetes wants them all alike."""
        found = OPEN
        for node in nodes:
            given = self.visit(node, scope)
            if is_same(found, given):
                found = more_general(found, given)
            elif self._loose:
                found = DYN
            else:
                raise self._error(f"expected type '{found}' but found '{given}'", node)
        return found

    def _loop(self, node: Loop, scope: _Scope) -> Type:
        over = self.visit(node.over, scope)
        result = self.visit(node.start, scope)
        inside = {**scope, **self._variables(node, over), RESULT: result}
        self.visit(node.going, inside)
        stepped = self.visit(node.step, inside)
        if not assign(result, stepped, {}):
            raise self._error(f"expected type '{result}' but found '{stepped}'", node.step)
        return self.visit(node.result, {**scope, RESULT: more_general(result, stepped)})

    def _variables(self, node: Loop, over: Type) -> dict[str, Type]:
        if over.name == "list":
            pair = (INT, over.args[0])
        elif over.name == "map":
            pair = (over.args[0], over.args[1])
        elif over in (DYN, OPEN):
            pair = (DYN, DYN)
        else:
            why = f"expression of type '{over}' cannot be range of a comprehension (must be list, map, or dynamic)"
            raise self._error(why, node.over)
        if len(node.names) == 2:
            return dict(zip(node.names, pair, strict=True))
        return {node.names[0]: pair[1] if over.name == "list" else pair[0]}

    def _no_overload(self, node: Call, given: tuple[Type, ...]) -> CelError:
        shown = list(map(str, given))
        applied = f"{shown[0]}.({', '.join(shown[1:])})" if node.member else f"({', '.join(shown)})"
        return self._error(f"found no matching overload for '{node.function}' applied to '{applied}'", node)

    def _error(self, why: str, node: Node) -> CelError:
        return CelError(why, self._text, node.at)


def _result(overload: Overload, node: Call, given: tuple[Type, ...]) -> Type | None:
    """What the overload would give for these arguments, or None if it does not take them."""
    if overload.member != node.member or len(overload.params) != len(given):
        return None
    found: dict[str, Type] = {}
    fits = all(assign(param, one, found) for param, one in zip(overload.params, given, strict=True))
    return filled(overload.result, found) if fits else None
