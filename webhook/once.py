"""Attributes that are found when they are first asked for. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

T = TypeVar("T")


class once(Generic[T]):  # noqa: N801 (it is written as a decorator)
    """As `functools.cached_property`, but nobody waits for others: before Python 3.12 that one holds a lock which all
    objects of a class share, also while a request waits for news of an owner."""

    def __init__(self, find: Callable[[Any], T]) -> None:
        self._find = find
        self.__doc__ = find.__doc__

    @overload
    def __get__(self, obj: None, cls: type) -> once[T]: ...
    @overload
    def __get__(self, obj: object, cls: type) -> T: ...
    def __get__(self, obj: object | None, cls: type) -> once[T] | T:
        if obj is None:
            return self
        found = obj.__dict__[self._find.__name__] = self._find(obj)
        return found
