"""Network cards: names, link layer and rate, and where they are."""

from __future__ import annotations

from pathlib import Path

import pytest

from kubenexus.agent.discovery.nvml import OFF
from kubenexus.agent.discovery.scan import scan
from kubenexus.common.topology import Nic
from tests.trees import function, node, write

CARD = "pci0000:16/0000:16:02.0/0000:17:00.0"
IB, NET = "sys/class/infiniband/mlx5_0", "sys/class/net/ib0"


def nics(root: Path, class_code: str = "0x020700", extra: dict[str, str] | None = None) -> tuple[Nic, ...]:
    """The NICs of a machine with one card on node 1, and these files."""
    own, links = function(CARD, class_code, "0x15b3", numa_node="1")
    names = dict.fromkeys((f"{IB}/device", f"{NET}/device"), f"sys/devices/{CARD}")
    nodes = {**node(0, "0", "10 20"), **node(1, "1", "20 10")}
    write(root, {**nodes, **own, **(extra or {})}, {**links, **names})
    return scan(root, lambda: OFF).nics or ()


def port(number: int, state: str, rate: str, layer: str = "InfiniBand") -> dict[str, str]:
    folder = f"{IB}/ports/{number}"
    return {f"{folder}/state": state, f"{folder}/rate": rate, f"{folder}/link_layer": layer}


def test_a_card(tmp_path: Path) -> None:
    assert nics(tmp_path, extra=port(1, "4: ACTIVE", "400 Gb/sec (4X NDR)")) == (
        Nic(
            index=0,
            rdma_name="mlx5_0",
            if_name="ib0",
            link_layer="InfiniBand",
            rate_gbps=400,
            numa=1,
            pci_bus_id="0000:17:00.0",
            pcie_root="pci0000:16",
            gpu_classes="",
        ),
    )


@pytest.mark.parametrize(
    ("files", "layer", "rate"),
    [
        (port(1, "4: ACTIVE", "100 Gb/sec (4X EDR)", "Ethernet"), "Ethernet", 100),
        (port(1, "1: DOWN", "10 Gb/sec (4X SDR)"), "InfiniBand", None),
        ({**port(1, "1: DOWN", "10 Gb/sec"), **port(2, "4: ACTIVE", "56 Gb/sec (4X FDR)")}, "InfiniBand", 56),
        (port(1, "4: ACTIVE", "garbage", ""), "InfiniBand", None),
        ({f"{NET}/operstate": "up", f"{NET}/speed": "25000"}, "InfiniBand", 25),
        ({f"{NET}/operstate": "down", f"{NET}/speed": "25000"}, "InfiniBand", None),
        ({f"{NET}/operstate": "up", f"{NET}/speed": "-1"}, "InfiniBand", None),
        ({}, "InfiniBand", None),
    ],
    ids=[
        "RoCE",
        "an idle port",
        "the active one of two ports",
        "garbage",
        "by its interface",
        "the interface is down",
        "speed unknown",
        "nothing but its class",
    ],
)
def test_link_layer_and_rate(files: dict[str, str], layer: str, rate: int | None, tmp_path: Path) -> None:
    (card,) = nics(tmp_path, extra=files)
    assert (card.link_layer, card.rate_gbps) == (layer, rate)


def test_a_card_of_any_class_that_the_kernel_calls_a_network(tmp_path: Path) -> None:
    assert [nic.rdma_name for nic in nics(tmp_path, "0x028000")] == ["mlx5_0"]


def test_virtual_functions_and_bonds_are_left_out(tmp_path: Path) -> None:
    own, links = function(f"{CARD[:-1]}2", "0x020000", "0x15b3")
    write(tmp_path, {**own, "sys/class/net/bond0/speed": "25000"}, links)
    (tmp_path / f"sys/devices/{CARD[:-1]}2/physfn").symlink_to("../0000:17:00.0")
    assert [nic.pci_bus_id for nic in nics(tmp_path)] == ["0000:17:00.0"]


def test_a_virtio_card_is_known_by_the_function_above_it(tmp_path: Path) -> None:
    own, links = function("pci0000:00/0000:00:03.0", "0x020000", "0x1af4")
    device = "sys/devices/pci0000:00/0000:00:03.0/virtio0"
    write(tmp_path, {**own, f"{device}/x": ""}, {**links, "sys/class/net/eth0/device": device})
    (card,) = scan(tmp_path, lambda: OFF).nics or ()
    assert (card.if_name, card.pci_bus_id, card.link_layer) == ("eth0", "0000:00:03.0", "Ethernet")
