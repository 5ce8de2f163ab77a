"""The PCI tree: roots wherever they stand, switches, links, and the way between two functions."""

from __future__ import annotations

from pathlib import Path

import pytest

from kubenexus.agent.discovery.files import Files
from kubenexus.agent.discovery.pci import PciDevice, PciTree, address, pair_class, read_tree
from tests.trees import function, write

PORT, UP = "pci0000:16/0000:16:02.0", "pci0000:16/0000:16:02.0/0000:17:00.0"
HYPER_V = "LNXSYSTM:00/LNXSYBUS:00/ACPI0004:00/VMBUS:00/7ad35d50-c05b-47ab-b3a0-56a9a845852b"


def tree(root: Path, *paths: str, **files: str) -> PciTree:
    for path in paths:
        own, links = function(path, "0x030200", "0x10de", **files)
        write(root, own, links)
    return read_tree(Files(root))


def device(root: Path, path: str, **files: str) -> PciDevice:
    return tree(root, path, **files).devices[path.rsplit("/", 1)[-1]]


@pytest.mark.parametrize(
    ("path", "root", "switch"),
    [
        (f"{UP}/0000:18:01.0/0000:1b:00.0", "pci0000:16", "0000:17:00.0"),
        (f"{PORT}/0000:17:00.0", "pci0000:16", None),
        ("pci0000:00/0000:00:03.0", "pci0000:00", None),
        (f"{UP}/0000:18:00.0", "pci0000:16", None),
        (f"{UP}/0000:18:01.0/0000:19:00.0/0000:1a:02.0/0000:1b:00.0", "pci0000:16", "0000:19:00.0"),
        (f"{HYPER_V}/pci0001:00/0001:00:00.0", "pci0001:00", None),
        ("pci0000:64/0000:64:05.5/pci10000:00/10000:00:04.0/10000:01:00.0", "pci0000:64", None),
        ("platform/soc/40000000.pcie/pci000c:00/000c:00:01.0/000c:01:00.0", "pci000c:00", None),
        ("vio/nowhere/abcd1234:01:00.0", None, None),
    ],
    ids=[
        "behind a switch",
        "on a root port",
        "in the root complex",
        "on a bridge of no switch",
        "behind the second of two switches",
        "below Hyper-V",
        "below VMD, in a 32-bit domain",
        "below a platform device",
        "without a root complex",
    ],
)
def test_where_a_function_hangs(path: str, root: str | None, switch: str | None, tmp_path: Path) -> None:
    found = device(tmp_path, path)
    assert (found.root, found.switch, found.is_gpu) == (root, switch, True)


@pytest.mark.parametrize(
    ("own", "port", "link"),
    [
        (("32.0 GT/s PCIe", "16"), ("32.0 GT/s PCIe", "16"), (5, 16)),
        (("16.0 GT/s PCIe", "16"), ("8 GT/s", "8"), (3, 8)),
        (("2.5 GT/s", "4"), ("5.0 GT/s PCIe", "16"), (1, 4)),
        (("64.0 GT/s PCIe", "16"), ("Unknown", "255"), (6, 16)),
        (("Unknown speed", "0"), ("", ""), (None, None)),
        (("7 GT/s", "17"), ("999 GT/s", "-1"), (None, None)),
    ],
    ids=["equal", "a slow slot", "an old card", "a port that does not know", "nobody knows", "nonsense"],
)
def test_a_link_is_as_fast_as_its_slower_end(
    own: tuple[str, str], port: tuple[str, str], link: tuple[int | None, int | None], tmp_path: Path
) -> None:
    names = ("max_link_speed", "max_link_width")
    tree(tmp_path, PORT, **dict(zip(names, port, strict=True)))
    found = device(tmp_path, f"{PORT}/0000:17:00.0", **dict(zip(names, own, strict=True)))
    assert (found.generation, found.width) == link


