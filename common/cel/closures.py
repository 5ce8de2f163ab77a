"""The closures that expressions are made of. Each takes the frame of an evaluation.

A frame holds the facts, the budget that is left, and one place for each variable.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any, Final

from kubenexus.common.cel.costs import COMPILING, FAILURE, cost_of, cost_of_known
from kubenexus.common.cel.errors import BudgetError, CelRuntimeError
from kubenexus.common.cel.facts import Facts
from kubenexus.common.cel.library_operators import is_equal, maybe_entry
from kubenexus.common.cel.library_text import pattern
from kubenexus.common.cel.overloads import Overload, no_overload
from kubenexus.common.cel.syntax import INDEX, TERNARY, Call, Literal
from kubenexus.common.cel.values import NOTHING, Failure, Maybe

Frame = list[Any]
Run = Callable[[Frame], Any]

FACTS: Final = 0
LEFT: Final = 1
VARIABLES: Final = 2


def charge(frame: Frame, cost: int) -> None:
    """Takes from the budget; raises `BudgetError` once it is used up."""
    frame[LEFT] -= cost
    if frame[LEFT] < 0:
        raise BudgetError


def charged(cost: int, run: Run) -> Run:
    """`run` for a price."""

    def charged(frame: Frame) -> Any:
        charge(frame, cost)
        return run(frame)

    return charged


def constant(value: object) -> Run:
    return lambda _: value


def reading(place: int) -> Run:
    """A variable; one that could not be computed fails here."""

    def read(frame: Frame) -> Any:
        value = frame[place]
        if type(value) is Failure:
            raise value.error
        return value

    return (lambda frame: frame[FACTS]) if place == FACTS else read


def field(operand: Run, name: str) -> Run:
    """A field of the device."""
    get = attrgetter(name)
    return lambda frame: get(operand(frame))


def selecting(operand: Run, name: str, *, test: bool) -> Run:
    """`operand.name`, or whether there is one."""

    def select(frame: Frame) -> Any:
        values = operand(frame)
        try:
            return values[name] if isinstance(values, dict) else _other(values, name)
        except KeyError:
            raise CelRuntimeError(f"no such key: {name}") from None

    def has(frame: Frame) -> bool:
        values = operand(frame)
        if isinstance(values, Maybe):
            values = values.held[0] if values.held else {}
        return bool(maybe_entry(values, name).held)

    return has if test else select


def _other(value: object, name: str) -> Any:
    """A field of something that is no map."""
    if isinstance(value, Maybe):
        return maybe_entry(value.held[0], name) if value.held else NOTHING
    if isinstance(value, Facts):
        return value.fields[name]
    raise no_overload("select", (value, name))


def logic(decisive: bool, terms: tuple[Run, ...]) -> Run:
    """`||` (decided by True) or `&&` (by False): one term that decides makes up for others that fail."""

    def decide(frame: Frame) -> bool:
        failed: CelRuntimeError | None = None
        for term in terms:
            try:
                value = term(frame)
            except BudgetError:
                raise
            except CelRuntimeError as error:
                charge(frame, FAILURE)
                failed = failed or error
                continue
            if value is decisive:
                return bool(value)
            if type(value) is not bool:
                failed = failed or no_overload("_||_" if decisive else "_&&_", (value,))
        if failed:
            raise failed
        return not decisive

    return decide


def ternary(test: Run, yes: Run, no: Run) -> Run:
    def choose(frame: Frame) -> Any:
        value = test(frame)
        if type(value) is not bool:
            raise no_overload(TERNARY, (value,))
        return yes(frame) if value else no(frame)

    return choose


def otherwise(function: str, first: Run, second: Run) -> Run:
    """`or` and `orValue`: what is there decides, optional or not, and the second is not even looked at."""

    def choose(frame: Frame) -> Any:
        found = first(frame)
        if type(found) is not Maybe:
            return found
        if not found.held:
            return second(frame)
        return found.held[0] if function == "orValue" else found

    return choose


def not_false(operand: Run) -> Run:
    """Whether a loop may still change its result: an error may yet be made up for."""

    def holds(frame: Frame) -> bool:
        try:
            return operand(frame) is not False
        except BudgetError:
            raise
        except CelRuntimeError:
            return True

    return holds


def binding(place: int, value: Run, body: Run) -> Run:
    """`cel.bind`: an error of the value matters only where the variable is read."""

    def bind(frame: Frame) -> Any:
        try:
            frame[place] = value(frame)
        except BudgetError:
            raise
        except CelRuntimeError as error:
            frame[place] = Failure(error)
        return body(frame)

    return bind


def read_once(overload: Overload, args: tuple[object, ...]) -> Run:
    """A text that is read when the expression is compiled; if it cannot be, the evaluation says so."""
    try:
        return constant(overload.run(*args))
    except CelRuntimeError as error:
        return reading_failure(Failure(error))


def reading_failure(failure: Failure) -> Run:
    def fail(_: Frame) -> Any:
        raise CelRuntimeError(str(failure.error))

    return fail


def metered_call(function: str, overloads: tuple[Overload, ...], args: tuple[Run, ...]) -> Run:
    """A call that is charged before it is made."""

    def call(frame: Frame) -> Any:
        values = tuple([arg(frame) for arg in args])
        run = _chosen(function, overloads, values)
        charge(frame, cost_of(function, values, frame[LEFT]))
        return run(*values)

    return call


def pattern_call(function: str, overloads: tuple[Overload, ...], args: tuple[Run, ...], *, written: bool) -> Run:
    """A call with a regular expression. It must be able to pay the worst, and gets back what was known already.

    One that is not `written` out as a literal has to be compiled first.
    """

    def call(frame: Frame) -> Any:
        values = tuple([arg(frame) for arg in args])
        run = _chosen(function, overloads, values)
        charge(frame, 0 if written else COMPILING)
        machine = pattern(values[1])
        worst, before = cost_of(function, values, frame[LEFT]), machine.worked
        charge(frame, worst)
        result = run(*values)
        frame[LEFT] += max(0, worst - cost_of_known(function, values) - machine.worked + before)
        return result

    return call


def plain_call(function: str, overloads: tuple[Overload, ...], args: tuple[Run, ...], *, sure: bool) -> Run:
    """A call without a charge; if one overload is `sure`, without a look at the types of its values."""
    if not sure:
        return lambda frame: _dispatched(function, overloads, tuple([arg(frame) for arg in args]))
    run = overloads[0].run
    match args:
        case (one,):
            return lambda frame: run(one(frame))
        case (one, other):
            return lambda frame: run(one(frame), other(frame))
    return lambda frame: run(*[arg(frame) for arg in args])


def _dispatched(function: str, overloads: tuple[Overload, ...], values: tuple[Any, ...]) -> Any:
    return _chosen(function, overloads, values)(*values)


def _chosen(function: str, overloads: tuple[Overload, ...], values: tuple[Any, ...]) -> Callable[..., Any]:
    for overload in overloads:
        if overload.takes(values):
            return overload.run
    raise no_overload(function, values)


def _equal_to(operand: Run, text: str) -> Run:
    def same(frame: Frame) -> bool:
        value = operand(frame)
        return value == text if type(value) is str else is_equal(value, text)

    return same


def quick(node: Call, sure: bool, args: tuple[Run, ...]) -> Run | None:
    """Shorter ways for what most selectors consist of: looking up a name, and comparing with a text."""
    if len(node.args) != 2 or not isinstance(node.args[1], Literal) or type(node.args[1].value) is not str:
        return None
    first, text = args[0], node.args[1].value
    match node.function:
        case "_==_":
            return _equal_to(first, text)
        case "_!=_":
            return lambda frame: first(frame) != text
        case _ if node.function == INDEX and sure:
            return selecting(first, text, test=False)
    return None
