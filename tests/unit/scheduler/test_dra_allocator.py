"""The allocator: what is asked for, what is found, what is written, and what people are told. Most of its rules are in
kube-scheduler's own cases, see `test_conformance_allocator.py`.
"""

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import Any

import pytest

from kubenexus.common.objects import (
    DeviceClassView,
    project_device_class,
    project_resource_claim,
    project_resource_slice,
)
from kubenexus.scheduler.dra import Allocator, Ask, Found, InUse, Inventory, NoDevices
from kubenexus.scheduler.dra.result import written
from tests.builders import ClaimBuilder, SliceBuilder, claim, device_class, device_request, resource_slice

Obj = dict[str, Any]
INFORMATIONAL = {"key": "topology.example.com/informational", "effect": "NoSchedule"}


def gpus(node: str = "n", count: int = 4, **more: Any) -> SliceBuilder:
    """A slice of GPUs, two in each NUMA node."""
    builder = resource_slice(f"{node}-gpus", "gpu.example.com", node)
    for number in range(count):
        builder.device(f"gpu-{number}", uuid=f"{node}-{number}", numa=number // 2, type="gpu")
        builder.obj["spec"]["devices"][-1].update(more)
    return builder


def classes(*more: DeviceClassView) -> dict[str, DeviceClassView]:
    gpu = project_device_class(device_class("gpu", 'device.driver == "gpu.example.com"').build())
    return {one.name: one for one in (gpu, *more)}


def allocator(*slices: SliceBuilder, known: dict[str, DeviceClassView] | None = None, **more: Any) -> Allocator:
    inventory = Inventory()
    for one in slices:
        inventory.set(project_resource_slice(one.build()))
    return Allocator(inventory, InUse(), classes() if known is None else known, **more)


def ask(where: Allocator, *claims: ClaimBuilder) -> Ask:
    found = where.ask([project_resource_claim(one.build()) for one in claims])
    assert isinstance(found, Ask), found
    return found


def devices(found: Found | NoDevices) -> list[list[str]]:
    assert not isinstance(found, NoDevices), found
    return [[pick.device.id.name for pick in picks] for picks in found]


def hold(where: Allocator, node: str, *claims: ClaimBuilder) -> list[Obj]:
    """Give devices to claims, and return what is written."""
    views = [project_resource_claim(one.build()) for one in claims]
    found = where.find(ask(where, *claims), node, {})
    assert not isinstance(found, NoDevices), found
    ids = (f"share-{number}" for number in itertools.count())
    grants = where.grants(views, found, node, lambda: next(ids))
    for one in grants:
        where.in_use.hold(one.claim.key, one.allocation.devices)
    return [one.body for one in grants]


def test_what_is_held_is_not_found_again() -> None:
    where = allocator(gpus())
    for number in range(4):
        (body,) = hold(where, "n", claim(f"c{number}").request("gpu"))
        assert [one["device"] for one in body["devices"]["results"]] == [f"gpu-{number}"]
    wanted = ask(where, claim("c4").request("gpu"))
    assert where.find(wanted, "n", {}) == where.refusal(wanted, "n", {}) == NoDevices("cannot allocate all claims")
    where.in_use.hold("default/c2", ())
    assert devices(where.find(wanted, "n", {})) == [["gpu-2"]]
    assert where.refusal(wanted, "n", {}) is None


def test_claims_that_are_alike_ask_for_the_same() -> None:
    where = allocator(gpus())
    first = ask(where, claim("a").request("gpu", count=2))
    assert ask(where, claim("b").request("gpu", count=2)) is first
    assert ask(where, claim("b").request("gpu", count=1)) is not first
    assert ask(where, claim("b").request("gpu", count=2).constraint("matchAttribute", "d/numa")) is not first


def test_a_class_that_changes_makes_another_ask() -> None:
    known = classes()
    where = allocator(gpus(), known=known)
    before = ask(where, claim("a").request("gpu"))
    known["gpu"] = project_device_class(device_class("gpu", "false").build())
    after = ask(where, claim("a").request("gpu"))
    assert (where.refusal(before, "n", {}) is None, where.refusal(after, "n", {}) is None) == (True, False)


def test_nodes_that_look_alike_are_searched_once() -> None:
    nodes = [f"n{number}" for number in range(20)]
    where = allocator(*(gpus(node) for node in nodes))
    wanted = ask(where, claim("a").request("gpu", count=2))
    assert [devices(where.find(wanted, node, {})) for node in nodes] == [[["gpu-0", "gpu-1"]]] * 20
    assert len(wanted.outcomes) == 1
    hold(where, "n7", claim("b").request("gpu"))
    assert devices(where.find(wanted, "n7", {})) == [["gpu-1", "gpu-2"]]
    assert len(wanted.outcomes) == 2


def test_devices_that_only_inform_are_not_given() -> None:
    where = allocator(gpus(taints=[INFORMATIONAL]))
    tolerant = claim("b").request("gpu", tolerations=[{"operator": "Exists"}])
    assert where.refusal(ask(where, claim("a").request("gpu")), "n", {}) is not None
    assert where.refusal(ask(where, tolerant), "n", {}) is None


def test_selectors_are_not_evaluated_on_devices_that_cannot_be_had() -> None:
    about = resource_slice("about", "gpu.example.com", "n", "about").device("without-numa")
    about.obj["spec"]["devices"][0]["taints"] = [INFORMATIONAL]
    where = allocator(about, gpus())
    picky = claim("a").request("gpu", selectors=['device.attributes["gpu.example.com"].numa == 1'])
    assert devices(where.find(ask(where, picky), "n", {})) == [["gpu-2"]]


BROKEN: dict[str, tuple[ClaimBuilder, str]] = {
    "no class": (claim("a").request("r", ""), "the request r names no device class"),
    "unknown class": (
        claim("a").request("r", "tpu"),
        "the request r is for the device class tpu, which does not exist: create it",
    ),
    "unknown kind of selector": (
        claim("a").request("r", selectors=[""]),
        "the request r has a selector of a kind that this version does not know",
    ),
    "unknown kind of selector in the class": (
        claim("a").request("r", "odd"),
        "the device class odd has a selector of a kind that this version does not know",
    ),
    "unknown kind of request": (
        claim("a").append("spec.devices.requests", {"name": "r"}),
        "the request r is of a kind that this version does not know",
    ),
    "unknown kind of constraint": (
        claim("a").request("r").append("spec.devices.constraints", {}),
        "it has a constraint of a kind that this version does not know",
    ),
    "unknown mode": (
        claim("a").request("r", allocationMode="Some"),
        "spec.devices.requests[0].exactly.allocationMode is Some, neither ExactCount nor All",
    ),
    "none": (claim("a").request("r", count=0), "the request r asks for 0 devices"),
    "too many": (
        claim("a").request("r", count=20).request("s", count=13),
        "it asks for 33 devices, and a claim can have 32 at most: use several claims",
    ),
}


@pytest.mark.parametrize(("broken", "why"), BROKEN.values(), ids=BROKEN)
def test_claims_that_nobody_can_satisfy_are_refused_at_once(broken: ClaimBuilder, why: str) -> None:
    where = allocator(gpus(), known=classes(project_device_class(device_class("odd", "").build())))
    expected = NoDevices(f"the claim a cannot be satisfied anywhere: {why}", fatal=True)
    assert where.ask([project_resource_claim(broken.build())]) == expected


FATAL: dict[str, tuple[ClaimBuilder, str]] = {
    "a selector that does not compile": (
        claim("a").request("r", selectors=["nonsense"]),
        "a selector of the request r cannot be evaluated on a device: undeclared reference to 'nonsense'",
    ),
    "a selector without an answer": (
        claim("a").request("r", selectors=['device.attributes["gpu.example.com"].speed > 1']),
        "a selector of the request r cannot be evaluated on a device: no such key: speed",
    ),
    "a constraint against all": (
        claim("a").request("r", count=None).constraint("matchAttribute", "gpu.example.com/numa"),
        "the request r asks for all devices, and a constraint is against one",
    ),
}


@pytest.mark.parametrize(("broken", "why"), FATAL.values(), ids=FATAL)
def test_what_goes_wrong_in_a_search_ends_it(broken: ClaimBuilder, why: str) -> None:
    where = allocator(gpus())
    found = where.find(ask(where, broken), "n", {})
    assert isinstance(found, NoDevices)
    assert found.fatal
    assert found.reason.startswith(why)
    assert str(found) == f"{found.reason} (for instance {found.where})"
    assert found.where.startswith("gpu.example.com/n/gpu-")


def test_all_devices_of_a_pool_that_is_being_updated_cannot_be_had() -> None:
    where = allocator(gpus().set("spec.pool.resourceSliceCount", 2))
    found = where.find(ask(where, claim("a").request("r", count=None)), "n", {})
    why = "the request r asks for all devices, and a pool cannot be used now: being updated"
    assert found == NoDevices(why, fatal=True)
    assert str(found) == f"{why} (for instance gpu.example.com/n)"


def test_more_than_a_claim_can_have_are_too_many_even_if_all_are_wanted() -> None:
    where = allocator(gpus(count=33))
    found = where.find(ask(where, claim("a").request("r", count=None)), "n", {})
    assert found == NoDevices("a claim asks for 33 devices, and it can have 32 at most", fatal=True)


def test_an_option_that_would_make_the_claim_too_large_is_passed_over() -> None:
    where = allocator(gpus(count=40))
    wanted = claim("a").either("r", many=device_request(count=20), few=device_request(count=2)).request("s", count=20)
    found = where.find(ask(where, wanted), "n", {})
    assert not isinstance(found, NoDevices)
    assert {pick.option.name for pick in found[0]} == {"r/few", "s"}


def test_a_search_that_takes_too_long_is_given_up() -> None:
    where = allocator(gpus(count=24), budget=1000)
    wanted = [
        claim(name).request("r", count=13).constraint("distinctAttribute", "gpu.example.com/uuid") for name in "ab"
    ]
    found = where.find(ask(where, *wanted), "n", {})
    assert isinstance(found, NoDevices)
    assert found.fatal
    assert "too many steps" in found.reason


def test_a_hopeless_search_among_like_devices_is_short() -> None:
    where = allocator(gpus(count=24), budget=1000)
    found = where.find(ask(where, *(claim(name).request("r", count=13) for name in "ab")), "n", {})
    assert found == NoDevices("cannot allocate all claims")


def test_a_hopeless_search_under_a_constraint_is_short() -> None:
    where = allocator(gpus(count=24), budget=1000)
    wanted = claim("a").request("r", count=3).constraint("matchAttribute", "gpu.example.com/numa")
    assert where.find(ask(where, wanted), "n", {}) == NoDevices("cannot allocate all claims")


def test_devices_may_be_traded_between_claims() -> None:
    """The first claim must leave the devices of NUMA node 0, which it would take, to the last."""
    where = allocator(gpus(count=8), budget=1000)
    first, second = (claim(name).request("r", count=3) for name in "ab")
    last = claim("c").request("r", count=2, selectors=['device.attributes["gpu.example.com"].numa == 0'])
    found = devices(where.find(ask(where, first, second, last), "n", {}))
    assert found == [["gpu-2", "gpu-3", "gpu-4"], ["gpu-5", "gpu-6", "gpu-7"], ["gpu-0", "gpu-1"]]


def test_a_pod_may_have_very_many_devices() -> None:
    where = allocator(gpus(count=1280))
    wanted = [claim(f"c{number}").request("r", count=32) for number in range(40)]
    assert [len(one) for one in devices(where.find(ask(where, *wanted), "n", {}))] == [32] * 40


def test_a_constraint_that_refuses_a_device_leaves_no_trace_in_others() -> None:
    """The second constraint refuses gpu-1 after the first has taken it in, and gpu-2 is in another NUMA node."""
    wanted = claim("a").request("r", count=2)
    wanted.constraint("distinctAttribute", "gpu.example.com/numa").constraint("matchAttribute", "gpu.example.com/type")
    odd = gpus()
    odd.obj["spec"]["devices"][2]["attributes"]["type"] = {"string": "other"}
    where = allocator(odd)
    assert devices(where.find(ask(where, wanted), "n", {})) == [["gpu-0", "gpu-3"]]


EXPLAINED: dict[str, tuple[ClaimBuilder, str]] = {
    "too few": (
        claim("a").request("r", count=5),
        "the request r asks for 5 devices of the class gpu, and of 4 on the node 3 are free",
    ),
    "none": (
        claim("a").request("r", selectors=["false"]),
        "the request r asks for 1 device of the class gpu, and the node has none that it may have",
    ),
    "none of all": (
        claim("a").request("r", count=None, selectors=["false"]),
        "the request r asks for all devices of the class gpu, and the node has none that it may have",
    ),
    "either": (
        claim("a").either("r", x=device_request(count=9), y=device_request(count=8)),
        "; ".join(
            f"the request {name} asks for {count} devices of the class gpu, and of 4 on the node 3 are free"
            for name, count in (("r/x", 9), ("r/y", 8))
        ),
    ),
    "together": (
        claim("a").request("r", count=2).request("s", count=2),
        "each request could be satisfied alone, but not all together, or not within their constraints",
    ),
}


@pytest.mark.parametrize(("wanted", "why"), EXPLAINED.values(), ids=EXPLAINED)
def test_what_people_are_told(wanted: ClaimBuilder, why: str) -> None:
    where = allocator(gpus())
    hold(where, "n", claim("other").request("r"))
    compiled = ask(where, wanted)
    assert where.refusal(compiled, "n", {}) is not None
    assert where.explain(compiled, "n", {}) == why


PART = {"driver": "part.example.com", "pool": "n", "device": "part"}
CONDITIONS = {"bindingConditions": ["Linked"], "bindingFailureConditions": ["Broken"]}
WORN = {"key": "worn", "operator": "Exists", "tolerationSeconds": 60}


def parts() -> Allocator:
    """GPUs, and a device that can be shared and has to be prepared."""
    published = resource_slice("parts", "part.example.com", "n").device("part")
    policy = {"default": "1Gi", "validRange": {"min": "1Gi"}}
    capacity = {"memory": {"value": "8Gi", "requestPolicy": policy}}
    published.obj["spec"]["devices"][0] |= {"allowMultipleAllocations": True, "capacity": capacity, **CONDITIONS}
    kind = device_class("part", 'device.driver == "part.example.com"').set("spec.config", [{"opaque": {"of": "class"}}])
    return allocator(published, gpus(), known=classes(project_device_class(kind.build())))


def test_devices_are_written_with_all_that_kubelets_need() -> None:
    wanted = claim("a").request("r", "part", tolerations=[WORN], capacity={"requests": {"memory": "1536Mi"}})
    wanted.either("s", x=device_request("part"), y=device_request("gpu", 9)).request("t", adminAccess=True)
    (body,) = hold(parts(), "n", wanted)
    assert body["devices"]["results"] == [
        {"request": "r", **PART, "tolerations": [WORN], "shareID": "share-0",
         "consumedCapacity": {"memory": "1536Mi"}, **CONDITIONS},
        {"request": "s/x", **PART, "shareID": "share-1", "consumedCapacity": {"memory": "1Gi"}, **CONDITIONS},
        {"request": "t", "driver": "gpu.example.com", "pool": "n", "device": "gpu-0", "adminAccess": True},
    ]  # fmt: skip
    named = [{"key": "metadata.name", "operator": "In", "values": ["n"]}]
    assert body["nodeSelector"] == {"nodeSelectorTerms": [{"matchFields": named}]}


def test_drivers_are_told_what_class_and_claim_say_about_what_was_chosen() -> None:
    wanted = claim("a").request("r", "part").either("s", x=device_request("part"), y=device_request("gpu", 9))
    config = [{"requests": ["s/y"], "opaque": {"of": "y"}}, {"requests": ["s/x", "r"], "opaque": {"of": "x"}}]
    wanted.set("spec.devices.config", [*config, {"opaque": {"of": "all"}}])
    (body,) = hold(parts(), "n", wanted)
    assert body["devices"]["config"] == [
        {"source": "FromClass", "requests": ["r", "s/x"], "opaque": {"of": "class"}},
        {"source": "FromClaim", "requests": ["s/x", "r"], "opaque": {"of": "x"}},
        {"source": "FromClaim", "opaque": {"of": "all"}},
    ]


def test_devices_of_several_nodes_can_be_used_where_all_selectors_match() -> None:
    fabric = {"key": "fabric", "operator": "In", "values": ["f2", "f1"]}
    slices = []
    for name, selected in (("one", [fabric]), ("two", [{"key": "zone", "operator": "Exists"}, fabric])):
        published = resource_slice(name, "gpu.example.com", "", name).device("gpu").set("spec.nodeName", None)
        slices.append(published.set("spec.nodeSelector", {"nodeSelectorTerms": [{"matchExpressions": selected}]}))
    where = allocator(*slices)
    view = project_resource_claim(claim("a").request("r", count=2).build())
    labels = {"fabric": "f1", "zone": "z"}
    found = where.find(ask(where, claim("a").request("r", count=2)), "n", labels)
    assert not isinstance(found, NoDevices)
    (grant,) = where.grants([view], found, "n", str)
    expected = [{**fabric, "values": ["f1", "f2"]}, {"key": "zone", "operator": "Exists"}]
    assert grant.body["nodeSelector"] == {"nodeSelectorTerms": [{"matchExpressions": expected}]}


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        (0, "0"),
        (3, "3"),
        (1000, "1000"),
        (1024, "1Ki"),
        (3 << 29, "1536Mi"),
        (Fraction(1, 2), "500m"),
        (1 << 63, f"{1 << 63}"),
    ],
)
def test_amounts_are_written_short_and_exactly(amount: int | Fraction, text: str) -> None:
    assert written(Fraction(amount)) == text
