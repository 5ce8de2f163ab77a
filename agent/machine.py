"""The machine under the agent as the loop sees it: a cheap fingerprint, a full look, what the kubelet gave to pods."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from kubenexus.agent.allocations import allocations, pod_uids
from kubenexus.agent.discovery.nvml import NvmlAnswer
from kubenexus.agent.discovery.scan import scan
from kubenexus.agent.fingerprint import fingerprint
from kubenexus.agent.kubelet import CONFIG, DROP_IN, UnreadableError, read_settings
from kubenexus.agent.podresources import METHOD, PodResources, decode
from kubenexus.agent.publish.memory import FAILED_PROBES, Look
from kubenexus.common import logs, metrics
from kubenexus.common.topology import NodeTopology
from kubenexus.common.wire import UNTOLD, Allocations, KubeletSettings

log = logs.get(__name__)

POD_LOGS = "var/log/pods"
KUBELET_SECONDS = 5.0


class Machine:
    """One machine below a root folder. `socket` is the kubelet's for PodResources, `config` its configuration file (by
    default where most have it), `drop_ins` the folder of its drop-ins; none of them need be there."""

    def __init__(
        self,
        root: Path,
        nvml: Callable[[], NvmlAnswer],
        socket: Path,
        config: Path | None = None,
        drop_ins: Path | None = None,
    ) -> None:
        self._root = root
        self._nvml = nvml
        self._socket = socket
        self._config, self._named = config or root / CONFIG, config is not None
        self._drop_ins = drop_ins
        self._given: Allocations | None = None
        self._refusal = ""

    def fingerprint(self) -> str:
        return fingerprint(self._root)

    def look(self) -> Look:
        """Everything. Takes as long as NVML does, at most its timeout."""
        answers: list[NvmlAnswer] = []

        def ask() -> NvmlAnswer:
            answers.append(self._nvml())
            return answers[-1]

        began = time.monotonic()
        topology = scan(self._root, ask)
        metrics.AGENT_SCAN_SECONDS.observe(time.monotonic() - began)
        [answer] = answers
        metrics.AGENT_GPU_PROBES.labels(answer.status).inc()
        if answer.status in FAILED_PROBES:
            log.warning("the GPU probe failed: the last good facts stay", status=answer.status, reason=answer.reason)
        settings, unknown = self.kubelet()
        if unknown:
            log.warning("what the kubelet is set to is not known", reason=unknown)
            topology = replace(topology, unknowns={**topology.unknowns, "kubelet": unknown})
        return Look(topology, answer.status, self.allocations(topology), settings)

    def kubelet(self) -> tuple[KubeletSettings, str]:
        """What the kubelet is set to, and why that is unknown; the absence of a file that nobody named is no reason."""
        try:
            return read_settings(self._settings()), ""
        except (OSError, UnreadableError) as error:
            absent = isinstance(error, FileNotFoundError) and not self._named
            return UNTOLD, "" if absent else str(error)

    def _settings(self) -> Iterator[tuple[str, str]]:
        """The names and texts of the kubelet's files; a folder that was named and is not there is a mistake."""
        yield self._config.name, self._config.read_text(encoding="utf-8", errors="replace")
        if self._drop_ins and not self._drop_ins.is_dir():
            raise UnreadableError(f"there is no folder {self._drop_ins}")
        for path in sorted(self._drop_ins.rglob(f"*{DROP_IN}")) if self._drop_ins else ():
            yield path.name, path.read_text(encoding="utf-8", errors="replace")

    def allocations(self, topology: NodeTopology) -> Allocations | None:
        """What the kubelet gave to pods: None without its socket, the last answer while it does not answer."""
        if not os.path.exists(self._socket):  # Path.exists raises where we may not look
            return None
        try:
            self._given = allocations(list_pods(self._socket), topology, self._pod_uids())
        except (OSError, ValueError) as error:
            self._tell_once(str(error))
        else:
            self._refusal = ""
        return self._given

    def _tell_once(self, refusal: str) -> None:
        if refusal != self._refusal:
            log.warning("the kubelet does not tell what it gave to pods", socket=self._socket, error=refusal)
        self._refusal = refusal

    def _pod_uids(self) -> dict[tuple[str, str], str]:
        try:
            return pod_uids(os.listdir(self._root / POD_LOGS))
        except OSError:
            return {}


def list_pods(socket: Path) -> list[PodResources]:
    """Asks the kubelet behind this socket; OSError or ValueError when it does not answer as it should."""
    from kubenexus.agent.unary import call  # HTTP/2 takes memory, and most agents have no such socket

    return decode(call(socket, METHOD, b"", KUBELET_SECONDS))
