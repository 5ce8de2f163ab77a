"""Captured machines, with the answers that an independent reader found in the same files."""

from __future__ import annotations

from typing import Any

import pytest

from kubenexus.agent.discovery.cpu import read_cpus
from kubenexus.agent.discovery.files import Files
from kubenexus.agent.discovery.nvml import OFF
from kubenexus.agent.discovery.pci import read_tree
from kubenexus.agent.discovery.scan import scan
from kubenexus.common import cpulist
from kubenexus.common.topology import NodeTopology, NumaNode
from tests.trees import CAPTURES, unpack

every_capture = pytest.mark.parametrize("name", CAPTURES)


def look(name: str, tmp_path_factory: pytest.TempPathFactory) -> tuple[NodeTopology, dict[str, Any]]:
    root, facts = unpack(name, tmp_path_factory)
    return scan(root, lambda: OFF), facts


def online(facts: dict[str, Any]) -> set[int]:
    return set(cpulist.parse(facts["cpu"]["dirs"])) - set(cpulist.parse(facts["cpu"]["dirs_offline"]))


def nodes(topology: NodeTopology) -> dict[str, NumaNode]:
    return {str(node.id): node for node in topology.numa or ()}


@every_capture
def test_numa_nodes(name: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    topology, facts = look(name, tmp_path_factory)
    expected = {
        id_: (
            tuple(sorted(online(facts).intersection(cpulist.parse(raw["cpulist"])))),
            raw["memtotal"],
            tuple(map(int, raw["distance"].split())),
            {size: int(pages[0]) for size, pages in (raw["hugepages"] or {}).items() if size in PAGES},
        )
        for id_, raw in facts["nodes"].items()
    }
    found = {id_: (node.cpus, node.memory, node.distances, pages(node)) for id_, node in nodes(topology).items()}
    assert found == expected


PAGES = {"2048kB": "hugepages_2mi", "1048576kB": "hugepages_1gi"}


def pages(node: NumaNode) -> dict[str, int]:
    return {size: getattr(node, field) for size, field in PAGES.items() if getattr(node, field) is not None}


@every_capture
def test_bandwidth_and_latency_from_the_best_cpu(name: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    topology, facts = look(name, tmp_path_factory)
    access = {id_: (raw["access"] or {}).get("access1", {}) for id_, raw in facts["nodes"].items()}
    expected = {
        id_: tuple(int(raw.get(fact, 0)) or None for fact in ("read_bandwidth", "read_latency"))
        for id_, raw in access.items()
    }
    found = {id_: (node.read_bandwidth, node.read_latency) for id_, node in nodes(topology).items()}
    assert found == expected


@every_capture
def test_packages_threads_and_caches(name: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    root, facts = unpack(name, tmp_path_factory)
    cpus = read_cpus(Files(root))
    packages: dict[str, list[int]] = {str(package): [] for package in cpus.package.values()}
    for cpu, package in cpus.package.items():
        packages[str(package)].append(cpu)
    assert set(cpus.online) == online(facts)
    assert {package: cpulist.format_list(own) for package, own in packages.items()} == facts["cpu"]["packages"]
    assert cpus.threads_per_core == facts["cpu"]["smt_max"]
    assert {cpulist.format_list(domain) for domain in cpus.l3} == set(facts["cpu"]["l3"])


@every_capture
def test_pci_functions(name: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    root, facts = unpack(name, tmp_path_factory)
    devices = read_tree(Files(root)).devices
    assert {
        "count": len(devices),
        "numa_minus1": sum(device.numa is None for device in devices.values()),
        "root_complexes": sorted({device.root for device in devices.values() if device.root}),
    } == facts["pci_summary"]
    for raw in facts["pci"]:
        device = devices[raw["bdf"]]
        path = [device.root, *device.bridges, device.address]
        assert "/".join(map(str, path)) == raw["path"]
        assert (device.class_code, device.vendor) == (int(raw["class"], 16) >> 8, int(raw["vendor"], 16))
        assert device.local_cpus == cpulist.parse(raw["local_cpulist"])


def test_memory_only_nodes_know_their_nearest_cpus(tmp_path_factory: pytest.TempPathFactory) -> None:
    """All distances are 20 here: only the firmware's links between memory and CPUs tell."""
    topology, _ = look("fakeheteromemtiers", tmp_path_factory)
    assert [node.id for node in topology.cpu_nodes] == [0, 1, 2]
    assert {node.id: node.nearest_cpu_node for node in topology.memory_nodes} == {4: 1, 6: 1, 8: 0, 9: 2}


@pytest.mark.parametrize(
    ("name", "snc", "l3", "packages"),
    [
        ("128arm-2pa2n8cluster4co", 2, 4, [36, 36, 8442, 8442]),
        ("16em64t-4s2c2t-offlines", None, 4, [None]),  # four packages, one NUMA node
        ("32em64t-2n8c+dax+nvme+mic+dimms", 1, 2, [0, 1]),
        ("fakeheteromemtiers", 3, 1, [0, 0, 0]),
        ("ghw-vm-1gpu-nvidia", 1, 1, [0]),
        ("nri-2socket-4node-snc2-hugepages", 2, 2, [0, 0, 1, 1]),
    ],
)
def test_clusters_within_a_package(
    name: str, snc: int | None, l3: int, packages: list[int | None], tmp_path_factory: pytest.TempPathFactory
) -> None:
    topology, _ = look(name, tmp_path_factory)
    assert (topology.snc, topology.l3_count) == (snc, l3)
    assert [node.package for node in topology.cpu_nodes] == packages


def test_network_cards_of_a_server(tmp_path_factory: pytest.TempPathFactory) -> None:
    """The two ports of an Ethernet card, and an InfiniBand card that calls itself `other network`."""
    topology, _ = look("32em64t-2n8c+dax+nvme+mic+dimms", tmp_path_factory)
    found = [(nic.pci_bus_id, nic.if_name, nic.rdma_name, nic.link_layer, nic.numa) for nic in topology.nics or ()]
    assert found == [
        ("0000:02:00.0", "eth0", None, "Ethernet", 0),
        ("0000:02:00.3", "eth1", None, "Ethernet", 0),
        ("0000:82:00.0", "ib0", "mlx4_0", "InfiniBand", 1),
    ]


def test_a_virtual_machine_with_one_gpu(tmp_path_factory: pytest.TempPathFactory) -> None:
    """No function names a NUMA node; there is but one, so it is that."""
    topology, _ = look("ghw-vm-1gpu-nvidia", tmp_path_factory)
    (gpu,) = topology.gpus or ()
    assert (gpu.pci_bus_id, gpu.pcie_root, gpu.pcie_switch) == ("0000:06:00.0", "pci0000:00", None)
    assert (gpu.numa, gpu.numa_source, gpu.cpus) == (0, "cpulist", tuple(range(8)))
    assert (gpu.health, gpu.uuid, gpu.nvlinks) == (None, None, None)
    assert [(nic.pci_bus_id, nic.numa, nic.gpu_classes) for nic in topology.nics or ()] == [("0000:05:00.0", 0, "H")]
    assert topology.unknowns["gpu.nvlink"] == "NVML was not asked"
