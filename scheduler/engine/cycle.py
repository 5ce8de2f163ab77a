"""The cycle: one pod in, one decision out, as numbered steps."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from zlib import crc32

from kubenexus.common.objects import Labels, PodView
from kubenexus.scheduler.engine.evaluate import Board, Verdict, best, explain, summarize
from kubenexus.scheduler.engine.fabric import Company, Fence
from kubenexus.scheduler.engine.labels import Mask
from kubenexus.scheduler.engine.nominated import Nominations, judge, without_rivals
from kubenexus.scheduler.engine.plugin import Code, Taken
from kubenexus.scheduler.engine.preempt import Preemption, PreemptionArgs
from kubenexus.scheduler.engine.shape import Alike, Shape, Weighted, compile_shape
from kubenexus.scheduler.engine.state import State

# Shapes come from templates; a cluster has hundreds. Past this many the ones of long ago make room.
MAX_BOARDS = 512
NOBODY = Company()


@dataclass(frozen=True, slots=True)
class Place:
    """The pod goes to this node, and is booked there; what else it takes counts as taken.

    The pod's view carries the annotations that say what it takes, as it will once it is bound.
    """

    pod: PodView
    node: str
    taken: tuple[Taken, ...] = ()

    @property
    def annotations(self) -> dict[str, str]:
        """What is written onto the pod when it is bound."""
        return _annotations(self.taken)


@dataclass(frozen=True, slots=True)
class Park:
    """The pod stays pending; `message` is for people, `verdicts` say which plugin refused which nodes.

    `nominated_node` is the node that it is still promised, empty if none.
    """

    pod: PodView
    message: str
    verdicts: tuple[Verdict, ...] = ()
    nominated_node: str = ""

    @property
    def refused_by(self) -> frozenset[str]:
        """The plugins that refuse it, by name."""
        return frozenset(verdict.plugin for verdict in self.verdicts)

    @property
    def failed(self) -> bool:
        """Some plugin could not do its work: to be tried again soon, whatever happens in the cluster."""
        return any(verdict.code is Code.ERROR for verdict in self.verdicts)


@dataclass(frozen=True, slots=True)
class Preempt(Park):
    """The pod stays pending until the victims have left `nominated_node`, which it is promised from now on.

    The victims are still booked there. Pods of lower priority that were promised the node are `displaced`.
    Whoever fails to remove the victims withdraws the pod's nomination.
    """

    victims: tuple[PodView, ...] = ()
    displaced: tuple[PodView, ...] = ()


def _annotations(taken: tuple[Taken, ...]) -> dict[str, str]:
    return {key: value for one in taken for key, value in one.annotations.items()}


Decision = Place | Park | Preempt
_Mark = tuple[int, ...]


@dataclass(slots=True, eq=False)
class _Known:
    """What is known of a shape: its board, and how it was refused, as of when."""

    board: Board
    refused: tuple[_Mark, str, tuple[Verdict, ...]] | None = None


class Cycle:
    """Decides for the pods of one profile on one state. Without `preemption` it drives nobody out."""

    def __init__(
        self,
        state: State,
        profile: Sequence[Weighted],
        preemption: PreemptionArgs | None = None,
        nominations: Nominations | None = None,
    ) -> None:
        self.state = state
        self.nominations = Nominations() if nominations is None else nominations
        """shared by all cycles on a state; whoever sees pods come, change and go tells it"""
        self.profile = profile
        self.alike = Alike(state)
        self._preemption = None if preemption is None else Preemption(state, self.nominations, preemption)
        self._known: dict[Hashable, _Known] = {}

    def decide(self, pod: PodView, company: Company = NOBODY) -> Decision:
        """Find the best node for a pod and book it there, or say why there is none and who would have to go.

        It goes near its `company` if it can, and nowhere else if it must.
        """
        # 1. What cannot be read or must not be placed yet is not placed.
        if pod.problems:
            return Park(pod, f"The pod cannot be placed as it is: {pod.problems[0]}.")
        if pod.gates:
            return Park(pod, f"waiting for scheduling gates: [{' '.join(pod.gates)}]")
        # 2. Pods that no plugin can tell apart share one board, and a refusal for as long as nothing changes.
        known, fence, promised = self._know(pod), company.fence, self.nominations.of(pod.uid) is not None
        if known.refused and known.refused[0] == self._mark() and not (fence or promised):
            return Park(pod, *known.refused[1:])
        # 3. Where can it go, where is it best? Book it there, or explain, and make room if that is possible.
        areas = (fence.mask,) if fence else (None,) if promised else (*company.near, None)
        places = (self._place(pod, known.board, area) for area in areas)
        return next((place for place in places if place is not None), None) or self._refuse(pod, known, fence)

    def place(self, pod: PodView, within: Mask | None = None) -> Place | None:
        """Book the pod on its best node, of those `within`; None if no node takes it. Drives nobody out."""
        return None if pod.problems or pod.gates else self._place(pod, self._know(pod).board, within)

    def forget(self, place: Place) -> None:
        """What a pod took besides room is free again. Its room is the state's matter."""
        for one in reversed(place.taken):
            one.forget(self.state.objects)

    def _place(self, pod: PodView, board: Board, within: Mask | None = None) -> Place | None:
        # 4. Where can it go? Room that is promised to others of its priority or above counts as taken.
        feasible = self._feasible(pod, board)
        if within is not None:
            feasible = feasible & within
        # 5. Where is it best? A node that it is promised itself comes first.
        node = self._promised(pod, feasible)
        if node is None and feasible.any():
            node = best(board.scores(feasible), feasible, self.state, crc32(pod.uid.encode()))
        return None if node is None else self._book(pod, board.shape, node)

    def _book(self, pod: PodView, shape: Shape, node: int) -> Place:
        # 6. What it gets is decided on the state as it was, and then counts.
        taken = self._take(shape, node)
        if taken and (notes := _annotations(taken)):
            pod = pod._replace(annotations=Labels({**pod.annotations, **notes}))
        name = self.state.name(node)
        self.state.place(pod, name)
        self.nominations.withdraw(pod.uid)
        return Place(pod, name, taken)

    def _take(self, shape: Shape, node: int) -> tuple[Taken, ...]:
        """What the pod gets besides room, settled so that no other pod gets it too."""
        offered = (asked.plugin.take(asked.term, self.state, node) for asked in shape.asked)
        taken = tuple(one for one in offered if one is not None)
        for one in taken:
            one.assume(self.state.objects)
        return taken

    def board(self, pod: PodView) -> Board:
        """The board of the pod's shape; it holds what the shape's plugins know of every node."""
        return self._know(pod).board

    def verdicts(self, pod: PodView, fence: Fence | None = None) -> list[Verdict]:
        """Why nodes refuse the pod as things are, be there others that take it or not."""
        return self._verdicts(pod, self.board(pod), fence)

    def _know(self, pod: PodView) -> _Known:
        key = self.alike.key(pod)
        known = self._known.pop(key, None)
        if known is None or known.board.shape.outdated:
            known = _Known(Board(compile_shape(pod, self.profile, self.state), self.state))
            if len(self._known) >= MAX_BOARDS:
                del self._known[next(iter(self._known))]
        self._known[key] = known
        return known

    def _mark(self) -> _Mark:
        """The same for as long as nothing has changed that a decision depends on."""
        state = self.state
        return state.changes.position, state.objects.version, state.carried.epoch, self.nominations.version

    def _feasible(self, pod: PodView, board: Board) -> Mask:
        feasible = board.feasible()
        if not len(self.nominations):
            return feasible
        return without_rivals(feasible, self.nominations.rivals(pod, self.state), board.shape, self.state)

    def _promised(self, pod: PodView, feasible: Mask) -> int | None:
        nomination = self.nominations.of(pod.uid)
        node = None if nomination is None else self.state.index(nomination.node)
        return node if node is not None and feasible[node] else None

    def _refuse(self, pod: PodView, known: _Known, fence: Fence | None) -> Park:
        """Every node refuses the pod: make room for it, or say why."""
        verdicts = self._verdicts(pod, known.board, fence)
        known = known if fence is None else _Known(known.board)  # nobody else is told what holds for its gang
        message = summarize(verdicts, int(self.state.alive.sum()))
        if self._preemption is None:
            return self._park(pod, known, message, verdicts, keep=True)
        if reason := self._preemption.ineligible(pod, verdicts):
            return self._park(pod, known, f"{message} preemption: {reason}", verdicts, keep=True)
        found = self._preemption.find(pod, known.board.shape, verdicts)
        if isinstance(found, str):
            return self._park(pod, known, f"{message} {found}", verdicts, keep=False)
        return self._preempt(pod, self.state.name(found.node), found.victims, message, verdicts)

    def _verdicts(self, pod: PodView, board: Board, fence: Fence | None) -> list[Verdict]:
        """Why each node refuses the pod: by itself, for its gang, or because of pods that it is promised to."""
        verdicts = explain(board.shape, self.state)
        verdicts = verdicts if fence is None else fence.judge(verdicts, self.state)
        refused = {node for verdict in verdicts for node in verdict.nodes}
        for node, rivals in self.nominations.rivals(pod, self.state).items() if len(self.nominations) else ():
            if node not in refused:
                verdicts += judge(board.shape, self.state, node, rivals)
        return verdicts

    def _park(self, pod: PodView, known: _Known, message: str, verdicts: list[Verdict], *, keep: bool) -> Park:
        nomination = self.nominations.of(pod.uid)
        if nomination is None:
            known.refused = self._mark(), message, tuple(verdicts)
        elif keep:
            return Park(pod, message, tuple(verdicts), nomination.node)
        self.nominations.withdraw(pod.uid)
        return Park(pod, message, tuple(verdicts))

    def _preempt(
        self, pod: PodView, node: str, victims: tuple[PodView, ...], message: str, verdicts: list[Verdict]
    ) -> Preempt:
        displaced = tuple(self.nominations.weaker(pod, node))
        for other in displaced:
            self.nominations.withdraw(other.uid)
        self.nominations.nominate(pod, node, (victim.uid for victim in victims))
        return Preempt(pod, message, tuple(verdicts), node, victims, displaced)
