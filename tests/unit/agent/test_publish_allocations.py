"""What the kubelet says it gave, in terms of the topology; and its message, byte by byte."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubenexus.agent.allocations import allocations, pod_uids
from kubenexus.agent.podresources import PodResources, WireError, decode
from kubenexus.common.wire import Given, encode_allocations
from tests.machines import dgx_h100
from tests.protobuf import answer, container, device, memory, pod

GPU = "nvidia.com/gpu"


def resources(**more: Any) -> PodResources:
    return PodResources(**{"namespace": "ns", "name": "p", "cpus": (), "devices": (), "numa": (), **more})


@pytest.mark.parametrize(
    ("has", "expected"),
    [
        pytest.param(resources(cpus=(16, 0, 1)), Given((0, 1, 16), (), (0, 1)), id="exclusive CPUs tell NUMA nodes"),
        pytest.param(
            resources(devices=((GPU, "GPU-5"), (GPU, "GPU-1"))), Given((), (1, 5), (0, 1)), id="GPUs by their uuid"
        ),
        pytest.param(resources(devices=((GPU, "GPU-5::2"),)), Given((), (5,), (1,)), id="a share of a GPU"),
        pytest.param(resources(devices=((GPU, "3"),)), Given((), (3,), (0,)), id="GPUs by index"),
        pytest.param(
            resources(devices=((GPU, "MIG-7"), (GPU, "99"), ("example.com/x", "1"))), None, id="devices nobody knows"
        ),
        pytest.param(resources(numa=(1,)), Given((), (), (1,)), id="memory or other devices of a NUMA node"),
        pytest.param(resources(), None, id="nothing of its own"),
    ],
)
def test_allocations(has: PodResources, expected: Given | None) -> None:
    found = allocations([has], dgx_h100(), {("ns", "p"): "uid"})
    assert found == ({"uid": expected} if expected else {})


def test_a_pod_without_a_known_uid_goes_by_its_name() -> None:
    assert allocations([resources(numa=(0,))], dgx_h100(), {}).keys() == {"ns/p"}


def test_uids_come_from_log_folders_unless_two_pods_have_the_name() -> None:
    folders = ["ns_a_uid-a", "ns_b_uid-1", "ns_b_uid-2", "kube-system_static_0a1b", "stray", "x_y"]
    assert pod_uids(folders) == {("ns", "a"): "uid-a", ("kube-system", "static"): "0a1b"}


def test_equal_allocations_are_equal_text() -> None:
    a, b = Given((1,), (), (0,)), Given((), (2,), (1,))
    assert encode_allocations({"x": a, "y": b}) == encode_allocations({"y": b, "x": a})


def test_a_message_of_the_kubelet() -> None:
    message = answer(
        pod(
            "web",
            "ns",
            container(device(GPU, "GPU-0", "GPU-1", numa=[0]), cpus=[2, 3, 300], memory=[memory(1)]),
            container(cpus=[4], packed=False),
        ),
        pod("idle", "ns"),
    )
    assert decode(message) == [
        PodResources("ns", "web", (2, 3, 300, 4), ((GPU, "GPU-0"), (GPU, "GPU-1")), (0, 1)),
        PodResources("ns", "idle", (), (), ()),
    ]


@pytest.mark.parametrize(
    "message",
    [
        pytest.param(answer(pod("web", "ns"))[:-1], id="cut off"),
        pytest.param(b"\x0a", id="a length is missing"),
        pytest.param(b"\x08\x01", id="a number where a pod belongs"),
        pytest.param(b"\x0b", id="a group"),
        pytest.param(b"\xff" * 11, id="a number without end"),
        pytest.param(answer(b"\x0a\x02\xff\xff"), id="a name that is no text"),
    ],
)
def test_garbage_is_refused(message: bytes) -> None:
    with pytest.raises(WireError, match="kubelet's list of pods"):
        decode(message)


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(message: bytes) -> None:
    with contextlib.suppress(WireError):
        decode(message)
