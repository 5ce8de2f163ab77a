"""Well-known machines as topologies, for tests of every part: what a correct agent finds on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kubenexus.common.topology import Gpu, Health, Nic, NodeTopology, NumaNode, NvlinkKind, link_row, nvlink_kind

GIB = 1 << 30
H100 = "NVIDIA H100 80GB HBM3"


def numa_nodes(*cpus: Sequence[int], ids: Sequence[int] | None = None, far: int = 21) -> tuple[NumaNode, ...]:
    """One NUMA node, and package, for each set of CPUs."""
    numbers = ids or range(len(cpus))
    return tuple(
        NumaNode(
            id=number,
            cpus=tuple(own),
            package=place,
            memory=64 * GIB,
            threads_per_core=2,
            l3_count=1,
            distances=tuple(10 if other == place else far for other in range(len(cpus))),
        )
        for place, (number, own) in enumerate(zip(numbers, cpus, strict=True))
    )


def gpu_node(
    links: Sequence[Sequence[int]],
    numa: Sequence[int],
    *,
    per_gpu: int,
    switched: bool,
    lost: Sequence[int] = (),
    nics: Sequence[str] = (),
) -> NodeTopology:
    """Two NUMA nodes, and GPUs with these links between them; `nics` are rows of pair classes."""
    rows = [link_row(row) for row in links]
    classes = ["".join(_pair(i, j, numa) for j in range(len(numa))) for i in range(len(numa))]
    gpus = tuple(
        Gpu(
            index=i,
            minor=i,
            uuid=f"GPU-{i}",
            product=H100,
            driver="580.105.08",
            memory=81559 << 20,
            numa=numa[i],
            pci_bus_id=f"0000:{16 + i:02x}:00.0",
            nvlinks=per_gpu,
            peer_links=rows[i],
            peer_classes=classes[i],
            health=Health.LOST if i in lost else Health.OK,
        )
        for i in range(len(numa))
    )
    return NodeTopology(
        numa=numa_nodes((*range(16), *range(32, 48)), (*range(16, 32), *range(48, 64))),
        gpus=gpus,
        nics=tuple(Nic(index=i, rdma_name=f"mlx5_{i}", gpu_classes=row) for i, row in enumerate(nics)),
        threads_per_core=2,
        l3_count=2,
        nvlink=nvlink_kind(gpus, switched=switched),
    )


def _pair(one: int, other: int, numa: Sequence[int]) -> str:
    if one == other:
        return "X"
    return "N" if numa[one] == numa[other] else "S"


def dgx_h100(lost: Sequence[int] = ()) -> NodeTopology:
    """Eight GPUs behind NVSwitch, one NIC on the PCIe switch of each."""
    links = [[0 if i == j else 18 for j in range(8)] for i in range(8)]
    nics = ["".join("I" if i == j else "N" if i // 4 == j // 4 else "S" for j in range(8)) for i in range(8)]
    return gpu_node(links, [0] * 4 + [1] * 4, per_gpu=18, switched=True, lost=lost, nics=nics)


def dgx1_v100() -> NodeTopology:
    """Eight GPUs in a hybrid cube mesh of single and double links."""
    links = [
        [0, 1, 1, 2, 2, 0, 0, 0],
        [1, 0, 2, 1, 0, 2, 0, 0],
        [1, 2, 0, 2, 0, 0, 1, 0],
        [2, 1, 2, 0, 0, 0, 0, 1],
        [2, 0, 0, 0, 0, 1, 1, 2],
        [0, 2, 0, 0, 1, 0, 2, 1],
        [0, 0, 1, 0, 1, 2, 0, 2],
        [0, 0, 0, 1, 2, 1, 2, 0],
    ]
    return gpu_node(links, [0] * 4 + [1] * 4, per_gpu=6, switched=False)


def pairs_across_numa() -> NodeTopology:
    """Four GPUs, bridged in pairs whose two GPUs sit on different NUMA nodes."""
    partner = {0: 2, 1: 3, 2: 0, 3: 1}
    links = [[4 if partner[i] == j else 0 for j in range(4)] for i in range(4)]
    return gpu_node(links, [0, 0, 1, 1], per_gpu=4, switched=False)


def gb200() -> NodeTopology:
    """A tray: 34 NUMA nodes of which 0 and 1 have CPUs; each GPU's memory is a NUMA node of its own."""
    base = gpu_node(
        [[0 if i == j else 18 for j in range(4)] for i in range(4)], [0, 0, 1, 1], per_gpu=18, switched=True
    )
    cpu_nodes = numa_nodes(range(72), range(72, 144), far=40)
    rows = {number: tuple(10 if number == far else 80 for far in range(34)) for number in range(34)}
    cpu = [_with(node, rows) for node in cpu_nodes]
    memory = [
        NumaNode(id=number, cpus=(), memory=0, distances=rows[number], nearest_cpu_node=0 if number < 18 else 1)
        for number in range(2, 34)
    ]
    return NodeTopology(numa=(*cpu, *memory), gpus=base.gpus, nics=(), nvlink=NvlinkKind.NVSWITCH)


def _with(node: NumaNode, rows: Mapping[int, tuple[int, ...]]) -> NumaNode:
    return NumaNode(id=node.id, cpus=node.cpus, package=node.package, memory=node.memory, distances=rows[node.id])
