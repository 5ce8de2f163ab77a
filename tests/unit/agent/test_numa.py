"""NUMA nodes: the kernel's ids and columns, nodes without CPUs, tables that cannot be."""

from __future__ import annotations

from pathlib import Path

import pytest

from kubenexus.agent.discovery.nvml import OFF
from kubenexus.agent.discovery.scan import scan
from kubenexus.common.topology import NodeTopology, NumaNode
from tests.trees import cpu, node, write

NODES = "sys/devices/system/node"
FOUR_CPUS = {"sys/devices/system/cpu/online": "0-3"}


def look(root: Path, files: dict[str, str]) -> NodeTopology:
    return scan(write(root, {**FOUR_CPUS, **files}), lambda: OFF)


def nodes(root: Path, files: dict[str, str]) -> tuple[NumaNode, ...]:
    return look(root, files).numa or ()


def test_columns_are_the_online_nodes_in_order(tmp_path: Path) -> None:
    """Ids are 0, 8 and 250; node 4 is possible and offline, and its folder is there."""
    topology = look(
        tmp_path,
        {
            f"{NODES}/online": "0,8,250",
            f"{NODES}/possible": "0-255",
            **node(0, "0-1", "10 20 80"),
            **node(4, "", ""),
            **node(8, "2-3", "21 10 81"),
            **node(250, "", "82 83 10"),
        },
    )
    assert [(node.id, node.cpus, node.nearest_cpu_node) for node in topology.numa or ()] == [
        (0, (0, 1), None),
        (8, (2, 3), None),
        (250, (), 0),
    ]
    assert (topology.distance(0, 250), topology.distance(8, 0), topology.distance(250, 8)) == (80, 21, 83)


def test_a_node_whose_folder_is_missing_keeps_its_column(tmp_path: Path) -> None:
    found = nodes(tmp_path, {f"{NODES}/online": "0-2", **node(0, "0-1", "10 20 30"), **node(2, "2-3", "30 20 10")})
    assert [node.distances for node in found] == [(10, 30), (30, 10)]


@pytest.mark.parametrize("row", ["10", "10 20 30", "10 x", "10 123456"], ids=repr)
def test_a_row_that_does_not_fit_is_unknown(row: str, tmp_path: Path) -> None:
    topology = look(tmp_path, {f"{NODES}/online": "0-1", **node(0, "0-1", row), **node(1, "2-3", "20 10")})
    assert [node.distances for node in topology.numa or ()] == [None, (20, 10)]
    assert "numa-0.distances" in topology.unknowns


def test_a_machine_without_node_folders_is_one_node(tmp_path: Path) -> None:
    """An s390, or a kernel built without NUMA."""
    topology = look(tmp_path, {"proc/meminfo": "MemTotal:  2048 kB\nMemFree: 7 kB", **cpu(0, 3, "0-1", "0-3")})
    (whole,) = topology.numa or ()
    assert (whole.id, whole.cpus, whole.memory, whole.package, whole.distances) == (0, (0,), 2048 * 1024, 3, (10,))


def test_nothing_at_all_is_one_node_of_which_nothing_is_known(tmp_path: Path) -> None:
    (tmp_path / "sys").mkdir()
    assert scan(tmp_path, lambda: OFF) == NodeTopology(numa=(NumaNode(id=0, distances=(10,)),), gpus=(), nics=())


@pytest.mark.parametrize(
    ("cpus", "expected"),
    [
        (("0-3", "0-3"), [(0, (0, 1, 2, 3), 3 * 1024 * 1024, (10,))]),
        (("0-2", "2-3"), [(0, (0, 1, 2, 3), 3 * 1024 * 1024, (10,))]),
        (("0-1", "2-3"), [(0, (0, 1), 1024 * 1024, (10, 20)), (1, (2, 3), 2 * 1024 * 1024, (20, 10))]),
    ],
    ids=["the same CPUs in both", "a CPU in both", "each its own"],
)
def test_no_cpu_is_in_two_places(cpus: tuple[str, str], expected: list[object], tmp_path: Path) -> None:
    found = nodes(tmp_path, {**node(0, cpus[0], "10 20", 1024), **node(1, cpus[1], "20 10", 2048)})
    assert [(node.id, node.cpus, node.memory, node.distances) for node in found] == expected


def test_merging_leaves_the_others_alone(tmp_path: Path) -> None:
    found = nodes(
        tmp_path,
        {
            **node(0, "0", "10 11 12 13"),
            **node(1, "1-2", "11 10 14 15"),
            **node(2, "0,3", "12 14 10 16"),
            **node(5, "", "13 15 16 10"),
        },
    )
    assert [(node.id, node.cpus, node.distances, node.nearest_cpu_node) for node in found] == [
        (0, (0, 3), (10, 11, 13), None),
        (1, (1, 2), (11, 10, 15), None),
        (5, (), (13, 15, 10), 0),
    ]


@pytest.mark.parametrize(
    ("files", "cpus"),
    [
        ({"cpulist": "0-7"}, (0, 1, 2, 3)),
        ({"cpulist": ""}, ()),
        ({"cpumap": "00000000,0000000c"}, (2, 3)),
        ({"cpulist": "garbage"}, None),
        ({"meminfo": ""}, None),
    ],
    ids=["offline CPUs listed", "empty", "only a mask", "garbage", "absent"],
)
def test_cpus_of_a_node(files: dict[str, str], cpus: tuple[int, ...] | None, tmp_path: Path) -> None:
    """A node whose CPUs are unknown is not one without CPUs."""
    (found,) = nodes(
        tmp_path, {f"{NODES}/node0/{name}": text for name, text in files.items()} | {f"{NODES}/online": "0"}
    )
    assert (found.cpus, found.memory_only) == (cpus, cpus == ())


def test_cpus_are_believed_where_nobody_tells_which_are_online(tmp_path: Path) -> None:
    topology = scan(write(tmp_path, node(0, "0-3", "10")), lambda: OFF)
    assert [node.cpus for node in topology.cpu_nodes] == [(0, 1, 2, 3)]


@pytest.mark.parametrize(
    ("access", "bandwidth"),
    [
        ({"access1": "102400", "access0": "900000"}, 102400),
        ({"access0": "51200"}, 51200),
        ({"access1": "0", "access0": "900000"}, None),
        ({"access1": "0"}, None),
        ({}, None),
    ],
    ids=["CPUs before any initiator", "an old kernel", "unknown for CPUs", "zero", "no table"],
)
def test_bandwidth(access: dict[str, str], bandwidth: int | None, tmp_path: Path) -> None:
    table = {f"{NODES}/node0/{name}/initiators/read_bandwidth": text for name, text in access.items()}
    (found,) = nodes(tmp_path, {**node(0, "0-3", "10"), **table})
    assert found.read_bandwidth == bandwidth


def test_the_nearest_cpus_by_distance(tmp_path: Path) -> None:
    found = nodes(tmp_path, {**node(0, "0-1", "10 20 30"), **node(1, "2-3", "20 10 17"), **node(2, "", "30 17 10")})
    assert found[2].nearest_cpu_node == 1


def test_memory_that_is_no_number_is_unknown(tmp_path: Path) -> None:
    files = node(0, "0-3", "10") | {f"{NODES}/node0/meminfo": "Node 0 MemTotal: many kB"}
    assert nodes(tmp_path, files)[0].memory is None
