"""From live slices to wanted ones: no write without a difference, and generations that only grow with the content."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from kubenexus.agent.publish.slices import Change, Create, Delete, Echo, Replace, generation, plan, pool_name
from kubenexus.common import wire
from kubenexus.common.topology import NodeTopology
from kubenexus.common.vocabulary import DRA_DRIVER
from tests.machines import dgx_h100
from tests.property.topologies import topologies

Obj = dict[str, Any]


def wanted(topology: NodeTopology | None = None, uid: str = "node-uid") -> list[Obj]:
    return wire.encode_slices(topology or dgx_h100(), "n1", uid)[0]


def kept(slice_: Obj) -> Obj:
    """A slice as the server gives it back: with an identity, a version, and times in taints."""
    live = copy.deepcopy(slice_)
    live["metadata"] |= {"uid": f"uid-{live['metadata']['name']}", "resourceVersion": "7", "generation": 3}
    for device in live["spec"].get("devices", ()):
        for taint in device.get("taints", ()):
            taint["timeAdded"] = "2026-01-01T00:00:00Z"
    return live


def live(number: int = 4) -> list[Obj]:
    found = [kept(slice_) for slice_ in wanted()]
    for slice_ in found:
        slice_["spec"]["pool"]["generation"] = number
    return found


def changed(change: Callable[[Obj], object], name: str = "kubenexus-gpu-n1") -> list[Obj]:
    """The live slices, one of them edited by somebody."""
    found = live()
    change(next(slice_ for slice_ in found if slice_["metadata"]["name"] == name))
    return found


def untaint(slice_: Obj) -> None:
    for device in slice_["spec"]["devices"]:
        device.pop("taints", None)


def shown(changes: list[Change]) -> list[tuple[str, str, int]]:
    """(what, slice, generation) of each change."""
    rows = []
    for change in changes:
        if isinstance(change, Delete):
            rows.append(("delete", change.name, 0))
        else:
            name = change.slice["metadata"]["name"]
            rows.append((type(change).__name__.lower(), name, generation(change.slice)))
    return rows


NUMA, GPU, NIC = "kubenexus-numa-n1", "kubenexus-gpu-n1", "kubenexus-nic-n1"


@pytest.mark.parametrize(
    ("existing", "changes"),
    [
        pytest.param([], [("create", name, 1) for name in (NUMA, GPU, NIC)], id="nothing there"),
        pytest.param(live(), [], id="all as wanted"),
        pytest.param(live()[1:], [("create", NUMA, 1)], id="one is missing"),
        pytest.param(
            changed(lambda s: s["spec"]["devices"].pop()), [("replace", GPU, 5)], id="a device was taken away"
        ),
        pytest.param(
            changed(lambda s: s["spec"]["devices"][0]["attributes"].update(index={"int": 7})),
            [("replace", GPU, 5)],
            id="an attribute was edited",
        ),
        pytest.param(
            changed(lambda s: s["metadata"]["ownerReferences"].clear()), [("replace", GPU, 4)], id="it lost its owner"
        ),
        pytest.param(changed(untaint), [("replace", GPU, 4)], id="it lost its taints"),
        pytest.param(
            changed(lambda s: s["metadata"]["labels"].clear()),
            [("replace", GPU, 4)],
            id="it lost the hash of its state",
        ),
        pytest.param(
            changed(lambda s: s["metadata"]["labels"].update(other="x")),
            [],
            id="somebody's label on it is not ours",
        ),
        pytest.param(
            changed(lambda s: s["spec"]["pool"].update(name="old")),
            [("delete", GPU, 0), ("create", GPU, 1)],
            id="of a pool that it cannot leave",
        ),
        pytest.param(
            [*live(), changed(lambda s: s["metadata"].update(name="kubenexus-old-n1"))[1]],
            [("delete", "kubenexus-old-n1", 0)],
            id="a slice of another version of the agent",
        ),
    ],
)
def test_plan(existing: list[Obj], changes: list[tuple[str, str, int]]) -> None:
    assert shown(plan(wanted(), existing, {}, {})) == changes


def test_a_replacement_keeps_identity_and_version_and_foreign_labels() -> None:
    existing = changed(lambda s: s["spec"]["devices"].pop())
    existing[1]["metadata"]["labels"]["other"] = "x"
    [change] = plan(wanted(), existing, {}, {})
    assert isinstance(change, Replace)
    metadata = change.slice["metadata"]
    assert (metadata["uid"], metadata["resourceVersion"]) == (f"uid-{GPU}", "7")
    assert metadata["labels"] == existing[1]["metadata"]["labels"]
    assert len(change.slice["spec"]["devices"]) == 8


def test_after_a_wipe_generations_go_on() -> None:
    seen = {f"n1/{kind}": number for kind, number in (("numa", 4), ("gpu", 9), ("nic", 4))}
    assert shown(plan(wanted(), [], seen, {})) == [("create", NUMA, 5), ("create", GPU, 10), ("create", NIC, 5)]


def test_a_replaced_node_takes_its_slices_over() -> None:
    assert [what for what, *_ in shown(plan(wanted(uid="another"), live(), {}, {}))] == ["replace"] * 3


def test_what_the_server_does_not_keep_is_not_sent_again() -> None:
    """As of taints on servers before 1.36."""
    existing = changed(untaint)
    want = wanted()
    echoes = {GPU: Echo(want[1], copy.deepcopy(existing[1]))}
    assert plan(want, existing, {}, echoes) == []
    existing[1]["spec"]["devices"].pop()
    assert shown(plan(want, existing, {}, echoes)) == [("replace", GPU, 5)]


@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(topologies())
def test_carrying_the_plan_out_leaves_nothing_to_do(after: NodeTopology) -> None:
    server: dict[str, Obj] = {}
    seen: dict[str, int] = {}
    for topology in (dgx_h100(), after):
        want = wanted(topology)
        for change in plan(want, server.values(), seen, {}):
            if isinstance(change, Delete):
                del server[change.name]
                continue
            name = change.slice["metadata"]["name"]
            assert isinstance(change, Create) is (name not in server)
            news = name not in server or server[name]["spec"].get("devices") != kept(change.slice)["spec"].get(
                "devices"
            )
            server[name] = kept(change.slice)
            assert generation(change.slice) == seen.get(pool_name(change.slice), 0) + news
            seen[pool_name(change.slice)] = generation(change.slice)
        assert plan(want, server.values(), seen, {}) == []
        assert {slice_["spec"]["driver"] for slice_ in server.values()} <= {DRA_DRIVER}
