"""Macros: calls that are rewritten when they are parsed, as the CEL specification expands them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kubenexus.common.cel.errors import CelError
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
)

# Functions with a dot in their name are called on one of these.
NAMESPACES: Final = frozenset({"cel", "lists", "math", "optional", "sets", "strings"})

_TARGET: Final = "@target"

Expansion = Callable[[int, Node, tuple[str, ...], tuple[Node, ...]], Node]


def expand_global(text: str, at: int, function: str, args: tuple[Node, ...]) -> Node | None:
    """The expansion of `has(a.b)`, or None for any other function."""
    if function != "has" or len(args) != 1:
        return None
    (argument,) = args
    if not isinstance(argument, Select) or argument.test:
        raise CelError("invalid argument to has() macro", text, at)
    return Select(at, argument.operand, argument.field, test=True)


def expand_member(text: str, at: int, target: Node, function: str, args: tuple[Node, ...]) -> Node | None:
    """The expansion of a macro such as `list.all(x, …)`, or None if there is none of this name and form."""
    if isinstance(target, Name) and target.name == "cel" and function == "bind" and len(args) == 3:
        return Bind(at, _variable(text, args[0]), args[1], args[2])
    found = _MACROS.get((function, len(args)))
    if found is None:
        return None
    variables, expand = found
    names = tuple(_variable(text, arg) for arg in args[:variables])
    if len(set(names)) < len(names):
        raise CelError(f"duplicate variable name: {names[0]}", text, args[1].at)
    return expand(at, target, names, args[variables:])


def _variable(text: str, node: Node) -> str:
    if not isinstance(node, Name):
        raise CelError("argument must be a simple name", text, node.at)
    return node.name


def _all(at: int, over: Node, names: tuple[str, ...], body: tuple[Node, ...]) -> Node:
    going = Call(at, NOT_FALSE, (Name(at, RESULT),))
    step = Logic(at, "_&&_", (Name(at, RESULT), body[0]))
    return Loop(at, over, names, Literal(at, True), going, step, Name(at, RESULT))


def _exists(at: int, over: Node, names: tuple[str, ...], body: tuple[Node, ...]) -> Node:
    going = Call(at, NOT_FALSE, (Call(at, "!_", (Name(at, RESULT),)),))
    step = Logic(at, "_||_", (Name(at, RESULT), body[0]))
    return Loop(at, over, names, Literal(at, False), going, step, Name(at, RESULT))


def _exists_one(at: int, over: Node, names: tuple[str, ...], body: tuple[Node, ...]) -> Node:
    more = Call(at, "_+_", (Name(at, RESULT), Literal(at, 1)))
    step = Call(at, TERNARY, (body[0], more, Name(at, RESULT)))
    one = Call(at, "_==_", (Name(at, RESULT), Literal(at, 1)))
    return Loop(at, over, names, Literal(at, 0), Literal(at, True), step, one)


def _map(at: int, over: Node, names: tuple[str, ...], body: tuple[Node, ...]) -> Node:
    more = Call(at, "_+_", (Name(at, RESULT), ListOf(at, (body[-1],))))
    return _collecting(at, over, names, ListOf(at, ()), body, more)


def _filter(at: int, over: Node, names: tuple[str, ...], body: tuple[Node, ...]) -> Node:
    return _map(at, over, names, (body[0], Name(at, names[0])))


def _map_to_map(at: int, over: Node, names: tuple[str, ...], body: tuple[Node, ...]) -> Node:
    more = Call(at, INSERT, (Name(at, RESULT), Name(at, names[0]), body[-1]))
    return _collecting(at, over, names, MapOf(at, ()), body, more)


def _collecting(at: int, over: Node, names: tuple[str, ...], start: Node, body: tuple[Node, ...], more: Node) -> Node:
    """A loop that adds to its result, always or where the first part of `body` says so."""
    step = more if len(body) == 1 else Call(at, TERNARY, (body[0], more, Name(at, RESULT)))
    return Loop(at, over, names, start, Literal(at, True), step, Name(at, RESULT))


def _opt_map(at: int, target: Node, names: tuple[str, ...], body: tuple[Node, ...]) -> Node:
    return _opt_flat_map(at, target, names, (Call(at, "optional.of", body),))


def _opt_flat_map(at: int, target: Node, names: tuple[str, ...], body: tuple[Node, ...]) -> Node:
    """The target is bound, so that it stands in the tree once; else a chain of these would double with every link."""
    value = Call(at, "value", (Name(at, _TARGET),), member=True)
    there = Call(at, "hasValue", (Name(at, _TARGET),), member=True)
    mapped = Call(at, TERNARY, (there, Bind(at, names[0], value, body[0]), Call(at, "optional.none", ())))
    return Bind(at, _TARGET, target, mapped)


# By name and number of arguments: how many of those are variables, and the expansion.
_MACROS: Final[dict[tuple[str, int], tuple[int, Expansion]]] = {
    ("all", 2): (1, _all),
    ("all", 3): (2, _all),
    ("exists", 2): (1, _exists),
    ("exists", 3): (2, _exists),
    ("exists_one", 2): (1, _exists_one),
    ("existsOne", 2): (1, _exists_one),
    ("existsOne", 3): (2, _exists_one),
    ("map", 2): (1, _map),
    ("map", 3): (1, _map),
    ("filter", 2): (1, _filter),
    ("transformList", 3): (2, _map),
    ("transformList", 4): (2, _map),
    ("transformMap", 3): (2, _map_to_map),
    ("transformMap", 4): (2, _map_to_map),
    ("optMap", 2): (1, _opt_map),
    ("optFlatMap", 2): (1, _opt_flat_map),
}
