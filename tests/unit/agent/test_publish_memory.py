"""A probe that failed says nothing about GPUs: what was known stays, and is called stale after a while."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kubenexus.agent.publish.memory import GpuMemory, Look, Published
from kubenexus.agent.publish.wanted import Findings
from kubenexus.common.topology import Gpu, NodeTopology
from tests.machines import dgx_h100, numa_nodes

GOOD = dgx_h100()
PCI_ONLY = replace(
    GOOD,
    gpus=tuple(Gpu(index=i, numa=i // 4) for i in range(8)),
    nvlink=None,
    unknowns={"gpu.nvlink": "it hangs", "numa-0.readLatencyNs": "not told"},
)
NO_GPUS = replace(GOOD, gpus=(), nvlink=None)


def nothing() -> Published:
    return Published(NodeTopology(), stale=False)


def settle(memory: GpuMemory, topology: NodeTopology, probe: str, now: float = 0.0) -> Findings:
    return memory.settle(Look(topology, probe), now, nothing)


@pytest.mark.parametrize("probe", ["hung", "crashed", "error"])
def test_a_failed_probe_keeps_the_gpus_and_the_fresh_rest(probe: str) -> None:
    memory = GpuMemory(900)
    settle(memory, GOOD, "ok")
    more_cpus = replace(PCI_ONLY, numa=numa_nodes(range(4), range(4, 8)))
    found = settle(memory, more_cpus, probe, 10)
    assert (found.topology.gpus, found.topology.nvlink, found.gpu_stale) == (GOOD.gpus, GOOD.nvlink, False)
    assert found.topology.numa == more_cpus.numa
    assert found.topology.unknowns == {"numa-0.readLatencyNs": "not told"}


@pytest.mark.parametrize("probe", ["ok", "absent", "off"])
def test_an_answer_replaces_what_was_known(probe: str) -> None:
    memory = GpuMemory(900)
    settle(memory, GOOD, "ok")
    assert settle(memory, NO_GPUS, probe).topology == NO_GPUS


def test_stale_from_the_last_answer_on_and_not_after_the_next() -> None:
    memory = GpuMemory(900)
    settle(memory, GOOD, "ok", 100)
    stale = [settle(memory, PCI_ONLY, "hung", now).gpu_stale for now in (400, 999, 1000, 5000)]
    assert stale == [False, False, True, True]
    assert not settle(memory, GOOD, "ok", 5300).gpu_stale
    assert not settle(memory, PCI_ONLY, "hung", 5400).gpu_stale


def test_without_any_memory_the_bus_is_better_than_nothing() -> None:
    memory = GpuMemory(900)
    assert settle(memory, PCI_ONLY, "hung", 50).topology == PCI_ONLY
    assert settle(memory, PCI_ONLY, "hung", 950).gpu_stale


def test_what_an_agent_before_us_published_counts_as_known() -> None:
    memory = GpuMemory(900)
    found = memory.settle(Look(PCI_ONLY, "hung"), 0.0, lambda: Published(GOOD, stale=False))
    assert (found.topology.gpus, found.gpu_stale) == (GOOD.gpus, False)


def test_what_was_stale_before_us_stays_stale_until_a_probe_works() -> None:
    memory = GpuMemory(900)
    found = memory.settle(Look(PCI_ONLY, "hung"), 0.0, lambda: Published(GOOD, stale=True))
    assert (found.topology.gpus, found.gpu_stale) == (GOOD.gpus, True)
    assert not settle(memory, GOOD, "ok", 1).gpu_stale