@pytest.mark.parametrize(
    ("vendor", "class_code", "is_gpu"),
    [
        ("0x10de", "0x030200", True),
        ("0x10de", "0x030000", True),
        ("0x10de", "0x068000", False),  # an NVSwitch
        ("0x10de", "0x040300", False),  # the sound of a GPU
        ("0x1002", "0x120000", True),
        ("0x1002", "0x030000", False),
        ("0x8086", "0x038000", True),
        ("0x1a03", "0x030000", False),  # the console of a management board
        ("garbage", "0x030200", False),
        ("0x10de", "garbage", False),
    ],
)
def test_what_is_a_gpu(vendor: str, class_code: str, is_gpu: bool, tmp_path: Path) -> None:
    own, links = function(f"{PORT}/0000:17:00.0", class_code, vendor)
    assert bool(read_tree(Files(write(tmp_path, own, links))).gpus) is is_gpu


def test_virtual_functions_are_no_gpus(tmp_path: Path) -> None:
    found = tree(tmp_path, f"{PORT}/0000:17:00.0", f"{PORT}/0000:17:00.4")
    assert len(found.gpus) == 2
    (tmp_path / f"sys/devices/{PORT}/0000:17:00.4/physfn").symlink_to("../0000:17:00.0")
    assert [gpu.address for gpu in read_tree(Files(tmp_path)).gpus] == ["0000:17:00.0"]


def test_gpus_are_in_the_order_of_their_addresses(tmp_path: Path) -> None:
    paths = [f"pci{domain}:00/{domain}:{bus}:00.0" for domain in ("0000", "000a", "10000") for bus in ("02", "f0")]
    found = [gpu.address for gpu in tree(tmp_path, *reversed(paths)).gpus]
    assert found == [path.split("/")[1] for path in paths]


ONE, OTHER = f"{UP}/0000:18:01.0/0000:1b:00.0", f"{UP}/0000:18:02.0/0000:1c:00.0"


@pytest.mark.parametrize(
    ("a", "b", "numa", "code"),
    [
        (ONE, OTHER, (0, 0), "I"),
        (ONE, f"{UP}/0000:18:01.0/0000:1b:00.1", (None, None), "I"),
        (ONE, f"{UP}/0000:18:03.0/0000:1d:00.0/0000:1e:00.0/0000:1f:00.0", (None, None), "B"),
        (ONE, f"{UP}/0000:18:03.0/0000:1d:00.0/0000:1e:00.0", (None, None), "B"),
        (ONE, "pci0000:16/0000:16:04.0/0000:3b:00.0", (None, None), "H"),
        ("pci0000:00/0000:00:03.0", "pci0000:00/0000:00:04.0", (None, None), "H"),
        (ONE, "pci0000:60/0000:60:02.0/0000:61:00.0", (0, 0), "N"),
        (ONE, "pci0000:60/0000:60:02.0/0000:61:00.0", (0, 1), "S"),
        (ONE, "pci0000:60/0000:60:02.0/0000:61:00.0", (0, None), "?"),
        ("nowhere/0000:61:00.0", "nowhere/0000:62:00.0", (0, 0), "?"),
        ("nowhere/0000:61:00.0", "nowhere/0000:62:00.0", (0, 1), "S"),
    ],
    ids=[
        "one switch",
        "two functions of a card",
        "two switches, one below the other",
        "a bridge below the switch",
        "two root ports",
        "two functions of the root complex",
        "two root complexes of a node",
        "two nodes",
        "a node unknown",
        "one node, no roots",
        "two nodes, no roots",
    ],
)
def test_the_way_between_two(a: str, b: str, numa: tuple[int | None, int | None], code: str, tmp_path: Path) -> None:
    one, other = tree(tmp_path, a, b).devices.values()
    assert (pair_class(one, other, *numa), pair_class(other, one, *numa)) == (code, code)


@pytest.mark.parametrize(
    ("parts", "text"), [((0, 0x1B, 0), "0000:1b:00.0"), ((0x10000, 0, 0x1F), "10000:00:1f.0")], ids=str
)
def test_addresses_are_spelt_as_the_kernel_does(parts: tuple[int, int, int], text: str) -> None:
    assert address(*parts) == text


def test_a_loop_of_links_is_a_function_without_a_place(tmp_path: Path) -> None:
    folder = tmp_path / "sys/bus/pci/devices"
    folder.mkdir(parents=True)
    (folder / "0000:01:00.0").symlink_to("0000:02:00.0")
    (folder / "0000:02:00.0").symlink_to("0000:01:00.0")
    assert [(d.root, d.bridges, d.class_code) for d in read_tree(Files(tmp_path)).devices.values()] == [
        (None, (), None),
        (None, (), None),
    ]
