"""What pods ask for that have no place yet, so that plugins can look ahead."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from kubenexus.common.objects import PodSpecView, PodView


class Waiting:
    """The pods that wait, by their template; not those that are held back by gates of their own."""

    def __init__(self) -> None:
        self._specs: dict[str, PodSpecView] = {}
        self._counts = Counter[PodSpecView]()

    @property
    def templates(self) -> Mapping[PodSpecView, int]:
        """How many pods of each wait."""
        return self._counts

    def add(self, pod: PodView) -> None:
        """The pod waits, as before or from now on."""
        if self._specs.get(pod.uid) == pod.spec and not pod.gates:
            return
        self.remove(pod.uid)
        if not pod.gates:
            self._specs[pod.uid] = pod.spec
            self._counts[pod.spec] += 1

    def remove(self, uid: str) -> None:
        """The pod has a place or is gone, if it was there."""
        spec = self._specs.pop(uid, None)
        if spec is not None:
            self._counts[spec] -= 1
            if not self._counts[spec]:
                del self._counts[spec]
