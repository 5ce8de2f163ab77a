"""The allocator of devices against kube-scheduler's cases."""

from __future__ import annotations

import itertools
import json
import re
from collections import Counter
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
from kubenexus.scheduler.dra import Allocator, Device, InUse, Inventory, NoDevices, SelectorError
from tests.shared import conformance

Case = dict[str, Any]


def stub(expression: str, device: Device) -> bool:
    v = device.view
    if "noSuchVar" in expression:
        raise SelectorError("undeclared")
    driver = device.id.driver
    def term(t: str) -> Any:
        t = t.strip()
        if m := re.fullmatch(r'device\.driver == "(.*)"', t): return driver == m[1]
        if m := re.fullmatch(r'device\.allowMultipleAllocations == (true|false)', t): return v.shareable == (m[1]=="true")
        if m := re.fullmatch(r'device\.capacity\["(.*?)"\](?:\.(\w+)|\["(.*?)"\])\.compareTo\(quantity\("(.*?)"\)\) >= 0', t):
            k=f"{m[1]}/{m[2] or m[3]}"
            if k not in v.capacity: raise SelectorError(k)
            return v.capacity[k].value >= quantity.parse(m[4])
        if m := re.fullmatch(r'device\.attributes\["(.*?)"\]\.(\w+)(?: == "(.*?)")?', t):
            k=f"{m[1]}/{m[2]}"
            if k not in v.attributes: raise SelectorError(k)
            return v.attributes[k] == m[3] if m[3] is not None else v.attributes[k]
        raise AssertionError(t)
    for alt in expression.split("||"):
        if all(term(t) for t in alt.split("&&")): return True
    return False


@pytest.mark.parametrize("case", conformance("dra_allocator", "allocate"))
def test_allocate(case: Case) -> None:
    claims = [project_resource_claim(raw) for raw in case.get("claims", ())]
    classes = {raw["metadata"]["name"]: project_device_class(raw) for raw in case.get("deviceClasses", ())}
    allocator = Allocator(_inventory(case), _in_use(case), classes, stub)
    node = project_node(case["nodes"][0])
    ask = allocator.ask(claims)
    found = ask if isinstance(ask, NoDevices) else allocator.find(ask, node.name, node.meta.labels)
    want = case["want"]
    if isinstance(found, NoDevices):
        assert not want["allocated"], found
        assert (found.fatal or found.reason == "invalid resource pools were encountered") == ("error" in want), found
        return
    assert want["allocated"]
    ids = (f"share-{number}" for number in itertools.count())
    got = [one.body for one in allocator.grants(claims, found, node.name, lambda: next(ids))]
    assert [_comparable(one) for one in got] == [_comparable(one) for one in want["results"]]


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
    """An allocation where ids of shares are alike, amounts are numbers and the values of selectors a set."""
    result = json.loads(json.dumps(allocation))
    for one in result["devices"].get("results", ()):
        if one.get("shareID"):
            one["shareID"] = "any"
        one["consumedCapacity"] = {k: quantity.parse(v) for k, v in one.get("consumedCapacity", {}).items()}
    for term in result.get("nodeSelector", {}).get("nodeSelectorTerms", ()):
        for requirement in (*term.get("matchExpressions", ()), *term.get("matchFields", ())):
            requirement["values"] = set(requirement.get("values", ()))
    return result
