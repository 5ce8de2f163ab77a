"""What NVML says, through the real pynvml in the real child process, with a library of ours in the driver's place."""

from __future__ import annotations

import time
from pathlib import Path

import psutil
import pytest

from kubenexus.agent.discovery.nvml import NvmlAnswer, ask_nvml
from kubenexus.agent.discovery.scan import scan
from kubenexus.common.topology import Gpu, Health, NodeTopology
from tests import trees
from tests.nvml import stub
from tests.nvml.stub import SWITCH, Driver, Facts, gpu, links, machine

ADDRESSES = ("0000:1b:00.0", "0000:43:00.0", "0000:9b:00.0", "0000:c3:00.0")
# 18 links to switches.
SWITCHED = [(SWITCH, f"0:{0xE0 + number % 4:x}:0") for number in range(18)]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return stub.build(tmp_path_factory.mktemp("driver"))


@pytest.fixture(scope="module")
def old_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return stub.build(tmp_path_factory.mktemp("old-driver"), "OLD")


@pytest.fixture
def driver(library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Driver:
    return Driver(library, tmp_path / "scenario", monkeypatch)


def tree(root: Path, *, numa: tuple[int, ...] = (0, 0, 1, 1), nodes: int = 2) -> Path:
    """Two packages and four GPUs, each on a root complex of its own."""
    row = ["20"] * nodes
    files, symlinks = dict[str, str](), dict[str, str]()
    for id_ in range(nodes):
        cpus = f"{id_ * 4}-{id_ * 4 + 3}" if id_ < 2 else ""
        files |= trees.node(id_, cpus, " ".join([*row[:id_], "10", *row[id_ + 1 :]]))
    for address, home in zip(ADDRESSES, numa, strict=True):
        path = f"pci0000:{address[5:7]}/0000:{address[5:7]}:01.0/{address}"
        own, own_links = trees.function(path, "0x030200", "0x10de", numa_node=str(home))
        files, symlinks = files | own, symlinks | own_links
    return trees.write(root, files, symlinks)


def four(*more: Facts) -> list[Facts]:
    """Four healthy GPUs behind switches; later lines change that, for the first line of a key is what counts."""
    usual = [gpu(index, address) for index, address in enumerate(ADDRESSES)]
    return [*more, machine(4), *usual, *(links(index, *SWITCHED) for index in range(4))]


def look(root: Path, driver: Driver, *facts: Facts) -> NodeTopology:
    driver.says(*facts)
    return scan(tree(root))


def cards(topology: NodeTopology) -> tuple[Gpu, ...]:
    return topology.gpus or ()


def test_every_fact_of_a_gpu(driver: Driver, tmp_path: Path) -> None:
    fabric = "5f1e0c9a3d724b8e9a440d6c2f7e1b35 7 3"
    topology = look(tmp_path, driver, *four({"gpu1.mig": 1, "gpu1.memory_numa": 9, "gpu1.fabric": fabric}))
    assert cards(topology)[1] == Gpu(
        index=1,
        minor=1,
        uuid="GPU-1",
        product="NVIDIA H100 80GB HBM3",
        architecture="Hopper",
        compute_capability="9.0",
        driver="580.105.08",
        memory=81559 << 20,
        numa=0,
        numa_source="device",
        memory_numa=9,
        cpus=(0, 1, 2, 3),
        pci_bus_id="0000:43:00.0",
        pcie_root="pci0000:43",
        pcie_gen=5,
        pcie_width=16,
        nvlink_version="4.0",
        nvlinks=18,
        peer_links="i0ii",
        peer_classes="NXSS",
        fabric_clique="5f1e0c9a-3d72-4b8e-9a44-0d6c2f7e1b35.7",
        mig=True,
        health=Health.OK,
    )
    assert (cards(topology)[0].mig, cards(topology)[0].memory_numa, cards(topology)[0].fabric_clique) == (None,) * 3
    assert topology.unknowns == {}


@pytest.mark.parametrize("where", ["gpu1", "gpu1.memory"], ids=["it cannot be opened", "it fell off the bus later"])
def test_a_lost_gpu_hides_no_other(where: str, driver: Driver, tmp_path: Path) -> None:
    topology = look(tmp_path, driver, *four({where: stub.LOST}))
    lost = cards(topology)[1]
    assert [card.health for card in cards(topology)] == [Health.OK, Health.LOST, Health.OK, Health.OK]
    assert [card.uuid for card in topology.usable_gpus] == ["GPU-0", "GPU-2", "GPU-3"]
    assert (lost.index, lost.pci_bus_id, lost.numa) == (1, "0000:43:00.0", 0)
    assert (topology.nvlink, topology.islands) == ("nvswitch", ((0, 2, 3),))
    assert [card.peer_links for card in cards(topology)] == ["00ii", None, "i00i", "i0i0"]
    assert topology.unknowns == {"gpu-1.health": "GPU is lost"}


def test_a_gpu_that_the_driver_does_not_list_is_lost(driver: Driver, tmp_path: Path) -> None:
    topology = look(tmp_path, driver, machine(3), *(gpu(place, ADDRESSES[i]) for place, i in enumerate((0, 1, 3))))
    assert [(card.uuid, card.health) for card in cards(topology)] == [
        ("GPU-0", Health.OK),
        ("GPU-1", Health.OK),
        (None, Health.LOST),
        ("GPU-2", Health.OK),
    ]


def test_a_gpu_that_we_may_not_open_is_not_lost(driver: Driver, tmp_path: Path) -> None:
    topology = look(tmp_path, driver, *four({"gpu2": stub.NO_PERMISSION}))
    assert [card.health for card in cards(topology)] == [Health.OK, Health.OK, None, Health.OK]
    assert len(topology.usable_gpus) == 4


def test_two_gpus_have_as_many_links_as_the_one_with_fewer(driver: Driver, tmp_path: Path) -> None:
    topology = look(tmp_path, driver, *four(links(1, *SWITCHED[:4]), links(2)))
    assert [card.peer_links for card in cards(topology)] == ["040i", "4004", "0000", "i400"]
    assert topology.islands == ((0, 1, 3),)


@pytest.mark.parametrize(
    ("facts", "nvlinks", "reason"),
    [
        ({"gpu0.links": "!3"}, 0, None),
        ({"gpu0.links": "!999"}, None, "NVML does not answer for its links"),
        ({"gpu0.link3.state": 0, "gpu0.link9.state": 0}, 16, None),
        ({"gpu0.link3.state": "!999"}, 17, None),
        ({"gpu0.link3.state": "!999", "gpu0.link3.field": 1}, 18, None),
    ],
    ids=["no NVLink", "no answer", "two inactive", "one without answer", "one that only its field tells of"],
)
def test_links(facts: Facts, nvlinks: int | None, reason: str | None, driver: Driver, tmp_path: Path) -> None:
    topology = look(tmp_path, driver, *four(facts))
    assert cards(topology)[0].nvlinks == nvlinks
    assert topology.unknowns.get("gpu-0.nvlinkLinks") == reason
    assert [card.nvlinks for card in cards(topology)[1:]] == [18] * 3


def test_gpus_without_nvlink(driver: Driver, tmp_path: Path) -> None:
    topology = look(tmp_path, driver, machine(4), *(gpu(i, address) for i, address in enumerate(ADDRESSES)))
    assert (topology.nvlink, topology.islands) == ("none", ())


@pytest.mark.parametrize(
    ("fabric", "clique"),
    [
        ("5f1e0c9a3d724b8e9a440d6c2f7e1b35 0 3", "5f1e0c9a-3d72-4b8e-9a44-0d6c2f7e1b35.0"),
        ("5f1e0c9a3d724b8e9a440d6c2f7e1b35 0 2", None),
        ("00000000000000000000000000000000 1 3", None),
    ],
    ids=["clique 0 is one", "registration not complete", "no cluster"],
)
def test_fabric(fabric: str, clique: str | None, driver: Driver, tmp_path: Path) -> None:
    assert cards(look(tmp_path, driver, *four({"gpu0.fabric": fabric})))[0].fabric_clique == clique


def test_host_numa_is_not_the_node_of_the_gpus_memory(driver: Driver, tmp_path: Path) -> None:
    """As on a GB200 tray: the device names no node, its memory is one, and NVML's affinity has many without CPUs."""
    affinities = ("0,3,4,5", "0,3,4,5", "1,2,6", "1,2,6")
    facts: list[Facts] = [
        {f"gpu{i}.affinity": nodes, f"gpu{i}.memory_numa": 3 + i} for i, nodes in enumerate(affinities)
    ]
    driver.says(*facts, *four())
    topology = scan(tree(tmp_path, numa=(-1, -1, -1, -1), nodes=8))
    assert [(card.numa, card.numa_source, card.memory_numa) for card in cards(topology)] == [
        (0, "nvml", 3),
        (0, "nvml", 4),
        (1, "nvml", 5),
        (1, "nvml", 6),
    ]


def test_nvml_tells_the_way_between_gpus_where_the_bus_does_not(driver: Driver, tmp_path: Path) -> None:
    levels: list[Facts] = [{"gpu0.ancestor1": 10, "gpu0.ancestor2": 20, "gpu0.ancestor3": 50, "gpu1.ancestor2": "!999"}]
    driver.says(*levels, *four())
    first, second, *_ = cards(scan(tree(tmp_path, numa=(-1, -1, -1, -1))))
    assert (first.numa, first.peer_classes, second.peer_classes) == (None, "XIBS", "?X??")


def test_which_gpus_read_each_others_memory(driver: Driver, tmp_path: Path) -> None:
    """NVML says 0 for yes and another number for the reason why not."""
    topology = look(tmp_path, driver, *four({"gpu0.p2p1": 0, "gpu0.p2p2": 3, "gpu0.p2p3": "!999"}))
    assert [card.p2p for card in cards(topology)] == ["?10?", None, None, None]


def test_an_old_driver(old_library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its library lacks half of the functions: those facts are unknown, and far ends are known by their addresses."""
    driver = Driver(old_library, tmp_path / "scenario", monkeypatch)
    direct = [links(0, *[(stub.GPU, ADDRESSES[1])] * 4), links(1, *[(stub.GPU, ADDRESSES[0])] * 4)]
    topology = look(tmp_path, driver, *four({"gpu0.mig": 1, "gpu0.memory_numa": 1}, *direct))
    first = cards(topology)[0]
    assert (first.mig, first.memory_numa, first.architecture, first.uuid) == (None, None, None, "GPU-0")
    assert [card.peer_links for card in cards(topology)] == ["0400", "4000", "000i", "00i0"]
    assert topology.islands == ((0, 1), (2, 3))


def test_a_name_that_is_no_text_costs_nothing_else(driver: Driver, tmp_path: Path) -> None:
    topology = look(tmp_path, driver, *four({"gpu0.name": "NVIDIA \udcff"}))
    assert [card.product for card in cards(topology)] == [None, *["NVIDIA H100 80GB HBM3"] * 3]
    assert cards(topology)[0].uuid == "GPU-0"


@pytest.mark.parametrize(
    ("facts", "status", "reason"),
    [
        ({"init": stub.NOT_LOADED}, "absent", "Driver Not Loaded"),
        ({"init": stub.MISMATCH}, "error", "RM has detected an NVML/RM version mismatch."),
        ({"init": "!999"}, "error", "Unknown Error"),
        ({"init": "!12345"}, "error", "NVML Error with code 12345"),
        ({"count": "!999"}, "error", "Unknown Error"),
        ({"init": "!crash"}, "crashed", "the NVML probe ended with SIGSEGV"),
        ({"gpu2.name": "!crash"}, "crashed", "the NVML probe ended with SIGSEGV"),
    ],
)
def test_what_ends_without_an_answer(facts: Facts, status: str, reason: str, driver: Driver, tmp_path: Path) -> None:
    """GPUs known from PCI are still there then, and none of them is called lost."""
    driver.says(*four(facts))
    answer = ask_nvml()
    assert (answer.status, answer.reason, answer.gpus) == (status, reason, ())
    topology = scan(tree(tmp_path), lambda: answer)
    assert [(card.health, card.numa, card.nvlinks) for card in cards(topology)] == [
        (None, numa, None) for numa in (0, 0, 1, 1)
    ]
    assert topology.unknowns["gpu.nvlink"] == reason
    assert topology.nvlink is None


def test_no_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    answer = ask_nvml()
    if answer.status == "ok":
        pytest.skip("this machine has a driver of its own")
    assert (answer.status, answer.reason) == ("absent", "NVML Shared Library Not Found")


@pytest.mark.parametrize("where", ["init", "gpu1.uuid"])
def test_a_driver_that_hangs_is_left_alone(where: str, driver: Driver) -> None:
    driver.says(*four({where: "!hang"}))
    start = time.monotonic()
    answer = ask_nvml(timeout=0.8)
    assert answer == NvmlAnswer("hung", "NVML gave no answer within 0.8 s")
    assert time.monotonic() - start < 10
    assert not [child for child in psutil.Process().children() if "nvml_probe" in " ".join(child.cmdline())]
