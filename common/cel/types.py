"""Static types, as far as the device and the literals of an expression tell them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final


@dataclass(frozen=True, slots=True)
class Type:
    """A type with its parameters. One capital letter is a parameter of a function, to be found when it is called.

    `size` is how many types it is made of. What looks at a type looks at all of these.
    """

    name: str
    args: tuple[Type, ...] = ()
    size: int = field(init=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", 1 + sum(arg.size for arg in self.args))

    def __str__(self) -> str:
        name = "dyn" if self.name == "open" else self.name
        return name + (f"({', '.join(map(str, self.args))})" if self.args else "")

    @property
    def is_parameter(self) -> bool:
        return len(self.name) == 1


_WORD = re.compile(r"[A-Za-z_.]+|[(),]")


@lru_cache
def read_type(text: str) -> Type:
    """A type from how it is printed, such as `map(string, list(A))`."""
    words = _WORD.findall(text)
    return _read(words)


def _read(words: list[str]) -> Type:
    name, args = words.pop(0), []
    if words[:1] == ["("]:
        while words.pop(0) != ")" and words[0] != ")":
            args.append(_read(words))
    return Type(name, tuple(args))


DYN: Final = Type("dyn")
ANY: Final = Type("any")
# The items of `[]`: any type goes with it, and what it meets decides.
OPEN: Final = Type("open")
BOOL: Final = Type("bool")
INT: Final = Type("int")
STRING: Final = Type("string")
DEVICE: Final = Type("kubernetes.DRADevice")

# What `device` has.
DEVICE_FIELDS: Final = {
    "driver": STRING,
    "allowMultipleAllocations": BOOL,
    "attributes": read_type("map(string, map(string, any))"),
    "capacity": read_type("map(string, map(string, kubernetes.Quantity))"),
}
_NULLABLE: Final = {"kubernetes.Quantity", "kubernetes.Semver", "kubernetes.DRADevice", "optional_type"}


def is_dynamic(kind: Type) -> bool:
    """Whether only the evaluation can tell what this is."""
    return kind in (DYN, ANY, OPEN)


def listing(item: Type) -> Type:
    return Type("list", (item,))


def mapping(name: Type, value: Type) -> Type:
    return Type("map", (name, value))


def optional(held: Type) -> Type:
    return Type("optional_type", (held,))


def assign(wanted: Type, given: Type, found: dict[str, Type]) -> bool:
    """Whether a value of type `given` can be used as `wanted`; parameters of `wanted` are noted in `found`."""
    if wanted.is_parameter:
        return _assign_parameter(wanted.name, given, found)
    if is_dynamic(wanted) or is_dynamic(given):
        return True
    if "null_type" in (wanted.name, given.name) and not _NULLABLE.isdisjoint((wanted.name, given.name)):
        return True
    if wanted.name != given.name or len(wanted.args) != len(given.args):
        return False
    return all(assign(one, other, found) for one, other in zip(wanted.args, given.args, strict=True))


def _assign_parameter(name: str, given: Type, found: dict[str, Type]) -> bool:
    known = found.get(name)
    if known is None:
        found[name] = given
        return True
    if not assign(known, given, {}):
        return False
    found[name] = more_general(known, given)
    return True


def is_same(left: Type, right: Type) -> bool:
    """Whether two types are one, as far as they are decided."""
    if OPEN in (left, right):
        return True
    same = left.name == right.name and len(left.args) == len(right.args)
    return same and all(map(is_same, left.args, right.args))


def more_general(left: Type, right: Type) -> Type:
    """Of two types that go together, the one that promises less."""
    if OPEN in (left, right):
        return right if left == OPEN else left
    if is_dynamic(left) or is_dynamic(right):
        return left if is_dynamic(left) else right
    if left.name == "null_type":
        return right
    if left.name != right.name or not left.args:
        return left
    return Type(left.name, tuple(map(more_general, left.args, right.args)))


def filled(kind: Type, found: dict[str, Type]) -> Type:
    """The type with its parameters replaced; one that nothing tells stays open."""
    if kind.is_parameter:
        return found.get(kind.name, OPEN)
    return Type(kind.name, tuple(filled(arg, found) for arg in kind.args)) if kind.args else kind
