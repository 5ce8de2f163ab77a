"""The syntax tree of an expression, with macros already expanded.

Nodes are compared by identity, so that tables of types and sizes can be kept beside the tree.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

# Names that no expression can write, for variables and functions that only macros use.
RESULT = "@result"
NOT_FALSE = "@not_strictly_false"
INSERT = "@map_insert"
TERNARY = "_?_:_"
INDEX = "_[_]"
MAYBE_INDEX = "_[?_]"
MAYBE_SELECT = "_?._"


@dataclass(frozen=True, eq=False, slots=True)
class Literal:
    at: int
    value: object  # None, bool, int, Uint, float, str or bytes


@dataclass(frozen=True, eq=False, slots=True)
class Name:
    at: int
    name: str


@dataclass(frozen=True, eq=False, slots=True)
class Select:
    """`operand.field`, or with `test` whether it is there."""

    at: int
    operand: Node
    field: str
    test: bool = False


@dataclass(frozen=True, eq=False, slots=True)
class Call:
    """A function or operator; a member function has its target as first argument."""

    at: int
    function: str
    args: tuple[Node, ...]
    member: bool = False


@dataclass(frozen=True, eq=False, slots=True)
class Logic:
    """`&&` or `||` of two or more terms."""

    at: int
    function: str
    terms: tuple[Node, ...]


@dataclass(frozen=True, eq=False, slots=True)
class ListOf:
    at: int
    items: tuple[Node, ...]


@dataclass(frozen=True, eq=False, slots=True)
class MapOf:
    at: int
    entries: tuple[tuple[Node, Node], ...]


@dataclass(frozen=True, eq=False, slots=True)
class Bind:
    """`cel.bind(name, value, body)`."""

    at: int
    name: str
    value: Node
    body: Node


@dataclass(frozen=True, eq=False, slots=True)
class Loop:
    """Folds `over`: `@result` starts as `start`, is replaced by `step` while `going` holds, and `result` is the value.

    One variable stands for items of a list or keys of a map, two for index and item or key and value.
    """

    at: int
    over: Node
    names: tuple[str, ...]
    start: Node
    going: Node
    step: Node
    result: Node


Node = Literal | Name | Select | Call | Logic | ListOf | MapOf | Bind | Loop


def children(node: Node) -> tuple[Node, ...]:
    """The nodes right below."""
    match node:
        case Select():
            return (node.operand,)
        case Call():
            return node.args
        case Logic():
            return node.terms
        case ListOf():
            return node.items
        case MapOf():
            return tuple(part for entry in node.entries for part in entry)
        case Bind():
            return (node.value, node.body)
        case Loop():
            return (node.over, node.start, node.going, node.step, node.result)
    return ()


def walk(node: Node) -> Iterator[Node]:
    """The node and all below it."""
    waiting = [node]
    while waiting:
        one = waiting.pop()
        yield one
        waiting.extend(children(one))
