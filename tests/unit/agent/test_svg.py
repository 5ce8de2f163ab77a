"""The picture: well-formed whatever the names, nothing outside the file, nothing outside its box."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from xml.dom import minidom

import pytest

from kubenexus.agent.discovery.nvml import recorded_or_asked
from kubenexus.agent.discovery.scan import scan
from kubenexus.agent.show.svg import ISLANDS, svg
from kubenexus.common.sandbox.machine_tree import write_machine
from kubenexus.common.sandbox.machines import MACHINES, Machine
from kubenexus.common.topology import Gpu, Health, NodeTopology
from tests.machines import dgx1_v100, dgx_h100, gb200, pairs_across_numa


def texts(picture: str) -> list[str]:
    nodes = minidom.parseString(picture).getElementsByTagName("text")
    return ["".join(part.data for part in node.childNodes if isinstance(part, minidom.Text)) for node in nodes]


def boxes(picture: str, style: str) -> list[minidom.Element]:
    found = minidom.parseString(picture).getElementsByTagName("rect")
    return [rect for rect in found if rect.getAttribute("class") == style]


@pytest.fixture
def h100(tmp_path: Path) -> str:
    write_machine(MACHINES["dgx-h100"], tmp_path)
    return svg(scan(tmp_path, lambda: recorded_or_asked(tmp_path)), "DGX")


def test_every_device_has_its_box(h100: str) -> None:
    assert texts(h100)[:2] == ["DGX", "224 CPUs, 2.0 TiB, 8 GPUs, 8 NICs"]
    assert [len(boxes(h100, style)) for style in ("package", "numa", "switch", "nic")] == [2, 2, 8, 8]
    assert {f"GPU{i}" for i in range(8)} | {f"mlx5_{i}" for i in range(8)} <= set(texts(h100))
    assert texts(h100).count("PCIe gen5 x16") == 8
    assert [len(boxes(h100, "cache")), len(boxes(h100, "cell"))] == [2, 112]


def rectangle(rect: minidom.Element) -> tuple[float, float, float, float]:
    x, y, width, height = (float(rect.getAttribute(name)) for name in ("x", "y", "width", "height"))
    return x, y, x + width, y + height


BIG = replace(MACHINES["dgx-h100"], name="16 NICs", nic_numa=(0, 0, 0, 0, 1, 1, 1, 1) * 2)


@pytest.mark.parametrize("machine", [*MACHINES.values(), BIG], ids=lambda machine: machine.name)
def test_boxes_of_a_kind_do_not_overlap_and_none_leaves_the_page(machine: Machine, tmp_path: Path) -> None:
    write_machine(machine, tmp_path)
    picture = svg(scan(tmp_path, lambda: recorded_or_asked(tmp_path)))
    page = minidom.parseString(picture).documentElement
    assert page is not None
    assert len(boxes(picture, "nic")) == len(machine.nic_numa)
    width, height = (float(page.getAttribute(side)) for side in ("width", "height"))
    for style in ("package", "numa", "root", "switch", "gpu", "nic", "cache"):
        found = [rectangle(rect) for rect in boxes(picture, style)]
        assert all(left >= 0 and top >= 0 and right <= width and bottom <= height for left, top, right, bottom in found)
        for number, one in enumerate(found):
            assert not any(_overlap(one, other) for other in found[number + 1 :])


def _overlap(a: tuple[float, ...], b: tuple[float, ...]) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def test_text_stays_within_its_box(h100: str) -> None:
    """A letter of the monospaced font is at most 0.61 of its size wide."""
    rects = [rectangle(rect) for style in ("gpu", "nic") for rect in boxes(h100, style)]
    lines = re.findall(r'<text[^>]* x="(\d+)" y="(\d+)">(NVIDIA[^<]*|InfiniBand)</text>', h100)
    assert len(lines) == 16
    for x, y, text in lines:
        around = [r for r in rects if r[0] <= float(x) <= r[2] and r[1] <= float(y) <= r[3]]
        assert around
        assert float(x) + len(text) * 12 * 0.61 <= around[0][2]


@pytest.mark.parametrize(
    ("topology", "colours", "legend"),
    [
        (dgx_h100(), [ISLANDS[0]] * 8, ["NVLink islands (nvswitch)", "GPU 0-7", "NV18"]),
        (dgx1_v100(), [ISLANDS[0]] * 8, ["NVLink islands (mesh)", "GPU 0-7", "NV1 or NV2"]),
        (
            pairs_across_numa(),
            [ISLANDS[0], ISLANDS[1]] * 2,
            ["NVLink islands (pairs)", "GPU 0,2", "NV4", "GPU 1,3", "NV4"],
        ),
        (gb200(), [ISLANDS[0]] * 4, ["NVLink islands (nvswitch)", "GPU 0-3", "NV18"]),
    ],
    ids=["nvswitch", "mesh", "pairs", "gb200"],
)
def test_islands_are_colours(topology: NodeTopology, colours: list[str], legend: list[str]) -> None:
    picture = svg(topology)
    found = re.findall(r'<rect class="gpu"[^>]*style="fill:(#\w+)"', picture)
    assert sorted(found[: len(colours)]) == sorted(colours)
    assert texts(picture)[-len(legend) :] == legend


def test_a_lost_gpu_has_no_island() -> None:
    picture = svg(dgx_h100(lost=[3]))
    assert len(boxes(picture, "lost")) == 1
    assert "GPU3 (lost)" in texts(picture)


@pytest.mark.parametrize(
    "name",
    ["<script>alert(1)</script>", "A & B", '"quoted"', "\x00\x08\x1b[2J\ufffe", "]]>", "\udcff", "漢字"],
    ids=ascii,
)
def test_hostile_names(name: str) -> None:
    found = texts(svg(NodeTopology(gpus=(Gpu(index=0, product=name, health=Health.OK),)), name))
    shown = "".join(letter if letter.isprintable() else "\ufffd" for letter in name)
    assert [found[0], found[-1]] == [shown, shown]


def test_nothing_comes_from_outside(h100: str) -> None:
    assert re.findall(r"https?://[^\"']+|url\(|@import|<image|href", h100) == ["http://www.w3.org/2000/svg"]


def test_an_empty_topology_is_a_picture_too() -> None:
    assert texts(svg(NodeTopology())) == ["Machine", "0 CPUs, 0 B, 0 GPUs, 0 NICs"]
