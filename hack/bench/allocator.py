#!/usr/bin/env python3
"""How fast devices are found for claims.

    .venv/bin/python hack/bench/allocator.py

Nodes with 8 GPUs, and nodes whose 8 GPUs can be cut into parts that draw on counters. *cold* is the first question
about many nodes, *again* the same question, *new* the same when a device of every node has been taken since, *search*
the search alone, without what is kept. Times are per node, of the processor, and vary from one to another.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from kubenexus.common.objects import (
    AllocatedDevice,
    DeviceClassView,
    ResourceClaimView,
    project_device_class,
    project_resource_claim,
    project_resource_slice,
)
from kubenexus.scheduler.dra import Allocator, Ask, InUse, Inventory
from kubenexus.scheduler.dra.search import Search

NODES = 500
DRIVER = "gpu.example.com"
PARTS = 7
Obj = dict[str, Any]


def device(node: str, name: str, number: int, kind: str, **more: Any) -> Obj:
    attributes = {
        "type": {"string": kind},
        "uuid": {"string": f"{node}-{name}"},
        "resource.kubernetes.io/pcieRoot": {"string": f"pci{number // 4}"},
    }
    return {"name": name, "attributes": attributes, "capacity": {"memory": {"value": "80Gi"}}, **more}


def draws(number: int, slots: int) -> list[Obj]:
    return [{"counterSet": f"gpu-{number}", "counters": {"slots": {"value": str(slots)}}}]


def whole(node: str) -> list[Obj]:
    """One slice of GPUs."""
    return [_slice(node, "gpus", 1, devices=[device(node, f"gpu-{number}", number, "gpu") for number in range(8)])]


def cut(node: str) -> list[Obj]:
    """GPUs that can be had whole or in parts."""
    devices = []
    for number in range(8):
        devices.append(device(node, f"gpu-{number}", number, "gpu", consumesCounters=draws(number, PARTS)))
        parts = (f"gpu-{number}-part-{part}" for part in range(PARTS))
        devices += [device(node, name, number, "part", consumesCounters=draws(number, 1)) for name in parts]
    sets = [{"name": f"gpu-{number}", "counters": {"slots": {"value": str(PARTS)}}} for number in range(8)]
    return [_slice(node, "counters", 2, sharedCounters=sets), _slice(node, "gpus", 2, devices=devices)]


def _slice(node: str, name: str, slices: int, **content: Any) -> Obj:
    pool = {"name": node, "generation": 1, "resourceSliceCount": slices}
    spec = {"driver": DRIVER, "nodeName": node, "pool": pool, **content}
    return {"metadata": {"name": f"{node}-{name}"}, "spec": spec}


def claim(kind: str, count: int, *, near: bool = False) -> ResourceClaimView:
    request = {"name": "r", "exactly": {"deviceClassName": kind, "allocationMode": "ExactCount", "count": count}}
    constraints = [{"matchAttribute": "resource.kubernetes.io/pcieRoot"}] if near else []
    devices = {"requests": [request], "constraints": constraints}
    return project_resource_claim({"metadata": {"name": "c"}, "spec": {"devices": devices}})


def device_class(kind: str) -> DeviceClassView:
    chosen = f'device.driver == "{DRIVER}" && device.attributes["{DRIVER}"].type == "{kind}"'
    return project_device_class({"metadata": {"name": kind}, "spec": {"selectors": [{"cel": {"expression": chosen}}]}})


def seconds(work: Callable[[], object], times: int = 1) -> float:
    best = float("inf")
    for _ in range(times):
        start = time.process_time()
        work()
        best = min(best, time.process_time() - start)
    return best


def measure(name: str, make: Callable[[str], list[Obj]], wanted: list[ResourceClaimView]) -> None:
    inventory, in_use = Inventory(), InUse()
    names = [f"n{number}" for number in range(NODES)]
    for node in names:
        for one in make(node):
            inventory.set(project_resource_slice(one))
    allocator = Allocator(inventory, in_use, {kind: device_class(kind) for kind in ("gpu", "part")})
    ask = allocator.ask(wanted)
    assert isinstance(ask, Ask)

    def look() -> list[object]:
        return [allocator.refusal(ask, node, {}) for node in names]

    def change() -> None:
        for node in names:
            in_use.hold(node, [AllocatedDevice("r", DRIVER, node, "gpu-0", False, "", {})])

    def search() -> None:
        for node in names:
            Search(ask, inventory.reachable(node, {}), in_use, 1 << 30).run()

    cold, again = seconds(look), seconds(look, 5)
    change()
    new, alone = seconds(look), seconds(search, 3)
    found = "found" if allocator.refusal(ask, "n0", {}) is None else "not found"
    times = "".join(f"{value / NODES * 1e6:10.1f}" for value in (cold, again, new, alone))
    print(f"{name:42}{times}   {found}")


def main() -> None:
    print(f"{'µs per node':42}{'cold':>10}{'again':>10}{'new':>10}{'search':>10}")
    measure("1 of 8 GPUs", whole, [claim("gpu", 1)])
    measure("4 of 8 GPUs on one root", whole, [claim("gpu", 4, near=True)])
    measure("8 of 8 GPUs, one in use", whole, [claim("gpu", 8)])
    measure("two claims of 5 and 3 GPUs, one in use", whole, [claim("gpu", 5), claim("gpu", 3)])
    measure("1 of 56 parts", cut, [claim("part", 1)])
    measure("8 parts on one root", cut, [claim("part", 8, near=True)])
    measure("29 parts on one root, which has 28", cut, [claim("part", 29, near=True)])


if __name__ == "__main__":
    main()
