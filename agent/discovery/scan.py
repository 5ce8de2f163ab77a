"""One look at a machine: everything discovered, as one topology."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence

from kubenexus.agent.discovery import nvlink, pci
from kubenexus.agent.discovery.cpu import read_cpus
from kubenexus.agent.discovery.files import Files
from kubenexus.agent.discovery.gpu import read_gpus
from kubenexus.agent.discovery.nic import read_nics
from kubenexus.agent.discovery.numa import read_numa
from kubenexus.agent.discovery.nvml import NvmlAnswer, ask_nvml
from kubenexus.agent.discovery.seats import Seat, seat_gpus
from kubenexus.common.topology import NodeTopology, nvlink_kind

# Reasons travel in an annotation, which has no room for every file of a machine whose /sys is unreadable.
MAX_PROBLEMS = 20


def scan(root: str | os.PathLike[str] = "/", nvml: Callable[[], NvmlAnswer] = ask_nvml) -> NodeTopology:
    """The machine below `root`. Never raises for what the machine says: what is unreadable is unknown."""
    files, unknowns = Files(root), dict[str, str]()
    cpus = read_cpus(files)
    nodes = read_numa(files, cpus, unknowns)
    tree = pci.read_tree(files)
    answer = nvml()
    seats = seat_gpus(files, tree, answer, nodes)
    gpus = read_gpus(seats, answer, nodes)
    blind = pci.DEVICES in files.problems
    nics = read_nics(files, tree, nodes, seats)
    return NodeTopology(
        numa=nodes,
        gpus=None if blind and answer.status != "ok" else gpus,
        nics=None if blind else nics,
        threads_per_core=cpus.threads_per_core,
        l3_count=len(cpus.l3) or None,
        nvlink=nvlink_kind(gpus, switched=nvlink.is_switched(seats)),
        unknowns={**unknowns, **dict(_gpu_unknowns(seats, answer)), **_bounded(files.problems)},
    )


def _gpu_unknowns(seats: Sequence[Seat], answer: NvmlAnswer) -> Iterator[tuple[str, str]]:
    if seats and answer.status != "ok":
        yield "gpu.nvlink", answer.reason or f"NVML is {answer.status}"
    for seat in seats:
        if seat.numa is None:
            yield f"gpu-{seat.index}.numaNode", "neither the device, its bridges nor NVML names a NUMA node"
        if seat.nvml and seat.nvml.error_code is not None:
            yield f"gpu-{seat.index}.health", seat.nvml.error or f"NVML error {seat.nvml.error_code}"
        elif seat.nvml and seat.nvml.links is None:
            yield f"gpu-{seat.index}.nvlinkLinks", "NVML does not answer for its links"


def _bounded(problems: Mapping[str, str]) -> dict[str, str]:
    shown = dict(sorted(problems.items())[:MAX_PROBLEMS])
    left = len(problems) - len(shown)
    return {**shown, "files": f"{left} more could not be read"} if left else shown
