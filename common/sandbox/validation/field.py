"""A place in an object under validation, and the errors found there, in the API server's words."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from fractions import Fraction
from typing import Any

from kubenexus.common import quantity
from kubenexus.common.sandbox.validation.grammar import Grammar

Obj = dict[str, Any]

INVALID = "FieldValueInvalid"
REQUIRED = "FieldValueRequired"
DUPLICATE = "FieldValueDuplicate"
TOO_LONG = "FieldValueTooLong"
TOO_MANY = "FieldValueTooMany"
FORBIDDEN = "FieldValueForbidden"
UNSUPPORTED = "FieldValueNotSupported"
NOT_FOUND = "FieldValueNotFound"
TYPE_INVALID = "FieldValueTypeInvalid"

_BAD_QUANTITY = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"


@dataclass(frozen=True, slots=True, order=True)
class Amount:
    """A quantity: compared by its exact value, printed in canonical form."""

    exact: Fraction
    text: str = dataclass_field(compare=False)

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class FieldError:
    """One refusal: where, which kind (a `cause.reason` of the API), and the sentence without the path."""

    field: str
    reason: str
    message: str

    def __str__(self) -> str:
        return f"{self.field}: {self.message}"


class Field:
    """One place of an object: a path, the value there (None when absent) and the list that collects errors.

    Children are reached by `field["name"]`, whether or not they exist. Typed reads (`text`, `integer`, `flag`, `items`,
    `entries`) give the zero value for what is absent, and for a value of the wrong type too, after recording that.
    """

    __slots__ = ("errors", "path", "value")

    def __init__(self, value: Any, path: str = "", errors: list[FieldError] | None = None) -> None:
        self.value = value
        self.path = path
        self.errors: list[FieldError] = [] if errors is None else errors

    def __getitem__(self, name: str) -> Field:
        value = self._typed(dict, "an object", {}).get(name)
        return Field(value, f"{self.path}.{name}" if self.path else name, self.errors)

    def key(self, name: str) -> Field:
        """The entry of a map whose keys are data: its path is `map[name]`."""
        return Field(self[name].value, f"{self.path}[{name}]", self.errors)

    @property
    def present(self) -> bool:
        return self.value is not None

    def text(self) -> str:
        return str(self._typed(str, "a string", ""))

    def integer(self) -> int:
        return int(self._typed(int, "an integer", 0))

    def flag(self) -> bool:
        return bool(self._typed(bool, "a boolean", False))

    def items(self, limit: int | None = None) -> list[Field]:
        """The elements of a list; none, and an error, when there are more than `limit`."""
        values = self._typed(list, "an array", [])
        if limit is not None and len(values) > limit:
            self.too_many(len(values), limit)
            return []
        return [Field(value, f"{self.path}[{index}]", self.errors) for index, value in enumerate(values)]

    def entries(self) -> list[tuple[str, Field]]:
        """The entries of a map whose keys are data, in the order of the keys."""
        return [(name, self.key(name)) for name in sorted(self._typed(dict, "an object", {}))]

    def names(self) -> list[str]:
        """The keys that are set to something."""
        return [name for name, value in self._typed(dict, "an object", {}).items() if value is not None]

    def amount(self) -> Amount | None:
        """The quantity here. None when there is none, or when it is malformed, which is an error."""
        if self.value is None:
            return None
        try:
            return Amount(quantity.parse(self.value), quantity.canonical(self.value))
        except (quantity.QuantityError, TypeError):
            self.invalid(_BAD_QUANTITY)
            return None

    def _typed(self, kind: type, name: str, zero: Any) -> Any:
        if self.value is None:
            return zero
        if isinstance(self.value, kind) and not (kind is int and isinstance(self.value, bool)):
            return self.value
        self._add(TYPE_INVALID, f"must be {name}", self.value)
        return zero

    # What the server says. Each records one error here.

    def invalid(self, detail: str, value: Any = ...) -> None:
        self._add(INVALID, detail, self.value if value is ... else value)

    def required(self, detail: str = "") -> None:
        self._add(REQUIRED, detail)

    def forbidden(self, detail: str) -> None:
        self._add(FORBIDDEN, detail)

    def duplicate(self, value: Any = ..., detail: str = "") -> None:
        self._add(DUPLICATE, detail, self.value if value is ... else value)

    def too_long(self, limit: int) -> None:
        self._add(TOO_LONG, f"may not be more than {limit} bytes")

    def too_many(self, count: int, limit: int) -> None:
        self._add(TOO_MANY, f"must have at most {limit} item{'s' if limit != 1 else ''}", count)

    def not_found(self, detail: str = "") -> None:
        self._add(NOT_FOUND, detail, self.value)

    def unsupported(self, choices: Iterable[str], value: Any = ...) -> None:
        shown = self.value if value is ... else value
        self._add(UNSUPPORTED, "supported values: " + ", ".join(f'"{choice}"' for choice in choices), shown)

    # Checks that many kinds share.

    def follow(self, grammar: Grammar) -> None:
        """The text here obeys a grammar."""
        for problem in grammar(self.text()):
            self.invalid(problem, self.text())

    def choose(self, *choices: str, optional: bool = False) -> None:
        """The text here is one of these; absent is allowed only when optional."""
        if self.text() not in choices:
            if self.text():
                self.unsupported(choices)
            elif not optional:
                self.required()

    def fit(self, limit: int) -> None:
        """The text here has at most so many bytes."""
        if len(self.text().encode()) > limit:
            self.too_long(limit)

    def at_least(self, least: int) -> None:
        """The number here, absent being zero, is not below `least`."""
        if self.integer() < least:
            why = "must be greater than zero" if least == 1 else f"must be greater than or equal to {least}"
            self.invalid(why, self.integer())

    def within(self, least: int, most: int) -> None:
        """The number here is in a range."""
        if not least <= self.integer() <= most:
            self.invalid(f"must be between {least} and {most}, inclusive", self.integer())

    def keep(self, old: Field) -> None:
        """The value here is what it was before."""
        if not same(self.value, old.value):
            self.invalid("field is immutable")

    def _add(self, reason: str, detail: str, value: Any = ...) -> None:
        shown = "" if value is ... else f": {_show(value)}"
        message = _WORDS[reason] + shown + (f": {detail}" if detail else "")
        error = FieldError(self.path, reason, message)
        if reason != TYPE_INVALID or error not in self.errors:
            self.errors.append(error)


def unique(items: Iterable[Field], key: Callable[[Field], Hashable]) -> None:
    """No two items have the same key; the later one is the duplicate."""
    seen = set()
    for item in items:
        mark = key(item)
        if mark in seen:
            item.duplicate(mark)
        seen.add(mark)


def same(left: Any, right: Any) -> bool:
    """Equality as the server sees it: absent, null, empty list and empty map are one."""
    return bool(_bare(left) == _bare(right))


def _bare(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: bare for name, item in value.items() if (bare := _bare(item)) is not None} or None
    if isinstance(value, list):
        return [_bare(item) for item in value] or None
    return value


def _show(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


_WORDS = {
    INVALID: "Invalid value",
    REQUIRED: "Required value",
    DUPLICATE: "Duplicate value",
    TOO_LONG: "Too long",
    TOO_MANY: "Too many",
    FORBIDDEN: "Forbidden",
    UNSUPPORTED: "Unsupported value",
    NOT_FOUND: "Not found",
    TYPE_INVALID: "Invalid value",
}
