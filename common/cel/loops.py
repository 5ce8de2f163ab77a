"""Loops over lists and maps, which all macros with a variable come down to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from kubenexus.common.cel.closures import Frame, Run
from kubenexus.common.cel.errors import BudgetError, CelRuntimeError
from kubenexus.common.cel.overloads import no_overload
from kubenexus.common.cel.values import MAX_LIST, Failure, key, keys


class Fold(NamedTuple):
    """`start` is put into `place` and replaced by `step` while `going` holds; with None always, and errors end it."""

    place: int
    start: Run
    going: Run | None
    step: Run
    end: Run


class Collect(NamedTuple):
    """What is added for each round that passes `test`: a value to a list, or if there is a `name` to a map."""

    test: Run | None
    name: Run | None
    value: Run


def folding(over: Run, variables: tuple[int, ...], fold: Fold) -> Run:
    """A loop that computes one value."""
    place, start, going, step, end = fold
    rounds = _rounds(variables)

    def run(frame: Frame) -> Any:
        values = over(frame)
        frame[place] = start(frame)
        for _ in rounds(frame, values):
            if going is None:
                frame[place] = step(frame)
                continue
            if not going(frame):
                break
            frame[place] = _attempt(step, frame)
        return end(frame)

    return run


def _attempt(step: Run, frame: Frame) -> Any:
    """The value, or the error as a value: a later round may make up for it."""
    try:
        return step(frame)
    except BudgetError:
        raise
    except CelRuntimeError as error:
        return Failure(error)


def collecting(over: Run, variables: tuple[int, ...], collect: Collect) -> Run:
    """A loop that makes a list or a map."""
    test, name, value = collect
    rounds = _rounds(variables)

    def into_list(frame: Frame) -> tuple[Any, ...]:
        return tuple([value(frame) for _ in rounds(frame, over(frame)) if test is None or _passes(test, frame)])

    def into_map(frame: Frame) -> dict[Any, Any]:
        assert name is not None
        passing = (True for _ in rounds(frame, over(frame)) if test is None or _passes(test, frame))
        return {key(name(frame)): value(frame) for _ in passing}

    return into_list if name is None else into_map


def _passes(test: Run, frame: Frame) -> bool:
    value = test(frame)
    if type(value) is not bool:
        raise no_overload("_?_:_", (value,))
    return value


def _rounds(variables: tuple[int, ...]) -> Callable[[Frame, Any], Iterator[None]]:
    """Sets the variables for one round after the other."""

    def singles(frame: Frame, values: Any) -> Iterator[None]:
        (place,) = variables
        for frame[place] in _items(values):
            yield

    def pairs(frame: Frame, values: Any) -> Iterator[None]:
        first, second = variables
        for frame[first], frame[second] in _pairs(values):
            yield

    return singles if len(variables) == 1 else pairs


def _items(values: Any) -> Iterable[Any]:
    """The items of a list, or the keys of a map."""
    if isinstance(values, dict):
        return keys(values)
    if type(values) is tuple and len(values) <= MAX_LIST:
        return values
    raise no_overload("@loop", (values,))


def _pairs(values: Any) -> Iterable[tuple[Any, Any]]:
    if isinstance(values, dict):
        return zip(keys(values), values.values(), strict=True)
    return enumerate(_items(values))
