"""Pools: which devices a node can use, and who has them."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from kubenexus.common.objects import AllocatedDevice, project_resource_slice
from kubenexus.scheduler.dra import DeviceId, InUse, Inventory, PoolId
from tests.builders import SliceBuilder, resource_slice

Obj = dict[str, Any]
LABELS = {"zone": "a"}
NOWHERE: Obj = {"nodeName": None}
IN_ZONE_A = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]}
IN_ZONE_B = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["b"]}]}]}
UNREADABLE = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "Near", "values": ["a"]}]}]}


def made(name: str, *devices: str, pool: str = "p", of: int = 1, generation: int = 1, **spec: Any) -> SliceBuilder:
    """A slice of a pool, for the node n unless it says otherwise."""
    builder = resource_slice(name, "d", "n", pool)
    for device in devices:
        builder.device(device)
    builder.set("spec.pool", {"name": pool, "generation": generation, "resourceSliceCount": of})
    for key, value in spec.items():
        builder.set(f"spec.{key}", value)
    return builder


def inventory(*slices: SliceBuilder) -> Inventory:
    found = Inventory()
    for one in slices:
        found.set(project_resource_slice(one.build()))
    return found


def names(found: Inventory, node: str = "n", labels: dict[str, str] = LABELS) -> list[str]:
    return [device.id.name for device in found.reachable(node, labels).devices]


def counters(name: str, **spec: Any) -> SliceBuilder:
    sets = [{"name": "card", "counters": {"memory": {"value": "4"}}}]
    return made(name, sharedCounters=sets, devices=None, **spec)


def drawing(name: str, counter_set: str = "card", counter: str = "memory", **spec: Any) -> SliceBuilder:
    builder = made(name, f"of-{name}", **spec)
    drawn = [{"counterSet": counter_set, "counters": {counter: {"value": "1"}}}]
    builder.obj["spec"]["devices"][0]["consumesCounters"] = drawn
    return builder


REACH: dict[str, tuple[SliceBuilder, list[str]]] = {
    "its own": (made("s", "a"), ["a"]),
    "another's": (made("s", "a", nodeName="m"), []),
    "all nodes'": (made("s", "a", **NOWHERE, allNodes=True), ["a"]),
    "those in its zone": (made("s", "a", **NOWHERE, nodeSelector=IN_ZONE_A), ["a"]),
    "those in another zone": (made("s", "a", **NOWHERE, nodeSelector=IN_ZONE_B), []),
    "of a future kind": (made("s", "a", **NOWHERE), []),
}


@pytest.mark.parametrize(("published", "expected"), REACH.values(), ids=REACH)
def test_which_devices_a_node_can_use(published: SliceBuilder, expected: list[str]) -> None:
    assert names(inventory(published)) == expected


def test_devices_may_say_for_themselves_where_they_can_be_used() -> None:
    published = made("s", "a", "b", "c", "d", **NOWHERE, perDeviceNodeSelection=True)
    places = ({"nodeName": "n"}, {"nodeName": "m"}, {"allNodes": True}, {"nodeSelector": IN_ZONE_A})
    for device, place in zip(published.obj["spec"]["devices"], places, strict=True):
        device.update(place)
    found = inventory(published)
    assert names(found) == ["a", "c", "d"]
    assert names(found, "m", {}) == ["b", "c"]
    assert names(found, "other", {}) == ["c"]


POOLS: dict[str, tuple[list[SliceBuilder], list[str], str]] = {
    "whole": ([made("s2", "b", of=2), made("s1", "a", of=2)], ["a", "b"], ""),
    "a slice is missing": ([made("s1", "a", of=2)], [], "being updated"),
    "an older generation": ([made("s1", "a"), made("s2", "b", generation=2)], ["b"], ""),
    "a newer one is not complete": ([made("s1", "a"), made("s2", "b", generation=2, of=2)], [], "being updated"),
    "the rest is elsewhere": ([made("s1", "a", of=2), made("s2", "b", of=2, nodeName="m")], ["a"], ""),
    "a device is there twice": ([made("s1", "a", of=2), made("s2", "a", of=2)], [], "the device a is in it twice"),
    "with counters": ([counters("s1", of=2), drawing("s2", of=2)], ["of-s2"], ""),
    "with counters kept elsewhere": ([counters("s1", of=2, nodeName="m"), drawing("s2", of=2)], ["of-s2"], ""),
    "an unknown counter set": (
        [counters("s1", of=2), drawing("s2", "disk", of=2)],
        [],
        "the device of-s2 needs counters of disk that are not there",
    ),
    "an unknown counter": (
        [counters("s1", of=2), drawing("s2", counter="slots", of=2)],
        [],
        "the device of-s2 needs counters of card that are not there",
    ),
    "an unknown counter of a device elsewhere": (
        [counters("s1", of=3), drawing("s2", of=3), drawing("s3", "disk", of=3, nodeName="m")],
        [],
        "the device of-s3 needs counters of disk that are not there",
    ),
    "a counter set is there twice": (
        [counters("s1", of=3), counters("s2", of=3), drawing("s3", of=3)],
        [],
        "the counter set card is in it twice",
    ),
}


@pytest.mark.parametrize(("slices", "expected", "problem"), POOLS.values(), ids=POOLS)
def test_only_pools_that_are_whole_and_right_give_devices(
    slices: list[SliceBuilder], expected: list[str], problem: str
) -> None:
    found = inventory(*slices)
    assert names(found) == expected
    assert [pool.problem for pool in found.reachable("n", LABELS).pools] == [problem]


def test_a_pool_that_has_moved_elsewhere_is_no_more() -> None:
    old, new = made("s1", "a", of=2), made("s2", "b", of=2, generation=2, nodeName="m")
    assert inventory(old, new).reachable("n", LABELS).pools == ()


def test_pools_are_used_by_name_and_those_that_need_preparing_last() -> None:
    prepared = made("s1", "first", pool="a")
    prepared.obj["spec"]["devices"][0]["bindingConditions"] = ["Linked"]
    found = inventory(prepared, made("s2", "third", pool="c"), made("s3", "b-2", "b-1", pool="b"))
    assert names(found) == ["b-2", "b-1", "third", "first"]


def test_a_selector_that_cannot_be_read_is_said() -> None:
    reachable = inventory(made("s", "a", **NOWHERE, nodeSelector=UNREADABLE)).reachable("n", LABELS)
    assert reachable.devices == ()
    assert reachable.problem.startswith("the ResourceSlice s has a node selector that cannot be read: ")


CHANGES: dict[str, tuple[SliceBuilder, bool]] = {
    "the same again": (made("s1", "a"), False),
    "the node's slice": (made("s1", "b"), True),
    "another node's slice": (made("s2", "b", nodeName="m", pool="q"), False),
    "another slice of the pool": (made("s2", "b", nodeName="m"), True),
    "a slice for all nodes": (made("s2", "b", pool="q", **NOWHERE, allNodes=True), True),
    "a slice for its zone": (made("s2", "b", pool="q", **NOWHERE, nodeSelector=IN_ZONE_A), True),
    "a slice for another zone": (made("s2", "b", pool="q", **NOWHERE, nodeSelector=IN_ZONE_B), False),
    "the pool is elsewhere": (made("s2", "b", generation=2, **NOWHERE, nodeSelector=IN_ZONE_B), True),
    "a selector that nobody can read": (made("s2", "b", pool="q", **NOWHERE, nodeSelector=UNREADABLE), True),
    "counters of the pool": (counters("s2"), True),
}


@pytest.mark.parametrize(("change", "renewed"), CHANGES.values(), ids=CHANGES)
def test_what_a_node_can_use_is_kept_until_it_may_have_changed(change: SliceBuilder, renewed: bool) -> None:
    found = inventory(made("s1", "a"))
    before = found.reachable("n", LABELS)
    found.set(project_resource_slice(change.build()))
    assert (found.reachable("n", LABELS) is not before) == renewed


def test_a_node_whose_labels_change_may_use_other_devices() -> None:
    found = inventory(made("s", "a", **NOWHERE, nodeSelector=IN_ZONE_A))
    assert [names(found, labels=labels) for labels in ({}, LABELS, {})] == [[], ["a"], []]


def test_slices_go() -> None:
    found = inventory(made("s1", "a"), made("s2", "b", pool="q", **NOWHERE, allNodes=True))
    assert names(found) == ["a", "b"]
    found.remove("s2")
    assert names(found) == ["a"]
    found.remove("s1")
    found.remove("s1")
    assert names(found) == []


def test_whom_it_matters_to_what_is_taken_from_a_pool() -> None:
    found = inventory(
        counters("s1", of=3),
        drawing("s2", of=3),
        drawing("s3", of=3, nodeName="m"),
        made("s4", "a", pool="q", **NOWHERE, allNodes=True),
    )
    assert found.users(PoolId("d", "p")) == frozenset(("n", "m"))
    assert found.users(PoolId("d", "q")) is None
    assert found.users(PoolId("d", "unknown")) == frozenset()


GPU = DeviceId("d", "p", "gpu")
WHOLE = AllocatedDevice("r", *GPU, False, "", {})


def share(slots: int) -> AllocatedDevice:
    return AllocatedDevice("r", *GPU, False, f"share of {slots}", {"slots": Fraction(slots)})


def test_a_claim_has_what_it_held_last() -> None:
    in_use = InUse()
    assert in_use.hold("c", [WHOLE]) == ()
    assert in_use.whole(GPU)
    assert in_use.hold("c", []) == (WHOLE,)
    assert not in_use.taken
    assert in_use.held("c") == ()


def test_holding_what_was_held_before_undoes_it() -> None:
    in_use = InUse()
    in_use.hold("a", [share(1)])
    before = in_use.hold("a", [share(2), share(3)])
    assert in_use.consumed(GPU) == {"slots": 5}
    in_use.hold("a", before)
    assert in_use.consumed(GPU) == {"slots": 1}
    assert in_use.held("a") == (share(1),)


def test_a_device_that_two_have_is_free_when_both_are_gone() -> None:
    in_use = InUse()
    in_use.hold("a", [WHOLE])
    in_use.hold("b", [WHOLE])
    in_use.hold("a", [])
    assert in_use.whole(GPU)
    in_use.hold("b", [])
    assert not in_use.whole(GPU)


def test_shares_leave_a_device_to_be_shared() -> None:
    in_use = InUse()
    in_use.hold("a", [share(1)])
    assert (in_use.whole(GPU), in_use.shared(GPU), GPU in in_use.taken) == (False, True, True)
    in_use.hold("a", [])
    assert (in_use.shared(GPU), in_use.consumed(GPU)) == (False, {})


def test_administrators_take_nothing_away() -> None:
    in_use = InUse()
    in_use.hold("a", [WHOLE._replace(admin=True)])
    assert not in_use.taken
