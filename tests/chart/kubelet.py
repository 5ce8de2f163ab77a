"""A kubelet that does what a test says: it runs one pod of the chart after the other."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from typing import Any

from hack.kubelet import containers
from hack.kubelet.containers import Running, ended_status, ready_status
from tests.stub_server import until

Obj = dict[str, Any]

PATIENCE = 60.0


class Kubelet(containers.Kubelet):
    """One node."""

    @contextlib.contextmanager
    def run(self, pod: Obj) -> Iterator[Running]:
        """The pod, bound to this node, until the end of the block. It must end by itself when it is told to."""
        running = self.start(self.bind(pod))
        try:
            until(lambda: self._ready(running), PATIENCE)
            self.tell(pod, ready_status(pod))
            yield running
        except AssertionError as error:
            raise AssertionError(f"{error}\n{running.log.read_text()[-4000:]}") from error
        finally:
            running.process.send_signal(signal.SIGTERM)
            code = running.process.wait(30)
            self.remove(pod)
        assert code == 0, running.log.read_text()[-4000:]

    def finish(self, pod: Obj) -> str:
        """The pod, bound to this node and run to its end; what it printed."""
        running = self.start(self.bind(pod))
        code = running.process.wait(PATIENCE)
        self.tell(pod, ended_status(pod, bool(code)))
        return running.log.read_text()

    def _ready(self, running: Running) -> bool:
        assert running.process.poll() is None, "the container has ended"
        return running.ready
