"""Turns a checked syntax tree into Python closures, once; they are then called for every device.

A closure takes the frame of an evaluation: the facts, the budget that is left, and one place for each variable.
"""

from __future__ import annotations

from typing import Final

from kubenexus.common.cel import closures, loops
from kubenexus.common.cel.checker import Checked
from kubenexus.common.cel.closures import Run
from kubenexus.common.cel.costs import LIST, MAP, PARTS
from kubenexus.common.cel.errors import CelError, CelRuntimeError
from kubenexus.common.cel.overloads import Overload
from kubenexus.common.cel.syntax import (
    INSERT,
    NOT_FALSE,
    RESULT,
    TERNARY,
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
    walk,
)
from kubenexus.common.cel.types import DEVICE, is_dynamic
from kubenexus.common.cel.values import TypeOf, key

_FIELDS: Final = {
    "driver": "driver",
    "attributes": "attributes",
    "capacity": "capacity",
    "allowMultipleAllocations": "shareable",
}
# Evaluated once if their arguments are written out, since they read a text.
_READERS: Final = frozenset({"quantity", "semver"})
_PATTERNS: Final = frozenset({"matches", "find", "findAll"})
# The API server tries these when it compiles, if their arguments are written out, and refuses what fails.
_TRIED: Final = frozenset({"int", "uint", "double", "string", "bool", "bytes"})


def build(root: Node, checked: Checked, *, metered: bool) -> tuple[Run, int]:
    """The closure of an expression and the length of the frame it needs. If `metered`, every step is charged."""
    builder = _Builder(checked, metered=metered, trusting=not any(_deceives(node, checked) for node in walk(root)))
    run = builder.build(root, {"device": closures.FACTS})
    return run, builder.length


