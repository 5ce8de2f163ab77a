"""Random nodes for property tests: small and large, sparse and odd, with any fact unknown.

`topologies()` gives any legal `NodeTopology`; its pieces are strategies of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import cycle
from typing import TypeVar

from hypothesis import strategies as st

from kubenexus.common.topology import Gpu, Health, Nic, NodeTopology, NumaNode, NvlinkKind, link_row

GIB = 1 << 30

_Fact = TypeVar("_Fact")

_CODES = "IBHNS?"
_TEXT = st.sampled_from(["GPU-4c1e", "NVIDIA H100 80GB HBM3", "Ünïcode", "x" * 64, "x" * 65, "é" * 40, "tab\there"])
_BUS_IDS = st.from_regex(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-1][0-9a-f]\.[0-7]", fullmatch=True)
_SHORT_VERSIONS = st.builds("{}.{}".format, st.integers(1, 20), st.integers(0, 9))
_DRIVERS = st.sampled_from(["580.105.08", "535.54.03", "470.82", "driver-next"])
_BYTES = st.integers(0, 4096 * GIB)


def maybe(strategy: st.SearchStrategy[_Fact]) -> st.SearchStrategy[_Fact | None]:
    """The fact or, now and then, `None`: unknown."""
    return st.none() | strategy


@st.composite
def cpu_sets(draw: st.DrawFn) -> tuple[int, ...]:
    """CPU numbers as machines have them: runs, two hyperthread halves, strides, scattered."""
    first, count = draw(st.integers(0, 4000)), draw(st.integers(1, 64))
    step = draw(st.sampled_from([1, 1, 2, 4]))
    run = range(first, first + count * step, step)
    extra = draw(st.sampled_from([(), range(first + 5000, first + 5000 + count)]) | st.lists(st.integers(0, 8191)))
    return tuple(sorted({*run, *extra}))


@st.composite
def numa_nodes(draw: st.DrawFn, ids: Sequence[int]) -> NumaNode:
    """One of the NUMA nodes with these ids."""
    memory_only = draw(st.booleans())
    cpus = () if memory_only else draw(maybe(cpu_sets()))
    return NumaNode(
        id=ids[0],
        cpus=cpus,
        cpu_count=draw(maybe(st.integers(1, 512))) if cpus is None else None,
        threads_per_core=draw(maybe(st.integers(1, 8))),
        l3_count=draw(maybe(st.integers(0, 16))),
        package=draw(maybe(st.sampled_from([0, 1, 36, 8442]))),
        memory=draw(maybe(_BYTES)),
        hugepages_2mi=draw(maybe(st.integers(0, 4096))),
        hugepages_1gi=draw(maybe(st.integers(0, 64))),
        read_bandwidth=draw(maybe(st.integers(1, 10**6))),
        read_latency=draw(maybe(st.integers(1, 10**5))),
        distances=draw(maybe(st.tuples(*[maybe(st.integers(10, 255))] * len(ids)))),
        nearest_cpu_node=draw(st.sampled_from(ids)) if memory_only else None,
    )


@st.composite
def numa_lists(draw: st.DrawFn) -> tuple[NumaNode, ...]:
    """One to forty NUMA nodes of a few sorts, ids sparse or not."""
    dense = st.integers(1, 40).map(lambda count: list(range(count)))
    sparse = st.lists(st.integers(0, 4095), min_size=1, max_size=6, unique=True).map(sorted)
    ids = draw(dense | sparse)
    models = draw(st.lists(numa_nodes(ids), min_size=1, max_size=4))
    return tuple(replace(models[place % len(models)], id=number) for place, number in enumerate(ids))


@st.composite
def gpu_lists(draw: st.DrawFn) -> tuple[Gpu, ...]:
    """No GPU to sixty-five of a few sorts, joined by NVLink at random."""
    count = draw(st.sampled_from([0, 1, 2, 4, 8, 8, 16, 65]))
    links = _symmetric(draw, count, st.sampled_from([0, 0, 1, 2, 4, 18, 35]))
    classes = _symmetric(draw, count, st.integers(0, len(_CODES) - 1))
    rows = ["".join("X" if i == j else _CODES[classes[i][j]] for j in range(count)) for i in range(count)]
    models = draw(st.lists(gpus(), min_size=1, max_size=4))
    return tuple(
        replace(
            model,
            index=index,
            peer_links=model.peer_links and link_row(links[index]),
            peer_classes=model.peer_classes and rows[index],
        )
        for index, model in zip(range(count), cycle(models), strict=False)
    )


def _symmetric(draw: st.DrawFn, count: int, cells: st.SearchStrategy[int]) -> list[list[int]]:
    """A symmetric matrix, zero on the diagonal, of few random cells over and over (a large one must stay cheap)."""
    pool = draw(st.lists(cells, min_size=1, max_size=30))
    return [[0 if i == j else pool[(i + j + i * j) % len(pool)] for j in range(count)] for i in range(count)]


@st.composite
def gpus(draw: st.DrawFn) -> Gpu:
    """The only GPU of a node."""
    return Gpu(
        index=0,
        minor=draw(maybe(st.integers(0, 255))),
        uuid=draw(maybe(_TEXT)),
        product=draw(maybe(_TEXT)),
        architecture=draw(maybe(st.sampled_from(["Hopper", "Blackwell"]))),
        compute_capability=draw(maybe(_SHORT_VERSIONS)),
        driver=draw(maybe(_DRIVERS)),
        memory=draw(maybe(st.integers(1, 200 * GIB))),
        numa=draw(maybe(st.integers(0, 40))),
        numa_source=draw(maybe(st.sampled_from(["sysfs", "nvml"]))),
        memory_numa=draw(maybe(st.integers(0, 40))),
        cpus=draw(maybe(cpu_sets())),
        pci_bus_id=draw(maybe(_BUS_IDS)),
        pcie_root=draw(maybe(st.sampled_from(["pci0000:00", "pci10000:e0"]))),
        pcie_switch=draw(maybe(_BUS_IDS)),
        pcie_gen=draw(maybe(st.integers(1, 7))),
        pcie_width=draw(maybe(st.sampled_from([1, 8, 16]))),
        nvlink_version=draw(maybe(_SHORT_VERSIONS)),
        nvlinks=draw(maybe(st.integers(0, 36))),
        peer_links=draw(maybe(st.just("0"))),
        peer_classes=draw(maybe(st.just("X"))),
        fabric_clique=draw(maybe(st.just("6c5e1f7a-0000-4000-8000-3d0f1c2b4a59.32766"))),
        mig=draw(maybe(st.booleans())),
        health=draw(st.sampled_from([None, Health.OK, Health.OK, Health.OK, Health.LOST])),
    )


@st.composite
def nic_lists(draw: st.DrawFn, width: int | None) -> tuple[Nic, ...]:
    """No NIC to seventy of a few sorts, each at some distance from each of `width` GPUs."""
    count = draw(st.sampled_from([0, 1, 2, 8, 70]))
    models = draw(st.lists(nics(width), min_size=1, max_size=3))
    return tuple(replace(models[index % len(models)], index=index) for index in range(count))


@st.composite
def nics(draw: st.DrawFn, width: int | None) -> Nic:
    """The only NIC of a node with `width` GPUs."""
    code = draw(st.sampled_from(_CODES))
    return Nic(
        index=0,
        rdma_name=draw(maybe(st.sampled_from(["mlx5_0", "bnxt_re1"]))),
        if_name=draw(maybe(st.sampled_from(["ens1f0np0", "eth0"]))),
        link_layer=draw(maybe(st.sampled_from(["InfiniBand", "Ethernet"]))),
        rate_gbps=draw(maybe(st.sampled_from([10, 200, 400]))),
        numa=draw(maybe(st.integers(0, 40))),
        pci_bus_id=draw(maybe(_BUS_IDS)),
        pcie_root=draw(maybe(st.just("pci0000:00"))),
        pcie_switch=draw(maybe(_BUS_IDS)),
        gpu_classes=None if width is None else draw(maybe(st.just("S" * (width // 2) + code * (width - width // 2)))),
    )


@st.composite
def topologies(draw: st.DrawFn) -> NodeTopology:
    """Any legal topology."""
    gpu_list = draw(maybe(gpu_lists()))
    return NodeTopology(
        numa=draw(maybe(numa_lists())),
        gpus=gpu_list,
        nics=draw(maybe(nic_lists(None if gpu_list is None else len(gpu_list)))),
        threads_per_core=draw(maybe(st.integers(1, 8))),
        l3_count=draw(maybe(st.integers(0, 64))),
        nvlink=draw(maybe(st.sampled_from(NvlinkKind))),
        unknowns=draw(st.dictionaries(st.sampled_from(["gpu-0.numaNode", "nics"]), _TEXT)),
    )
