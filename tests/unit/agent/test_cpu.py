"""CPUs by package, core and cache."""

from __future__ import annotations

from pathlib import Path

import pytest

from kubenexus.agent.discovery.cpu import Cpus, read_cpus
from kubenexus.agent.discovery.files import Files
from tests.trees import cpu, write

CPU = "sys/devices/system/cpu"


def read(root: Path, files: dict[str, str]) -> Cpus:
    return read_cpus(Files(write(root, files)))


def test_packages_threads_and_caches(tmp_path: Path) -> None:
    files = {f"{CPU}/online": "0-3"}
    for number, package in ((0, 36), (1, 8442), (2, 36), (3, 8442)):
        files |= cpu(number, package, f"{number % 2},{number % 2 + 2}", f"{number % 2},{number % 2 + 2}")
    assert read(tmp_path, files) == Cpus((0, 1, 2, 3), {0: 36, 1: 8442, 2: 36, 3: 8442}, 2, ((0, 2), (1, 3)))


def test_dies_and_clusters(tmp_path: Path) -> None:
    files = {f"{CPU}/online": "0-7"}
    for number in range(8):
        topology = f"{CPU}/cpu{number}/topology"
        files |= {f"{topology}/die_id": str(number // 4), f"{topology}/cluster_id": str(138 + number // 2)}
        files[f"{topology}/die_cpus_list"] = "0-3" if number < 4 else "4-7"
        files[f"{topology}/cluster_cpus_list"] = f"{number // 2 * 2}-{number // 2 * 2 + 1}"
    found = read(tmp_path, files)
    assert (found.dies, found.clusters) == (((0, 1, 2, 3), (4, 5, 6, 7)), ((0, 1), (2, 3), (4, 5), (6, 7)))
    assert (found.die_count((0, 1)), found.cluster_count(range(6)), found.die_count(())) == (1, 3, None)


@pytest.mark.parametrize("unknown", ["-1", "65535"])
def test_groups_without_an_id_are_unknown(unknown: str, tmp_path: Path) -> None:
    files = {f"{CPU}/online": "0-1"}
    for number in range(2):
        topology = f"{CPU}/cpu{number}/topology"
        files |= {f"{topology}/{name}_id": unknown for name in ("die", "cluster")}
        files |= {f"{topology}/{name}_cpus_list": str(number) for name in ("die", "cluster")}
    found = read(tmp_path, files)
    assert (found.dies, found.clusters, found.die_count((0, 1))) == ((), (), None)


@pytest.mark.parametrize(
    ("files", "online"),
    [
        ({f"{CPU}/online": "0-1", f"{CPU}/cpu0/x": "", f"{CPU}/cpu1/x": ""}, (0, 1)),
        ({f"{CPU}/online": "0-7", f"{CPU}/cpu0/x": "", f"{CPU}/cpu5/x": ""}, (0, 5)),
        ({f"{CPU}/online": "0-1"}, (0, 1)),
        ({f"{CPU}/cpu0/x": "", f"{CPU}/cpu1/online": "0", f"{CPU}/cpu2/online": "1"}, (0, 2)),
        ({f"{CPU}/online": "nonsense", f"{CPU}/cpu3/x": ""}, (3,)),
        ({f"{CPU}/online": "", f"{CPU}/cpu3/x": ""}, (3,)),
        ({f"{CPU}/cpufreq/x": "", f"{CPU}/cpuidle/x": ""}, ()),
    ],
    ids=[
        "the kernel's list",
        "folders are missing",
        "no folders at all",
        "only their own flags",
        "garbage",
        "empty",
        "none",
    ],
)
def test_online(files: dict[str, str], online: tuple[int, ...], tmp_path: Path) -> None:
    assert read(tmp_path, files).online == online


def test_offline_siblings_do_not_count(tmp_path: Path) -> None:
    files = {f"{CPU}/online": "0", **cpu(0, 0, "0-1", "0-3")}
    found = read(tmp_path, files)
    assert (found.threads_per_core, found.l3) == (1, ((0,),))


def test_the_older_names_and_masks(tmp_path: Path) -> None:
    folder = f"{CPU}/cpu0"
    found = read(
        tmp_path,
        {
            f"{CPU}/online": "0-1",
            f"{CPU}/cpu1/x": "",
            f"{folder}/topology/thread_siblings": "00000003",
            f"{folder}/topology/physical_package_id": "-1",
            f"{folder}/cache/index2/level": "3",
            f"{folder}/cache/index2/shared_cpu_map": "3",
        },
    )
    assert found == Cpus((0, 1), {}, 2, ((0, 1),))


def test_a_cache_that_disowns_its_cpu_still_has_it(tmp_path: Path) -> None:
    files = {f"{CPU}/online": "0-1", **cpu(0, 0, "0", "1"), **cpu(1, 0, "1", "7")}
    assert read(tmp_path, files).l3 == ((0, 1),)
