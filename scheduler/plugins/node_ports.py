"""NodePorts: a port of a node belongs to one pod."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from kubenexus.common.objects import HostPort, PodView
from kubenexus.scheduler.engine.counts import Counts
from kubenexus.scheduler.engine.labels import Mask
from kubenexus.scheduler.engine.plugin import At, NodePlugin, Refusal
from kubenexus.scheduler.engine.state import State
from kubenexus.scheduler.engine.weaker import Weaker

TAKEN = "node(s) didn't have free ports for the requested pod ports"
EVERYWHERE = "0.0.0.0"


def conflict(one: HostPort, other: HostPort) -> bool:
    """Whether two pods with these ports cannot share a node. `0.0.0.0` stands for every address."""
    same_place = one.ip == other.ip or EVERYWHERE in (one.ip, other.ip)
    return same_place and (one.protocol, one.port) == (other.protocol, other.port)


@dataclass(frozen=True, slots=True)
class Occupied:
    """The question how many pods stand in the way of a port."""

    port: HostPort

    def weigh(self, pod: PodView) -> int:
        return any(conflict(self.port, taken) for taken in pod.spec.needs.host_ports)


class NodePorts(NodePlugin[tuple[Occupied, ...]]):
    """Refuses nodes where a wanted port is taken."""

    name = "NodePorts"

    def compile(self, pod: PodView, _state: State) -> tuple[Occupied, ...] | None:
        return tuple(Occupied(port) for port in dict.fromkeys(pod.spec.needs.host_ports)) or None

    def filter(self, term: tuple[Occupied, ...], state: State, at: At) -> Iterator[Refusal]:
        yield Refusal(_any(term, state.count, at), TAKEN)

    def filter_without(self, term: tuple[Occupied, ...], state: State, at: At, weaker: Weaker) -> Iterator[Refusal]:
        yield Refusal(_any(term, lambda port: state.count(port) - weaker.count(port), at), TAKEN)


def _any(term: tuple[Occupied, ...], count: Callable[[Occupied], Counts], at: At) -> Mask:
    """The nodes where some port is in the way of one of these."""
    taken: Mask = np.logical_or.reduce([count(port)[at] > 0 for port in term])
    return taken