class _Builder:
    def __init__(self, checked: Checked, *, metered: bool, trusting: bool) -> None:
        self._checked = checked
        self._metered = metered
        self._trusting = trusting
        self.length = closures.VARIABLES

    def build(self, node: Node, places: dict[str, int]) -> Run:
        match node:
            case Literal():
                return closures.constant(node.value)
            case Name():
                return self._charged(1, self._name(node, places))
            case Select():
                return self._charged(0 if node.test else 1, self._select(node, places))
            case Call():
                return self._call(node, places)
            case Logic():
                run = closures.logic(node.function == "_||_", tuple(self.build(term, places) for term in node.terms))
                return self._charged(len(node.terms) // PARTS, run)
            case ListOf():
                return self._charged(LIST + len(node.items) // PARTS, self._list(node, places))
            case MapOf():
                return self._charged(MAP + len(node.entries) // PARTS, self._map(node, places))
            case Bind():
                return self._bind(node, places)
            case Loop():
                return self._loop(node, places)

    def _charged(self, cost: int, run: Run) -> Run:
        return closures.charged(cost, run) if self._metered and cost else run

    def _name(self, node: Name, places: dict[str, int]) -> Run:
        place = places.get(node.name)
        return closures.constant(TypeOf(node.name)) if place is None else closures.reading(place)

    def _select(self, node: Select, places: dict[str, int]) -> Run:
        if self._trusting and self._checked.types[node.operand] == DEVICE:
            operand = self.build(node.operand, places)
            return closures.constant(True) if node.test else closures.field(operand, _FIELDS[node.field])
        return closures.selecting(self.build(node.operand, places), node.field, test=node.test)

    def _call(self, node: Call, places: dict[str, int]) -> Run:
        args = tuple(self.build(arg, places) for arg in node.args)
        if node.function == TERNARY:
            return closures.ternary(*args)
        if node.function == NOT_FALSE:
            return self._charged(1, closures.not_false(args[0]))
        if node.function in ("or", "orValue"):
            return self._charged(1, closures.otherwise(node.function, *args))
        overloads = self._checked.overloads[node]
        sure = self._is_sure(node, overloads)
        if node.function in _READERS and sure and all(isinstance(arg, Literal) for arg in node.args):
            return closures.read_once(overloads[0], tuple(arg.value for arg in node.args if isinstance(arg, Literal)))
        if node.function in _TRIED and all(isinstance(arg, Literal) for arg in node.args):
            _try(args[0], overloads)
        if self._metered and node.function in _PATTERNS:
            return closures.pattern_call(node.function, overloads, args, written=isinstance(node.args[1], Literal))
        if self._metered:
            return closures.metered_call(node.function, overloads, args)
        return closures.quick(node, sure, args) or closures.plain_call(node.function, overloads, args, sure=sure)

    def _is_sure(self, node: Call, overloads: tuple[Overload, ...]) -> bool:
        """Whether the static types leave one overload, and no value that it would not take."""
        given = [self._checked.types[arg] for arg in node.args]
        return (
            self._trusting
            and len(overloads) == 1
            and all(
                param.is_parameter or param.name in ("dyn", one.name)
                for param, one in zip(overloads[0].params, given, strict=True)
            )
        )

    def _list(self, node: ListOf, places: dict[str, int]) -> Run:
        if all(isinstance(item, Literal) for item in node.items):
            return closures.constant(tuple(item.value for item in node.items if isinstance(item, Literal)))
        items = tuple(self.build(item, places) for item in node.items)
        return lambda frame: tuple([item(frame) for item in items])

    def _map(self, node: MapOf, places: dict[str, int]) -> Run:
        entries = [(self.build(name, places), self.build(value, places)) for name, value in node.entries]
        return lambda frame: {key(name(frame)): value(frame) for name, value in entries}

    def _place(self) -> int:
        self.length += 1
        return self.length - 1

    def _bind(self, node: Bind, places: dict[str, int]) -> Run:
        value, place = self.build(node.value, places), self._place()
        return self._charged(LIST, closures.binding(place, value, self.build(node.body, {**places, node.name: place})))

    def _loop(self, node: Loop, places: dict[str, int]) -> Run:
        over, start = self.build(node.over, places), self.build(node.start, places)
        variables, result = tuple(self._place() for _ in node.names), self._place()
        inside = {**places, **dict(zip(node.names, variables, strict=True)), RESULT: result}
        if isinstance(node.start, ListOf | MapOf):
            return loops.collecting(over, variables, self._collected(node, inside))
        going = None if isinstance(node.going, Literal) else self.build(node.going, inside)
        step, end = self.build(node.step, inside), self.build(node.result, inside)
        return loops.folding(over, variables, loops.Fold(result, start, going, step, end))

    def _collected(self, node: Loop, inside: dict[str, int]) -> loops.Collect:
        """The steps of `map`, `filter` and `transformMap`, which add to one collection instead of copying it."""
        test, more = None, node.step
        if isinstance(more, Call) and more.function == TERNARY:
            test, more = self.build(more.args[0], inside), more.args[1]
        assert isinstance(more, Call)
        if more.function == INSERT:
            name, value = (self.build(arg, inside) for arg in more.args[1:])
            return loops.Collect(test, self._charged(2, name), value)
        added = more.args[1]
        assert isinstance(added, ListOf)
        return loops.Collect(test, None, self._charged(LIST + 2, self.build(added.items[0], inside)))


def _try(argument: Run, overloads: tuple[Overload, ...]) -> None:
    """Raises `CelError` if a conversion of a literal fails."""
    try:
        closures.plain_call("", overloads, (argument,), sure=False)([])
    except CelRuntimeError as error:
        raise CelError(f"program instantiation failed: {error}") from None


def _deceives(node: Node, checked: Checked) -> bool:
    """Whether the static types of an expression with this node may not be those of its values.

    Null stands for a quantity, a version or a device, too. An optional of which nothing is known is taken for one of
    what follows it.
    """
    if isinstance(node, Call) and node.function in ("or", "orValue"):
        return is_dynamic(checked.types[node.args[0]])
    return isinstance(node, Literal) and node.value is None
