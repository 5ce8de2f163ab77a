"""What a plugin is: it compiles what a pod asks of it once, then answers for many nodes in one call.

A `NodePlugin`'s answer for a node depends on that node alone, so the engine asks again only for nodes that changed. A
`ClusterPlugin`'s depends on pods elsewhere (affinity, spreading), so it is asked at every decision.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from kubenexus.common.objects import PodView
from kubenexus.scheduler.engine.labels import Mask
from kubenexus.scheduler.engine.objects import Objects
from kubenexus.scheduler.engine.state import State
from kubenexus.scheduler.engine.weaker import Weaker

Scores = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.intp]
At = slice | Numbers
"""Which columns a question is about: a slice or their numbers."""

ALL = slice(None)
MAX_SCORE = 100

T = TypeVar("T")


class Code(IntEnum):
    """How a refusal may be cured: `UNSCHEDULABLE` perhaps by removing pods, `UNRESOLVABLE` not by that."""

    SUCCESS = 0
    UNSCHEDULABLE = 1
    UNRESOLVABLE = 2
    ERROR = 3


@dataclass(frozen=True, slots=True, eq=False)
class Refusal:
    """A reason, and the nodes (of those asked about) that it holds for; `detail` says more about one of them."""

    nodes: Mask
    reason: str
    code: Code = Code.UNSCHEDULABLE
    detail: Callable[[int], str] | None = None


class Taken(Protocol):
    """What a placed pod gets besides room on its node: decided now, and written by whoever binds the pod."""

    @property
    def annotations(self) -> Mapping[str, str]:
        """What is written onto the pod with its binding."""
        ...

    def assume(self, objects: Objects) -> None:
        """It counts as written from now on."""
        ...

    def forget(self, objects: Objects) -> None:
        """It was not written after all."""
        ...


class _Base(Generic[T]):
    name: ClassVar[str]

    def compile(self, pod: PodView, state: State) -> T | None:
        """What this pod asks of the plugin; None if nothing, and then it is not asked about this pod at all.

        May depend only on what makes a shape (see `shape.py`) and on the state's objects, not on its nodes and pods.
        """
        raise NotImplementedError

    def reads(self, _pod: PodView) -> tuple[str, ...]:
        """The tables of the state's objects that answers about such a pod depend on; it is asked anew when they change.

        May depend only on what makes a shape.
        """
        return ()

    def filter(self, _term: T, _state: State, _at: At) -> Iterable[Refusal]:
        """Where the pod must not go, and why. Several refusals may hold for one node. Masks are as long as `at`."""
        return ()

    def take(self, _term: T, _state: State, _node: int) -> Taken | None:
        """What such a pod gets besides room when it goes to a node that was not refused; None for nothing."""
        return None

    def filter_without(self, _term: T, _state: State, _at: At, _weaker: Weaker) -> Iterable[Refusal]:
        """What it would still refuse on a node if all weaker pods of that node were gone, as far as it can tell.

        Preemption does not try such nodes. A plugin that has nothing to say here only makes it slower.
        """
        return ()

    def heeds(self, _term: T, _pods: Sequence[PodView]) -> bool:
        """Whether it may refuse a node on account of these pods, if they were there. If not, nobody has to try it out.

        A plugin with a `bill` is not asked.
        """
        return type(self).filter is not _Base.filter

    def bill(self, _term: T) -> Mapping[int, int] | None:
        """What such a pod takes of the state's rows, if it is refused exactly where less of one of them is left.

        It makes preemption and nominations faster. None if there is more to it.
        """
        return None


class NodePlugin(_Base[T]):
    """A plugin that looks at each node by itself."""

    minds_pods: ClassVar[bool] = True
    """Whether pods on a node may change what is said of it. If not, it is asked again only when the node changes."""

    def score(self, _term: T, _state: State, _at: At) -> Scores | None:
        """How good each node is, before normalising; None if this plugin has no preference for such pods."""
        return None

    def normalize(self, raw: Scores, _feasible: Mask) -> Scores:
        """Scores from 0 to 100, of all nodes, given which of them the pod can go to."""
        return raw

    def heeds(self, term: T, pods: Sequence[PodView]) -> bool:
        return self.minds_pods and super().heeds(term, pods)

    # The same for one node. Every pod placed changes one, so this is asked at each decision: a plugin that most pods
    # concern does better than arrays of one number.

    def admits(self, term: T, state: State, node: int) -> bool:
        """Whether `filter` does not refuse this node."""
        return not any(refusal.nodes[0] for refusal in self.filter(term, state, slice(node, node + 1)))

    def score_of(self, term: T, state: State, node: int) -> int:
        """What `score` says of this node, if there is a preference at all."""
        scores = self.score(term, state, slice(node, node + 1))
        return 0 if scores is None else int(scores[0])


class ClusterPlugin(_Base[T]):
    """A plugin that has to look at the whole cluster."""

    def may_miss(self, _term: T) -> bool:
        """Whether it may refuse a node because pods have left it. If not, preemption is faster."""
        return True

    def score(self, _term: T, _state: State, _feasible: Mask) -> Scores | None:
        """Scores of all nodes from 0 to 100, those of infeasible ones being ignored; None for no preference."""
        return None


Plugin = NodePlugin[Any] | ClusterPlugin[Any]


def proportional(raw: Scores, feasible: Mask, *, reverse: bool = False) -> Scores:
    """kube-scheduler's default: the highest feasible score becomes 100, or 0 in reverse; integer division."""
    highest = int(raw[feasible].max(initial=0))
    if highest == 0:
        return np.full_like(raw, MAX_SCORE if reverse else 0)
    scaled = raw * MAX_SCORE // highest
    return MAX_SCORE - scaled if reverse else scaled
