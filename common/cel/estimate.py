"""The most an expression can cost, found without a device, as the API server estimates it.

The API server refuses an expression that may cost more than the limit.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from kubenexus.common.cel import sizes
from kubenexus.common.cel.checker import Checked
from kubenexus.common.cel.costs import LIST, MAP, TEXT
from kubenexus.common.cel.overloads import Overload
from kubenexus.common.cel.sizes import ONE, UNKNOWN, Size, capped, scaled
from kubenexus.common.cel.syntax import (
    INDEX,
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
from kubenexus.common.cel.values import UINT_MAX, size


class _Entry(NamedTuple):
    """Sizes of the keys and values of a collection that the expression itself makes."""

    names: Size
    values: Size

    def union(self, other: _Entry) -> _Entry:
        return _Entry(self.names.union(other.names), self.values.union(other.values))


class _Shape(NamedTuple):
    """How large the parts of a device may be, by the limits of the API."""

    most: int
    names: _Shape | None = None
    values: _Shape | None = None
    fields: dict[str, _Shape] = {}  # noqa: RUF012 (never written to)


class _Variable(NamedTuple):
    shape: _Shape | None
    size: Size | None
    entry: _Entry | None


_DOMAIN, _ID, _ATTRIBUTE = _Shape(63), _Shape(32), _Shape(64)
_DEVICE: Final = _Shape(
    0,
    fields={
        "driver": _Shape(63),
        "allowMultipleAllocations": _Shape(1),
        "attributes": _Shape(32, _DOMAIN, _Shape(32, _ID, _ATTRIBUTE)),
        "capacity": _Shape(32, _DOMAIN, _Shape(32, _ID, _Shape(0))),
    },
)
_SCALARS: Final = frozenset({"bool", "double", "int", "uint"})
_ORDERS: Final = frozenset({"_<_", "_<=_", "_>_", "_>=_"})


def estimate(root: Node, checked: Checked) -> int:
    """The largest cost that an evaluation can have."""
    return _Estimator(checked).cost(root, {"device": _Variable(_DEVICE, None, None)})


_Scope = dict[str, _Variable]


class _Estimator:
    def __init__(self, checked: Checked) -> None:
        self._checked = checked
        self._sizes: dict[Node, Size] = {}
        self._entries: dict[Node, _Entry] = {}
        self._shapes: dict[Node, _Shape] = {}

    def cost(self, node: Node, scope: _Scope) -> int:
        match node:
            case Literal():
                return 0
            case Name():
                return self._name(node, scope)
            case Select():
                return self._select(node, scope)
            case Call():
                return self._call(node, scope)
            case Logic():
                return capped(sum(self.cost(term, scope) for term in node.terms))
            case ListOf():
                return self._list(node, scope)
            case MapOf():
                return self._map(node, scope)
            case Bind():
                return self._bind(node, scope)
            case Loop():
                return self._loop(node, scope)

    def _name(self, node: Name, scope: _Scope) -> int:
        variable = scope.get(node.name)
        if variable is not None:
            self._note(node, variable.size, variable.entry, variable.shape)
        return 1

    def _note(self, node: Node, found: Size | None, entry: _Entry | None = None, shape: _Shape | None = None) -> None:
        if found is not None:
            self._sizes[node] = found
        if entry is not None:
            self._entries[node] = entry
        if shape is not None:
            self._shapes[node] = shape

    def _select(self, node: Select, scope: _Scope) -> int:
        cost = self.cost(node.operand, scope)
        if node.test:
            return cost
        shape = self._shapes.get(node.operand)
        if shape is not None:
            # Attributes are all of one size, whatever their names.
            self._note(
                node, None, None, shape.fields.get(node.field) or (_ATTRIBUTE if shape.values is _ATTRIBUTE else None)
            )
        selectable = self._checked.types[node.operand].name in ("map", "kubernetes.DRADevice", "open")
        return capped(cost + (1 if selectable else 0))

    def _list(self, node: ListOf, scope: _Scope) -> int:
        cost = sum(self.cost(item, scope) for item in node.items)
        self._note(node, None, _Entry(ONE, self._union(node.items)))
        return capped(cost + LIST)

    def _map(self, node: MapOf, scope: _Scope) -> int:
        cost = sum(self.cost(part, scope) for entry in node.entries for part in entry)
        names, values = (self._union(tuple(entry[part] for entry in node.entries)) for part in (0, 1))
        self._note(node, None, _Entry(names, values))
        return capped(cost + MAP)

    def _union(self, nodes: tuple[Node, ...]) -> Size:
        if not nodes:
            return Size(0, 0)
        union = self._size(nodes[0])
        for node in nodes[1:]:
            union = union.union(self._size(node))
        return union

    def _bind(self, node: Bind, scope: _Scope) -> int:
        cost = self.cost(node.value, scope) + LIST
        cost += self.cost(node.body, {**scope, node.name: self._variable(node.value)})
        self._note(node, self._known(node.body), self._entries.get(node.body))
        return capped(cost)

    def _variable(self, node: Node) -> _Variable:
        return _Variable(self._shapes.get(node), self._known(node), self._entries.get(node))

    def _loop(self, node: Loop, scope: _Scope) -> int:
        cost = self.cost(node.over, scope) + self.cost(node.start, scope)
        outside = {**scope, RESULT: self._variable(node.start)}
        inside = {**outside, **self._variables(node)}
        each = self.cost(node.going, inside) + self.cost(node.step, inside)
        cost += self.cost(node.result, outside)
        rounds = self._size(node.over)
        if isinstance(node.start, ListOf | MapOf):
            self._note(node, rounds, self._entries.get(node.step))
        else:
            self._note(node, self._known(node.start))
        return capped(cost + rounds.most * each)

    def _variables(self, node: Loop) -> _Scope:
        entry, shape = self._entries.get(node.over), self._shapes.get(node.over)
        name = _Variable(shape and shape.names, entry and entry.names, None)
        value = _Variable(shape and shape.values, entry and entry.values, None)
        if len(node.names) == 2:
            return dict(zip(node.names, (name, value), strict=True))
        listed = self._checked.types[node.over].name == "list"
        return {node.names[0]: value if listed else name}

    def _call(self, node: Call, scope: _Scope) -> int:
        costs = [self.cost(arg, scope) for arg in node.args]
        if node.function == TERNARY:
            return self._ternary(node, costs)
        if node.function == "dyn":
            self._note(node, self._known(node.args[0]), self._entries.get(node.args[0]))
        found = [self._function(node, overload) for overload in self._checked.overloads[node]]
        results = [one for _, one in found if one is not None]
        if results:
            self._note(node, Size(min(one.least for one in results), max(one.most for one in results)))
        return capped(sum(costs) + max(cost for cost, _ in found))

    def _ternary(self, node: Call, costs: list[int]) -> int:
        _, yes, no = node.args
        one, other = self._entries.get(yes), self._entries.get(no)
        entry = one.union(other) if one and other else None
        self._note(node, self._size(yes).union(self._size(no)), entry)
        return capped(costs[0] + max(costs[1:]))

    def _function(self, node: Call, overload: Overload) -> sizes.Estimate:
        """The cost of one overload, without that of its arguments, and the size of its result."""
        given = [self._size(arg) for arg in node.args]
        if node.function in sizes.FUNCTIONS:
            return sizes.FUNCTIONS[node.function](given)
        if {node.function, *(param.name for param in overload.params)} == {"bytes", "string"}:
            return scaled(given[0].most, TEXT), Size(given[0].least, capped(given[0].most * 4))
        if node.function == INDEX:
            return 1, self._indexed(node)
        if node.function == "_+_":
            return self._added(node, overload, given)
        if node.function == "@in":
            return (given[1].most if overload.params[1].name == "list" else 1), None
        if node.function in ("isSorted", "sum", "min", "max", "indexOf", "lastIndexOf"):
            return self._searched(node, given[0])
        if node.function in ("_==_", "_!=_"):
            return self._equality(node, given)
        if node.function in _ORDERS and overload.params[0].name in ("string", "bytes"):
            return scaled(min(given[0].most, given[1].most), TEXT), None
        return 1, None

    def _equality(self, node: Call, given: list[Size]) -> sizes.Estimate:
        left, right = (self._checked.types[arg] for arg in node.args)
        if node.function == "_==_" and left == right and left.name in ("kubernetes.Quantity", "kubernetes.Semver"):
            return 1, None
        return scaled(min(given[0].most, given[1].most), TEXT), None

    def _indexed(self, node: Call) -> Size | None:
        entry, shape = self._entries.get(node.args[0]), self._shapes.get(node.args[0])
        if shape is not None and shape.values is not None:
            self._shapes[node] = shape.values
        return entry.values if entry else None

    def _added(self, node: Call, overload: Overload, given: list[Size]) -> sizes.Estimate:
        kind = overload.params[0].name
        if kind not in ("string", "bytes", "list"):
            return 1, None
        one, other = (self._entries.get(arg) for arg in node.args)
        if one and other:
            self._entries[node] = one.union(other)
        total = given[0].plus(given[1])
        return (1 if kind == "list" else scaled(total.most, TEXT)), total

    def _searched(self, node: Call, target: Size) -> sizes.Estimate:
        kind = self._checked.types[node.args[0]]
        if not kind.args:
            return scaled(target.most, TEXT), None
        each = 1 + (scaled(UINT_MAX, TEXT) if kind.args[0].name in ("string", "bytes") else 0)
        return capped(target.most * each), None

    def _size(self, node: Node) -> Size:
        return self._known(node) or UNKNOWN

    def _known(self, node: Node) -> Size | None:
        if node in self._sizes:
            return self._sizes[node]
        if isinstance(node, Literal):
            return Size(size(node.value), size(node.value))
        if isinstance(node, ListOf | MapOf):
            count = len(node.items if isinstance(node, ListOf) else node.entries)
            return Size(count, count)
        if node in self._shapes:
            return Size(0, self._shapes[node].most)
        kind = self._checked.types[node]
        if kind.name == "optional_type":
            kind = kind.args[0]
        return ONE if kind.name in _SCALARS else None
