"""Node labels as columns: for a label key, one small number per node that stands for its value.

Selectors and topology domains are both questions about such columns, answered for all nodes at once.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt

from kubenexus.common.objects import NodeSelectorTerm, Op, Requirement
from kubenexus.scheduler.engine.domains import Domains

Codes = npt.NDArray[np.int32]
Mask = npt.NDArray[np.bool_]
ABSENT = -1
# Selectors come from templates; those of long ago make room.
_MAX_MASKS = 1024

V = TypeVar("V", bound=Hashable)


class Column(Generic[V]):
    """The values of one label or fact: `codes[i]` is the value's number at node i, or ABSENT."""

    def __init__(self, size: int) -> None:
        self.codes: Codes = np.full(size, ABSENT, dtype=np.int32)
        self.values: list[V] = []
        self._numbers: dict[V, int] = {}
        self._domains: Domains | None = None

    def code(self, value: V) -> int:
        """The number of a value, or ABSENT if no node has had it."""
        return self._numbers.get(value, ABSENT)

    @property
    def domains(self) -> Domains:
        """The nodes by value, as of now; kept until a node changes."""
        if self._domains is None:
            self._domains = Domains(self.codes, len(self.values))
        return self._domains

    def set(self, node: int, value: V | None) -> None:
        self._domains = None
        if value is None:
            self.codes[node] = ABSENT
            return
        known = self._numbers.get(value)
        if known is None:
            known = self._numbers[value] = len(self.values)
            self.values.append(value)
        self.codes[node] = known

    def grow(self, size: int) -> None:
        self._domains = None
        self.codes = np.concatenate([self.codes, np.full(size - len(self.codes), ABSENT, dtype=np.int32)])

    def present(self) -> Mask:
        """The nodes that have a value."""
        found: Mask = self.codes != ABSENT
        return found

    def where(self, accepted: Iterable[bool], absent: bool) -> Mask:
        """The nodes whose value is accepted (one flag per value); `absent` is the answer for nodes without one."""
        table = np.fromiter((*accepted, absent), dtype=np.bool_, count=len(self.values) + 1)
        return table[self.codes]

    def where_in(self, wanted: Iterable[V]) -> Mask:
        """The nodes that have one of these values."""
        table = np.zeros(len(self.values) + 1, dtype=np.bool_)
        table[[self.code(value) for value in wanted]] = True
        table[ABSENT] = False  # also what a value that no node has was taken for
        return table[self.codes]


class LabelIndex:
    """Columns of the label keys somebody asked about, kept true as nodes come, change and go.

    The masks it gives are remembered until a node's labels change; they are shared and cannot be written to.
    """

    def __init__(self) -> None:
        self._columns: dict[str, Column[str]] = {}
        self._labels: list[dict[str, str] | None] = []
        self._names = Column[str](0)
        self._masks: dict[Hashable, Mask] = {}

    def grow(self, size: int) -> None:
        self._labels += [None] * (size - len(self._labels))
        for column in (self._names, *self._columns.values()):
            column.grow(size)
        self._masks.clear()

    def set(self, node: int, name: str, labels: dict[str, str] | None) -> None:
        """The node's labels; None when it is gone."""
        if labels is not None and self._labels[node] == labels and self._names.codes[node] == self._names.code(name):
            return
        self._labels[node] = labels
        self._names.set(node, None if labels is None else name)
        for key, column in self._columns.items():
            column.set(node, (labels or {}).get(key))
        self._masks.clear()

    def column(self, key: str) -> Column[str]:
        known = self._columns.get(key)
        if known is None:
            known = self._columns[key] = Column(len(self._labels))
            for node, labels in enumerate(self._labels):
                if labels is not None:
                    known.set(node, labels.get(key))
        return known

    def requirement(self, wanted: Requirement) -> Mask:
        """The nodes that fulfil one condition. Every value is looked at once, however many nodes have it."""
        return self._fulfil(self.column(wanted.key), wanted)

    def _fulfil(self, column: Column[str], wanted: Requirement) -> Mask:
        match wanted.op:
            case Op.IN:
                return column.where_in(wanted.values)
            case Op.NOT_IN:
                return ~column.where_in(wanted.values)
            case Op.EXISTS:
                return column.present()
            case Op.DOES_NOT_EXIST:
                return ~column.present()
        return column.where((wanted.matches({wanted.key: value}) for value in column.values), absent=False)

    def term(self, term: NodeSelectorTerm) -> Mask:
        """The nodes that a term matches; one that is wrong or says nothing matches none."""
        return self.any_term((term,))

    def any_term(self, terms: tuple[NodeSelectorTerm, ...]) -> Mask:
        """The nodes that some of the terms match."""
        known = self._masks.get(terms)
        if known is None:
            if len(self._masks) >= _MAX_MASKS:
                self._masks.clear()
            known = self._masks[terms] = np.zeros(len(self._labels), dtype=np.bool_)
            for term in terms:
                known |= self._term(term)
            known.flags.writeable = False
        return known

    def _term(self, term: NodeSelectorTerm) -> Mask:
        answer = np.full(len(self._labels), not term.error and bool(term.labels or term.fields))
        for requirement in term.labels:
            answer &= self.requirement(requirement)
        for requirement in term.fields:
            answer &= self._fulfil(self._names, requirement)
        return answer
