"""The allocator ends, whatever claims ask for: tenants write them, and every pod waits for every search."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from kubenexus.common.objects import (
    AllocatedDevice,
    project_device_class,
    project_node,
    project_resource_claim,
    project_resource_slice,
)
from kubenexus.scheduler.dra import UNFINISHED, Allocator, Ask, InUse, Inventory, NoDevices
from kubenexus.scheduler.engine.state import State
from kubenexus.scheduler.plugins.device_survey import Surveys
from tests.builders import ClaimBuilder, SliceBuilder, claim, device_class, device_request, node, resource_slice

Obj = dict[str, Any]
DRIVER = "gpu.example.com"
SHARED: Obj = {"allowMultipleAllocations": True, "capacity": {"memory": {"value": "10"}}}
SOME = {"requests": {"memory": "3"}}


def work(do: Callable[[], object]) -> int:
    """How many calls something takes: a measure of time that is the same on every machine."""
    calls = itertools.count()
    sys.setprofile(lambda *_: next(calls) and None)
    try:
        do()
    finally:
        sys.setprofile(None)
    return next(calls)


def gpus(node: str = "n", count: int = 128, **more: Any) -> list[SliceBuilder]:
    builder = resource_slice(f"{node}-gpus", DRIVER, node)
    for number in range(count):
        builder.device(f"gpu-{number}", index=number, three=number % 3, seven=number % 7)
        builder.obj["spec"]["devices"][-1].update(more)
    return [builder]


def parts(node: str = "n", count: int = 64) -> list[SliceBuilder]:
    """Devices that draw on many counters."""
    (builder,) = gpus(node, count)
    for number, device in enumerate(builder.obj["spec"]["devices"]):
        drawn = {f"part-{part}": {"value": str(1 + number * part % 3)} for part in range(4)}
        cards = (f"card-{(number + more) % 8}" for more in range(2))
        device["consumesCounters"] = [{"counterSet": card, "counters": drawn} for card in cards]
    counters = resource_slice(f"{node}-counters", DRIVER, node)
    card = {f"part-{part}": {"value": "9"} for part in range(32)}
    counters.obj["spec"]["sharedCounters"] = [{"name": f"card-{number}", "counters": card} for number in range(8)]
    for one in (builder, counters):
        one.obj["spec"]["pool"]["resourceSliceCount"] = 2
    return [builder, counters]


def allocator(slices: Sequence[SliceBuilder], **more: Any) -> Allocator:
    inventory = Inventory()
    for one in slices:
        inventory.set(project_resource_slice(one.build()))
    return Allocator(inventory, InUse(), {"gpu": project_device_class(device_class("gpu").build())}, **more)


def ask(where: Allocator, claims: Sequence[ClaimBuilder]) -> Ask | NoDevices:
    return where.ask([project_resource_claim(one.build()) for one in claims])


def single(name: str, number: int, *constraints: tuple[str, str], **more: Any) -> ClaimBuilder:
    """A claim with so many requests for one device each."""
    made = claim(name)
    for index in range(number):
        made.request(f"r{index}", **more)
    for kind, attribute in constraints:
        made.constraint(kind, f"{DRIVER}/{attribute}")
    return made


def index(test: str) -> list[str]:
    return [f"device.attributes['{DRIVER}'].index {test}"]


def either(name: str, number: int, *constraints: tuple[str, str]) -> ClaimBuilder:
    """A claim with so many requests, each for one of eight kinds."""
    made = single(name, 0, *constraints)
    for request in range(number):
        options = {f"o{one}": device_request(count=2, selectors=index(f"% 8 == {one}")) for one in range(8)}
        made.either(f"r{request}", **options)
    return made


SAME, OTHER = ("matchAttribute", "three"), ("distinctAttribute", "seven")
HARD: dict[str, tuple[list[SliceBuilder], list[ClaimBuilder]]] = {
    "too many that differ": (gpus(), [claim("a").request("r", count=32).constraint(OTHER[0], f"{DRIVER}/seven")]),
    "the last cannot be had": (
        gpus(),
        [single("a", 31, SAME, selectors=index("% 2 == 0")).request("z", selectors=index("== 0"))],
    ),
    "shares of few devices": (gpus(count=8, **SHARED), [single(name, 9, capacity=SOME) for name in "abc"]),
    "counters": (parts(), [single("a", 32)]),
    "counters of one kind": (parts(), [single("a", 32, SAME, OTHER)]),
    "for administrators": (
        gpus(),
        [single("a", 31, SAME, OTHER, adminAccess=True).request("z", selectors=index("== 2"))],
    ),
    "alternatives": (gpus(), [either("a", 16, SAME, OTHER)]),
    "all and one": (gpus(count=32), [claim("a").request("r", count=None), claim("b").request("r")]),
}


@pytest.mark.parametrize("case", HARD.values(), ids=HARD)
def test_a_hard_search_is_bounded(case: tuple[list[SliceBuilder], list[ClaimBuilder]]) -> None:
    slices, claims = case
    where = allocator(slices)

    def search() -> None:
        wanted = ask(where, claims)
        assert isinstance(wanted, Ask)
        assert isinstance(where.find(wanted, "n", {}), NoDevices)
        where.explain(wanted, "n", {})
        where.lack(wanted, "n", {})

    assert work(search) < 12_000_000


def test_hard_searches_on_many_nodes_are_bounded_together() -> None:
    nodes = [f"n{number}" for number in range(12)]
    where = allocator([one for node in nodes for one in parts(node, 48)])
    wanted = ask(where, [single("a", 32)])
    assert isinstance(wanted, Ask)
    assert work(lambda: [where.refusal(wanted, node, {}) for node in nodes]) < 12_000_000
    # The next pod of this kind is looked at with new patience.
    assert wanted.patience == 0
    assert ask(where, [single("b", 32)]) is wanted
    assert wanted.patience > 0


def test_what_was_given_up_for_want_of_patience_is_looked_at_again() -> None:
    where = allocator(gpus(count=24))
    rare = claim("a").request("r", count=9).request("s", count=9).request("t", selectors=index("== 0"))
    wanted = ask(where, [rare])
    assert isinstance(wanted, Ask)
    wanted.patience = 0
    assert where.refusal(wanted, "n", {}) == UNFINISHED
    wanted.patience = 10_000
    assert where.refusal(wanted, "n", {}) is None


@pytest.mark.parametrize(
    ("claims", "why"),
    [
        (
            [either("a", 9), either("b", 8)],
            "they have 136 requests and alternatives, and this scheduler looks at 128 at most",
        ),
        (
            [single("a", 8, selectors=["true" + " " * 10000])],
            None,  # the same text is read once
        ),
        (
            [claim("a").request("r", selectors=[f"{number} > 0" + " " * 10000 for number in range(1, 8)])],
            "their selectors have 70035 characters, and this scheduler reads 65536 at most",
        ),
    ],
    ids=["options", "one text", "texts"],
)
def test_claims_that_are_too_large_are_refused(claims: list[ClaimBuilder], why: str | None) -> None:
    found = ask(allocator(gpus()), claims)
    if why is None:
        assert isinstance(found, Ask)
    else:
        assert found == NoDevices(f"the claims of the pod cannot be satisfied anywhere: {why}", fatal=True)


def test_selectors_that_cost_much_are_evaluated_on_few_devices_at_a_time() -> None:
    costly = "lists.range(100).all(a, lists.range(100).all(b, a + b >= 0))"
    nodes = [f"n{number}" for number in range(100)]
    where = allocator([one for node in nodes for one in gpus(node, 16)])
    wanted = ask(where, [claim("a").request("r", selectors=[costly])])
    assert isinstance(wanted, Ask)
    found = [where.refusal(wanted, node, {}) for node in nodes]
    assert set(found[1:]) == {UNFINISHED}
    wanted.purse.refill(1_000_000)
    assert where.refusal(wanted, "n1", {}) is None


def test_what_is_in_use_stays_in_use_though_nobody_can_tell_what_it_is() -> None:
    where = allocator([*gpus("n", 1), *gpus("m", 1)])
    wanted = ask(where, [claim("a").request("r", selectors=index(">= 0"))])
    assert isinstance(wanted, Ask)
    assert where.refusal(wanted, "n", {}) is None
    where.in_use.hold("other", [AllocatedDevice("r", DRIVER, "m", "gpu-0", admin=False, share="", consumed={})])
    wanted.purse.put_back(-1)
    assert where.refusal(wanted, "n", {}) is None
    assert isinstance(where.find(wanted, "m", {}), NoDevices)


def test_what_is_wrong_everywhere_is_one_reason() -> None:
    nodes = [f"n{number}" for number in range(5)]
    where = allocator([one for node in nodes for one in gpus(node, 2)])
    wanted = ask(where, [claim("a").request("r", selectors=["device.attributes['x'].y"])])
    assert isinstance(wanted, Ask)
    assert len({where.refusal(wanted, node, {}) for node in nodes}) == 1


def test_the_same_selectors_for_many_requests_are_not_evaluated_again_and_again() -> None:
    where = allocator(gpus())
    wanted = ask(where, [either("a", 16)])
    assert isinstance(wanted, Ask)
    where.refusal(wanted, "n", {})
    assert work(lambda: where.refusal(wanted, "n", {})) < 2000


def test_nodes_that_were_not_looked_at_to_the_end_are_asked_for_the_next_pod() -> None:
    names = [f"n{number}" for number in range(3)]
    state = State()
    objects = state.objects
    for one in (part for name in names for part in gpus(name, 24)):
        objects.slices.set(one.obj["metadata"]["name"], project_resource_slice(one.build()))
    objects.device_classes.set("gpu", project_device_class(device_class("gpu").build()))
    for name in names:
        state.set_node(project_node(node(name).build()))
    rare = claim("a").request("r", count=9).request("s", count=9).request("t", selectors=index("== 0"))
    wanted = [project_resource_claim(rare.build())]
    asked, surveys = state.allocator.ask(wanted), Surveys()
    assert isinstance(asked, Ask)
    asked.patience = 0
    survey = surveys.of(asked, state)
    assert [list(survey.reasons)[number] for number in survey.which[: len(names)]] == [UNFINISHED] * 3
    assert surveys.of(asked, state).which.any()
    assert state.allocator.ask(wanted) is asked
    assert not surveys.of(asked, state).which.any()
