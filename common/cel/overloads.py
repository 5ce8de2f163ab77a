"""How a function is described: its name, the types it takes and gives, and the Python function behind it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kubenexus.common.cel.errors import CelRuntimeError
from kubenexus.common.cel.types import Type, read_type
from kubenexus.common.cel.values import type_name


@dataclass(frozen=True, slots=True)
class Overload:
    """One form of a function. A member function is called on its first parameter."""

    function: str
    member: bool
    params: tuple[Type, ...]
    result: Type
    run: Callable[..., Any]

    def takes(self, args: tuple[object, ...]) -> bool:
        """Whether values are of the right types, by their outermost type."""
        return all(
            param.is_parameter or param.name == "dyn" or type_name(arg) == param.name
            for param, arg in zip(self.params, args, strict=True)
        )


def overload(signature: str, run: Callable[..., Any]) -> Overload:
    """An overload from its signature: `size(string) int` for a function, `.size(string) int` for a member."""
    head, _, result = signature.rpartition(") ")
    name, _, params = head.partition("(")
    return Overload(name.lstrip("."), name.startswith("."), read_type(f"f({params})").args, read_type(result), run)


def no_overload(function: str, args: tuple[object, ...]) -> CelRuntimeError:
    """The error for values that no form of the function takes."""
    return CelRuntimeError(f"no such overload: {function}({', '.join(map(type_name, args))})")


def decided_elsewhere(*_: object) -> object:
    """Stands for what leaves out operands, which the evaluator does itself."""
    raise AssertionError("not a function of its arguments alone")
