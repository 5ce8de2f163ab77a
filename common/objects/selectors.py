"""Label and node selectors as compiled, hashable values.

A selector that cannot be read is a value too: it says why in `error` and matches nothing. An absent (nil) label
selector matches nothing while an empty one (`{}`) matches everything; plugins that see it differently ask `empty`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from kubenexus.common.objects.reading import Fields

NAME_FIELD: Final = "metadata.name"

_NAME = r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_DOMAIN_LABEL = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
_KEY = re.compile(rf"(?:(?=.{{1,253}}/){_DOMAIN_LABEL}(?:\.{_DOMAIN_LABEL})*/)?{_NAME}")
_VALUE = re.compile(rf"(?:{_NAME})?")
_INTEGER = re.compile(r"[+-]?[0-9]{1,19}")


class Op(StrEnum):
    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"
    GT = "Gt"
    LT = "Lt"


# Which operators a place allows, and what is wrong with a key and values under each ("" when nothing is).
_Rules = dict[Op, Callable[[str, tuple[str, ...]], str]]


@dataclass(frozen=True, slots=True)
class Requirement:
    """One condition on one label."""

    key: str
    op: Op
    values: frozenset[str] = frozenset()

    def matches(self, labels: Mapping[str, str]) -> bool:
        value = labels.get(self.key)
        match self.op:
            case Op.IN:
                return value in self.values
            case Op.NOT_IN:
                return value not in self.values
            case Op.EXISTS:
                return value is not None
            case Op.DOES_NOT_EXIST:
                return value is None
        number, bound = _int64(value), _int64(min(self.values))
        if number is None or bound is None:
            return False
        return number > bound if self.op is Op.GT else number < bound


def _int64(text: str | None) -> int | None:
    if text is None or not _INTEGER.fullmatch(text):
        return None
    number = int(text)
    return number if -(2**63) <= number < 2**63 else None


@dataclass(frozen=True, slots=True)
class LabelSelector:
    """Conditions that must all hold. `requirements` is None for a nil selector and for one that cannot be read."""

    requirements: tuple[Requirement, ...] | None
    error: str = ""

    @property
    def nil(self) -> bool:
        return self.requirements is None and not self.error

    @property
    def empty(self) -> bool:
        """Written as `{}`: there is a selector, and it has no condition."""
        return self.requirements == ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        return self.requirements is not None and all(one.matches(labels) for one in self.requirements)


NIL_SELECTOR: Final = LabelSelector(None)


def read_label_selector(fields: Fields, key: str) -> LabelSelector:
    """The label selector under a key."""
    if fields.raw.get(key) is None:
        return NIL_SELECTOR
    problems: list[str] = []
    selector = Fields(fields.raw, problems).child(key)
    equal = [_label_equals(selector, name, value) for name, value in selector.pairs("matchLabels").items()]
    more = _requirements(selector, "matchExpressions", _LABEL_RULES)
    return LabelSelector(None, problems[0]) if problems else LabelSelector((*equal, *more))


@dataclass(frozen=True, slots=True)
class NodeSelectorTerm:
    """Conditions on a node's labels and name that must all hold; a term without any matches no node."""

    labels: tuple[Requirement, ...] = ()
    fields: tuple[Requirement, ...] = ()
    error: str = ""

    def matches(self, labels: Mapping[str, str], name: str) -> bool:
        if self.error or not (self.labels or self.fields):
            return False
        return all(one.matches(labels) for one in self.labels) and all(
            one.matches({NAME_FIELD: name}) for one in self.fields
        )


@dataclass(frozen=True, slots=True)
class NodeSelector:
    """Terms of which one must match; without terms it matches no node."""

    terms: tuple[NodeSelectorTerm, ...]

    @property
    def errors(self) -> tuple[str, ...]:
        return tuple(term.error for term in self.terms if term.error)

    def matches(self, labels: Mapping[str, str], name: str) -> bool:
        return any(term.matches(labels, name) for term in self.terms)


def read_node_selector(fields: Fields, key: str) -> NodeSelector | None:
    """The node selector under a key; None when there is none."""
    selector = fields.maybe(key)
    if selector is None:
        return None
    return NodeSelector(tuple(read_node_term(term) for term in selector.children("nodeSelectorTerms")))


def read_node_term(term: Fields) -> NodeSelectorTerm:
    """One term; what is wrong with it is said in its `error`, since the other terms may still match."""
    problems: list[str] = []
    own = Fields(term.raw, problems, key=term.path())
    labels = _requirements(own, "matchExpressions", _NODE_RULES)
    names = _requirements(own, "matchFields", _FIELD_RULES)
    return NodeSelectorTerm(labels, names, problems[0] if problems else "")


def _label_equals(selector: Fields, key: str, value: str) -> Requirement:
    if why := _wrong_grammar(key, (value,)):
        selector.problem("matchLabels", why)
    return Requirement(key, Op.IN, frozenset((value,)))


def _requirements(fields: Fields, key: str, rules: _Rules) -> tuple[Requirement, ...]:
    read = (_requirement(item, rules) for item in fields.children(key))
    return tuple(one for one in read if one is not None)


def _requirement(item: Fields, rules: _Rules) -> Requirement | None:
    key, op, values = item.text("key"), item.text("operator"), item.texts("values")
    if op not in rules:
        item.problem("operator", f"is {op!r}, not one of {', '.join(rules)}")
        return None
    if why := rules[Op(op)](key, values):
        item.problem("", f"{why} for {op}")
        return None
    return Requirement(key, Op(op), frozenset(values))


def _some_values(key: str, values: tuple[str, ...]) -> str:
    return _wrong_grammar(key, values) if values else "must have values"


def _no_values(key: str, values: tuple[str, ...]) -> str:
    return "must have no values" if values else _wrong_grammar(key, values)


def _one_integer(key: str, values: tuple[str, ...]) -> str:
    fits = len(values) == 1 and _int64(values[0]) is not None
    return _wrong_grammar(key, values) if fits else "must have one value, an integer,"


def _one_name(key: str, values: tuple[str, ...]) -> str:
    return "" if key == NAME_FIELD and len(values) == 1 else f"must compare {NAME_FIELD} with one value"


def _wrong_grammar(key: str, values: tuple[str, ...]) -> str:
    if not _KEY.fullmatch(key):
        return f"has {key!r}, which is not a label key,"
    bad = [value for value in values if not _VALUE.fullmatch(value)]
    return f"has {bad[0]!r}, which is not a label value," if bad else ""


_LABEL_RULES: Final[_Rules] = {
    Op.IN: _some_values,
    Op.NOT_IN: _some_values,
    Op.EXISTS: _no_values,
    Op.DOES_NOT_EXIST: _no_values,
}
_NODE_RULES: Final[_Rules] = {**_LABEL_RULES, Op.GT: _one_integer, Op.LT: _one_integer}
_FIELD_RULES: Final[_Rules] = {Op.IN: _one_name, Op.NOT_IN: _one_name}
