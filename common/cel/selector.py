"""Selectors of devices: the expressions of DeviceClasses and ResourceClaims, compiled once for all devices."""

from __future__ import annotations

from typing import Final

from kubenexus.common.cel.checker import check
from kubenexus.common.cel.closures import FACTS, LEFT, Frame, Run, charge
from kubenexus.common.cel.errors import BudgetError, CelError, CelRuntimeError
from kubenexus.common.cel.estimate import estimate
from kubenexus.common.cel.evaluate import build
from kubenexus.common.cel.facts import Facts
from kubenexus.common.cel.parser import parse
from kubenexus.common.cel.syntax import Bind, Call, Loop, Node, walk

MAX_BYTES: Final = 10 * 1024
# In the units of `max_cost`; both the API server's estimate and one evaluation must stay below.
MAX_COST: Final = 1_000_000

# Characters of expressions that are kept compiled, which takes some hundred bytes for each.
_MOST_KEPT: Final = 500_000
# Where the estimate is higher, every step is counted.
_CHEAP: Final = 1_000
# What is not counted: each evaluation, and so many nodes of the expression for one step more.
_TOLL: Final = 5
_NODES: Final = 5
# With these an expression may do more than its length and its estimate tell, so every step is counted, too.
_UNBOUNDED: Final = frozenset({"matches", "find", "findAll", "distinct", "lists.range", "flatten"})


class Purse:
    """What many evaluations may cost together: as much as one, and a little more for each.

    So a few of them may be dear, but not one for every device of a cluster.
    """

    __slots__ = ("_each", "left")

    def __init__(self, each: int) -> None:
        self._each, self.left = each, MAX_COST

    @property
    def spent(self) -> bool:
        """Whether there is no more than that little left."""
        return self.left <= self._each

    def put_back(self, left: int) -> None:
        """What an evaluation left of all that was there."""
        self.left = min(max(left, 0) + self._each, MAX_COST)

    def refill(self, least: int) -> None:
        """From now on there is as much in it, if there was less."""
        self.left = max(self.left, least)


class Selector:
    """A compiled expression. `max_cost` is the most it can cost by the API server's estimate."""

    __slots__ = ("_length", "_run", "_toll", "max_cost")

    def __init__(self, run: Run, length: int, toll: int, max_cost: int) -> None:
        self.max_cost = max_cost
        self._run, self._length, self._toll = run, length, toll

    def matches(self, device: Facts, purse: Purse | None = None) -> bool:
        """Whether the device is selected; raises `CelRuntimeError` if the expression has no answer for it.

        It costs at most what is in the purse, if there is one.
        """
        if device.problem is not None:
            raise CelRuntimeError(device.problem)
        frame: Frame = [None] * self._length
        frame[FACTS], frame[LEFT] = device, MAX_COST if purse is None else purse.left
        try:
            charge(frame, self._toll)
            value = self._run(frame)
        except RecursionError:
            raise CelRuntimeError("the expression is nested too deeply") from None
        except BudgetError:
            frame[LEFT] = 0
            raise
        finally:
            if purse is not None:
                purse.put_back(frame[LEFT])
        if type(value) is not bool:
            raise CelRuntimeError("the expression gives no bool for this device")
        return value


def compile_selector(expression: str) -> Selector:
    """The selector of an expression; raises `CelError` if an API server would not compile it either.

    One that may cost too much is compiled, since only the API server refuses that: see `max_cost`.
    """
    compiled = _KNOWN[expression]
    if isinstance(compiled, CelError):
        raise CelError(compiled.why, compiled.text, compiled.at)
    return compiled


class _Known(dict[str, Selector | CelError]):
    """Expressions that were compiled, with what is wrong with those that could not be. All are forgotten at times."""

    def __init__(self) -> None:
        self._length = 0

    def __missing__(self, expression: str) -> Selector | CelError:
        if self._length > _MOST_KEPT:
            self.clear()
            self._length = 0
        self._length += len(expression)
        try:
            made: Selector | CelError = _compiled(expression)
        except CelError as error:
            made = error.with_traceback(None)
        return self.setdefault(expression, made)


_KNOWN: Final = _Known()


def _compiled(expression: str) -> Selector:
    if len(expression.encode(errors="replace")) > MAX_BYTES:
        raise CelError(f"the expression has more than {MAX_BYTES} bytes")
    try:
        root = parse(expression)
        checked = check(expression, root)
        max_cost = estimate(root, checked)
        run, length = build(root, checked, metered=max_cost > _CHEAP or _is_unbounded(root))
        toll = _TOLL + sum(1 for _ in walk(root)) // _NODES
    except RecursionError:
        raise CelError("the expression is nested too deeply") from None
    return Selector(run, length, toll, max_cost)


def _is_unbounded(root: Node) -> bool:
    return any(
        isinstance(node, Loop | Bind) or (isinstance(node, Call) and node.function in _UNBOUNDED) for node in walk(root)
    )
