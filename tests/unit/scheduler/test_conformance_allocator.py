"""The allocator of devices against kube-scheduler's cases."""

from __future__ import annotations

import itertools
from collections import Counter
from copy import deepcopy
from typing import Any

import pytest

from kubenexus.common import quantity
from kubenexus.common.objects import (
    AllocatedDevice,
    project_device_class,
    project_node,
    project_resource_claim,
    project_resource_slice,
)
from kubenexus.scheduler.dra import Allocator, InUse, Inventory, NoDevices
from tests.shared import conformance

Case = dict[str, Any]
# An error upstream, but one that only refuses the node; all others end the scheduling of the pod.
INVALID = "invalid resource pools were encountered"


@pytest.mark.parametrize("case", conformance("dra_allocator", "allocate", gated=True))
def test_allocate(case: Case) -> None:
    claims = [project_resource_claim(raw) for raw in case.get("claims", ())]
    classes = {raw["metadata"]["name"]: project_device_class(raw) for raw in case.get("deviceClasses", ())}
    allocator = Allocator(_inventory(case), _in_use(case), classes)
    node = project_node(case["nodes"][0])
    ask = allocator.ask(claims)
    found = ask if isinstance(ask, NoDevices) else allocator.find(ask, node.name, node.meta.labels)
    want = case["want"]
    if isinstance(found, NoDevices):
        assert not want["allocated"], found
        assert (found.fatal or found.reason == INVALID) == ("error" in want), found
        return
    assert want["allocated"]
    ids = (f"share-{number}" for number in itertools.count())
    grants = allocator.grants(claims, found, node.name, lambda: next(ids))
    assert [_comparable(one.body) for one in grants] == [_comparable(one) for one in want["results"]]
    for raw, one in zip(case.get("claims", ()), grants, strict=True):
        assert project_resource_claim({**raw, "status": {"allocation": one.body}}).allocation == one.allocation


def _inventory(case: Case) -> Inventory:
    """Upstream gives some slices the same name, which no API server would; ours get others that sort the same."""
    inventory, names = Inventory(), Counter[str]()
    for raw in case.get("resourceSlices", ()):
        name = raw["metadata"]["name"]
        unique = f"{name}!{names[name]}" if names[name] else name
        names[name] += 1
        inventory.set(project_resource_slice({**raw, "metadata": {**raw["metadata"], "name": unique}}))
    return inventory


def _in_use(case: Case) -> InUse:
    made = InUse()
    for number, one in enumerate(case.get("allocatedDevices", ())):
        made.hold(f"whole {number}", [AllocatedDevice("r", one["driver"], one["pool"], one["device"], False, "", {})])
    for number, one in enumerate(case.get("allocatedCapacity", ())):
        amounts = {name: quantity.parse(text) for name, text in one["capacity"].items()}
        device = AllocatedDevice("r", one["driver"], one["pool"], one["device"], False, "share", amounts)
        made.hold(f"share {number}", [device])
    return made


def _comparable(allocation: dict[str, Any]) -> Any:
    """An allocation where ids of shares are alike, amounts are numbers and the values of selectors are sets."""
    result = deepcopy(allocation)
    for one in result["devices"].get("results", ()):
        if one.get("shareID"):
            one["shareID"] = "any"
        one["consumedCapacity"] = {k: quantity.parse(v) for k, v in one.get("consumedCapacity", {}).items()}
    for term in result.get("nodeSelector", {}).get("nodeSelectorTerms", ()):
        for requirement in (*term.get("matchExpressions", ()), *term.get("matchFields", ())):
            requirement["values"] = set(requirement.get("values", ()))
    return result
