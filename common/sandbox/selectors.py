"""Label and field selectors: parsed from a query or from a LabelSelector object, then asked of objects. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from kubenexus.common.sandbox.errors import bad_request

Obj = dict[str, Any]
Labels = Mapping[str, str]

_TOKEN = re.compile(r"\s*(?:(?P<word>[A-Za-z0-9][A-Za-z0-9._/-]*|[._-][A-Za-z0-9._/-]*)|(?P<sign>==|!=|[=!(),<>]))")
_KEY = re.compile(r"([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")


@dataclass(frozen=True, slots=True)
class Requirement:
    """One condition on one label."""

    key: str
    operator: str  # In, NotIn, Exists, DoesNotExist, Gt, Lt
    values: frozenset[str] = frozenset()

    def matches(self, labels: Labels) -> bool:
        value = labels.get(self.key)
        match self.operator:
            case "Exists":
                return value is not None
            case "DoesNotExist":
                return value is None
            case "In":
                return value in self.values
            case "NotIn":
                return value not in self.values
        return _compare(value, self.operator, next(iter(self.values)))


@dataclass(frozen=True, slots=True)
class LabelSelector:
    """A conjunction of requirements; without any it matches everything."""

    requirements: tuple[Requirement, ...] = ()

    def matches(self, labels: Labels | None) -> bool:
        return all(requirement.matches(labels or {}) for requirement in self.requirements)

    @staticmethod
    def parse(text: str) -> LabelSelector:
        """From a `labelSelector` query; raises a 400 that names the trouble."""
        return LabelSelector(tuple(_Parser(text).requirements()))


def matches_label_selector(selector: Obj | None, labels: Labels | None) -> bool:
    """Ask a selector object (`matchLabels`, `matchExpressions`): empty matches everything, absent matches nothing."""
    if selector is None:
        return False
    wanted = [Requirement(key, "In", frozenset((value,))) for key, value in (selector.get("matchLabels") or {}).items()]
    wanted += [
        Requirement(term["key"], term["operator"], frozenset(term.get("values") or ()))
        for term in selector.get("matchExpressions") or ()
    ]
    return LabelSelector(tuple(wanted)).matches(labels)


def _compare(value: str | None, operator: str, bound: str) -> bool:
    try:
        number, limit = int(value or ""), int(bound)
    except ValueError:
        return False
    return number > limit if operator == "Gt" else number < limit


class _Parser:
    """Recursive descent over `a=b,c!=d,e in (f,g),h,!i`."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = self._scan(text)
        self._at = 0

    def _scan(self, text: str) -> list[str]:
        tokens, at = [], 0
        text = text.rstrip()
        while at < len(text):
            found = _TOKEN.match(text, at)
            if not found:
                raise self._error(f"found '{text[at:].strip()[:1]}'")
            tokens.append(found["word"] or found["sign"])
            at = found.end()
        return tokens

    def _error(self, why: str) -> Exception:
        return bad_request(f'unable to parse requirement "{self._text}": {why}')

    def _next(self) -> str:
        self._at += 1
        return self._tokens[self._at - 1] if self._at <= len(self._tokens) else ""

    def _peek(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def requirements(self) -> list[Requirement]:
        found: list[Requirement] = []
        while self._peek():
            found.append(self._requirement())
            following = self._next()
            if following not in ("", ","):
                raise self._error(f"found '{following}', expected: ',' or end of string")
            if following == "," and not self._peek():
                raise self._error("found '', expected: identifier after ','")
        return found

    def _requirement(self) -> Requirement:
        if self._peek() == "!":
            self._next()
            return Requirement(self._key(), "DoesNotExist")
        key = self._key()
        match self._peek():
            case "" | ",":
                return Requirement(key, "Exists")
            case "=" | "==":
                return Requirement(key, "In", frozenset((self._value_after_sign(),)))
            case "!=":
                return Requirement(key, "NotIn", frozenset((self._value_after_sign(),)))
            case "in" | "notin" as word:
                self._next()
                return Requirement(key, "In" if word == "in" else "NotIn", frozenset(self._values()))
            case "<" | ">" as sign:
                return Requirement(key, "Gt" if sign == ">" else "Lt", frozenset((self._value_after_sign(),)))
        raise self._error(f"found '{self._peek()}', expected: in, notin, =, ==, !=, gt, lt")

    def _key(self) -> str:
        key = self._next()
        if not _KEY.fullmatch(key):
            raise self._error(f"found '{key}', expected: !, identifier, or 'end of string'")
        return key

    def _value_after_sign(self) -> str:
        sign = self._next()
        value = "" if self._peek() in ("", ",") else self._value()
        if sign in "<>" and not value.removeprefix("-").isdecimal():
            raise self._error(
                f"values[0]: Invalid value: \"{value}\": for 'Gt', 'Lt' operators, the value must be an integer"
            )
        return value

    def _value(self) -> str:
        value = self._next()
        if not _VALUE.fullmatch(value):
            raise self._error(f"'{value}' is not a valid label value")
        return value

    def _values(self) -> list[str]:
        if self._next() != "(":
            raise self._error("expected: '('")
        values = []
        while self._peek() not in (")", ""):
            values.append("" if self._peek() == "," else self._value())
            if self._peek() == ",":
                self._next()
        if self._next() != ")":
            raise self._error("expected: ',' or ')'")
        return values


@dataclass(frozen=True, slots=True)
class FieldSelector:
    """Equality conditions on the few fields that a kind lets itself be selected by."""

    terms: tuple[tuple[Callable[[Obj], str], str, bool], ...] = ()  # (reader, value, wanted equal)

    def matches(self, obj: Obj) -> bool:
        return all((reader(obj) == value) is equal for reader, value, equal in self.terms)

    @staticmethod
    def parse(text: str, readers: Mapping[str, Callable[[Obj], str]]) -> FieldSelector:
        """From a `fieldSelector` query; `readers` names the supported fields. A 400 names an unsupported one."""
        return FieldSelector(tuple(_field_term(part, readers) for part in re.split(r"(?<!\\),", text) if part))


def _field_term(part: str, readers: Mapping[str, Callable[[Obj], str]]) -> tuple[Callable[[Obj], str], str, bool]:
    found = re.fullmatch(r"(.*?)(!=|==|=)(.*)", part, re.DOTALL)
    if not found:
        raise bad_request(f"invalid selector: '{part}'; can't understand '{part}'")
    field, sign, value = found.groups()
    if field not in readers:
        raise bad_request(f"field label not supported: {field}")
    return readers[field], re.sub(r"\\([\\,=])", r"\1", value), sign != "!="
