"""Claims of pods get devices by the decision that places the pod, and only as long as that decision stands."""

from __future__ import annotations

from typing import Any

import pytest

from kubenexus.common.kube.mirror import Added, Deleted, Updated
from kubenexus.common.objects import PodView
from kubenexus.common.vocabulary import DRA_DRIVER
from kubenexus.scheduler.actions import Prepare, Prepared, Release, Released, Unbound, Undo, Undone, Use
from kubenexus.scheduler.assumptions import PREPARE_SECONDS
from kubenexus.scheduler.simulation import Simulation
from kubenexus.scheduler.world import read
from tests.builders import Builder, PodBuilder, node
from tests.devices import CLASS, DRIVER, claim, claim_template, device_class, from_template, resource_slice, user
from tests.office import Office, told

Obj = dict[str, Any]


class Fleet(Office):
    """Nodes with so many GPUs each that claims can get."""

    def __init__(self, **counts: int) -> None:
        super().__init__(*(node(name).capacity(cpu=8, memory="32Gi") for name in counts))
        self.tell("DeviceClass", CLASS, device_class())
        for name, count in counts.items():
            self.tell("ResourceSlice", f"{name}-gpu", resource_slice(name, count))

    def tell(self, kind: str, key: str, obj: Obj | Builder) -> None:
        raw = obj.build() if isinstance(obj, Builder) else obj
        self.hear(kind, Added(key, read(kind, raw)))

    def claim(self, made: Builder) -> None:
        self.tell("ResourceClaim", f"default/{made.obj['metadata']['name']}", made)

    def users(self, *names: str, gang: int = 0, count: int = 1) -> list[PodView]:
        """A pod of each name with a claim of its own."""
        views = []
        for name in names:
            made = user(name, f"{name}-c")
            self.claim(claim(f"{name}-c", count))
            views.append(self.see(made.gang("g", gang) if gang else made))
        return views

    def in_use(self) -> set[str]:
        return {f"{one.pool}/{one.name}" for one in self.desk.state.objects.claims.in_use.taken}


def granted(actions: list[Any]) -> dict[str, list[str]]:
    """Of what is to be prepared: the devices of each claim."""
    grants = (grant for action in actions if isinstance(action, Prepare) for grant in action.grants)
    return {one.claim.name: [f"{d.pool}/{d.device}" for d in one.allocation.devices] for one in grants}


def test_claims_get_devices_with_the_place() -> None:
    fleet = Fleet(n=2)
    fleet.users("a", "b", "c")
    actions = fleet.decide()
    assert sorted(granted(actions).values()) == [["n/gpu-0"], ["n/gpu-1"]]
    [message] = told(actions).values()
    assert "1 cannot allocate all claims" in message
    prepare = next(one for one in actions if isinstance(one, Prepare))
    assert prepare.bind.claims == (Use("a-c", given=True),)
    assert prepare.grants[0].body == {
        "devices": {"results": [{"request": "r0", "driver": DRIVER, "pool": "n", "device": "gpu-0"}]},
        "nodeSelector": {
            "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}]
        },
    }


def test_g12_a_gang_with_a_claim_each_is_placed_whole() -> None:
    fleet = Fleet(n=8, m=8)
    fleet.users("w-0", "w-1", "w-2", gang=3)
    found = granted(fleet.decide())
    assert len(found) == 3
    assert len({device for devices in found.values() for device in devices}) == 3


def test_a_gang_without_devices_for_all_has_none() -> None:
    fleet = Fleet(n=1, m=1)
    fleet.users("w-0", "w-1", "w-2", gang=3)
    actions = fleet.decide()
    assert granted(actions) == {}
    assert fleet.in_use() == set()
    assert "Gang g needs 3 members at once: 3 exist, room for 2: " in told(actions)["w-0"]
    fleet.node(node("o").capacity(cpu=8, memory="32Gi"))
    fleet.tell("ResourceSlice", "o-gpu", resource_slice("o", 1))
    assert len(granted(fleet.decide(after=10))) == 3


def test_a_bind_follows_when_the_claims_are_written() -> None:
    fleet = Fleet(n=1)
    fleet.users("a")
    [prepare] = fleet.decide()
    fleet.desk.finish(Prepared(prepare.bind), fleet.now)
    [bind] = fleet.desk.take()
    assert bind is prepare.bind


def test_old_news_of_a_claim_do_not_free_its_devices() -> None:
    fleet = Fleet(n=1)
    fleet.users("a")
    [prepare] = fleet.decide()
    fleet.claim(claim("a-c").label("touched", "true"))
    assert fleet.in_use() == {"n/gpu-0"}
    fleet.users("b")
    assert granted(fleet.decide()) == {}
    fleet.claim(written(prepare))
    fleet.claim(claim("a-c"))
    assert fleet.in_use() == set(), "the server took them back"


def written(prepare: Prepare, *, to: str = "a") -> Builder:
    """The claim as it is on the server once the decision is written."""
    [grant] = prepare.grants
    reserved = [{"resource": "pods", "name": to, "uid": f"uid-{to}"}]
    return claim(grant.claim.name).set("status", {"allocation": grant.body, "reservedFor": reserved})


def test_devices_are_free_again_when_the_pod_cannot_be_bound() -> None:
    fleet = Fleet(n=1)
    fleet.users("a")
    [prepare] = fleet.decide()
    fleet.desk.finish(Unbound(prepare.bind, "somebody else was faster"), fleet.now)
    [undo] = fleet.desk.take()
    assert undo == Undo(prepare.bind, "somebody else was faster")
    assert fleet.in_use() == {"n/gpu-0"}, "as long as the server says so"
    fleet.desk.finish(Undone(undo.bind, undo.why), fleet.now)
    assert fleet.in_use() == set()
    assert "somebody else was faster" in told(fleet.desk.take())["a"]
    assert granted(fleet.decide(after=2)) == {"a-c": ["n/gpu-0"]}


def test_a_member_that_cannot_be_bound_keeps_its_devices_while_its_gang_runs_without_it() -> None:
    fleet = Fleet(n=2)
    fleet.users("w-0", "w-1", gang=2)
    first, second = fleet.decide()
    fleet.claim(written(first, to="w-0"))
    fleet.desk.finish(Prepared(first.bind), fleet.now)
    fleet.desk.finish(Unbound(second.bind, "no"), fleet.now)
    fleet.users("other")
    assert granted(fleet.decide()) == {}, "there is no device for others"
    [again] = [one for one in fleet.decide(after=2) if isinstance(one, Prepare)]
    assert (again.bind.pod.name, again.bind.node) == ("w-1", "n")
    assert granted([again]) == granted([second])
    assert again.bind.claims == (Use("w-1-c", given=True),)


def test_devices_that_a_member_kept_go_with_it() -> None:
    fleet = Fleet(n=2)
    waiting, _ = fleet.users("w-0", "w-1", gang=2)
    first, second = fleet.decide()
    assert first.bind.pod.uid == waiting.uid
    fleet.desk.finish(Unbound(first.bind, "no"), fleet.now)
    assert len(fleet.in_use()) == 2
    fleet.gone(waiting)
    assert fleet.in_use() == {f"n/{device.device}" for device in second.grants[0].allocation.devices}


def test_a_gang_of_which_nobody_could_be_bound_holds_no_device_once_it_is_refused() -> None:
    fleet = Fleet(n=2)
    fleet.users("w-0", "w-1", gang=2)
    for prepare in fleet.decide():
        fleet.desk.finish(Unbound(prepare.bind, "no"), fleet.now)
    for undo in fleet.desk.take():
        if isinstance(undo, Undo):
            fleet.desk.finish(Undone(undo.bind, undo.why), fleet.now)
    fleet.see(PodBuilder("full", "default").uid("full").cpu(8).node("n"))
    assert "room for 0" in told(fleet.decide(after=20))["w-0"]
    assert fleet.in_use() == set()


def test_a_gang_is_not_tried_while_a_member_gives_its_devices_back() -> None:
    """It would be placed by halves if others are faster to take them."""
    fleet = Fleet(n=2)
    fleet.users("w-0", "w-1", gang=2)
    first, second = fleet.decide()
    fleet.desk.finish(Unbound(first.bind, "no"), fleet.now)
    fleet.desk.finish(Unbound(second.bind, "no"), fleet.now)
    [undo] = [one for one in fleet.desk.take() if isinstance(one, Undo)]
    assert granted(fleet.decide(after=5)) == {}
    fleet.desk.finish(Undone(undo.bind, undo.why), fleet.now)
    assert granted(fleet.decide(after=10)).keys() == {"w-0-c", "w-1-c"}


@pytest.mark.parametrize("arrives", [True, False])
def test_devices_of_a_pod_that_goes_meanwhile_are_taken_until_one_knows(arrives: bool) -> None:
    fleet = Fleet(n=1)
    [view] = fleet.users("a")
    [prepare] = fleet.decide()
    fleet.gone(view)
    fleet.users("b")
    assert granted(fleet.decide()) == {}, "they may be written just now"
    if arrives:
        fleet.claim(written(prepare))
        fleet.desk.finish(Prepared(prepare.bind), fleet.now)
        assert fleet.in_use() == {"n/gpu-0"}
        fleet.hear("ResourceClaim", Deleted("default/a-c", read("ResourceClaim", claim("a-c").build())))
    else:
        fleet.desk.finish(Unbound(prepare.bind, "the pod is gone"), fleet.now)
    assert granted(fleet.decide(after=10)) == {"b-c": ["n/gpu-0"]}


def test_pods_that_share_a_claim_share_its_node() -> None:
    fleet = Fleet(n=1, m=1)
    fleet.claim(claim("shared"))
    for name in ("a", "b"):
        fleet.see(user(name, "shared"))
    actions = fleet.decide()
    assert len(granted(actions)) == 1
    assert all(len(one.grants) == 1 for one in actions), "whoever comes first writes it"
    assert len({one.bind.node for one in actions}) == 1
    assert [one.bind.claims for one in actions] == [(Use("shared", given=True),), (Use("shared"),)]


def test_a_claim_that_keeps_its_pod_from_every_node_gives_its_devices_back() -> None:
    """As when the scheduler died between the claim and the bind, and the node was filled since."""
    fleet = Fleet(n=1, m=1)
    fleet.users("a")
    [prepare] = fleet.decide()
    crowded = Fleet(n=1, m=1)
    crowded.claim(written(prepare))
    crowded.see(PodBuilder("full", "default").uid("full").cpu(8).node(prepare.bind.node))
    waiting = crowded.see(user("a", "a-c"))
    release, _ = crowded.decide()
    assert release == Release(waiting.uid, ((waiting, ("a-c",)),))
    assert crowded.decide(after=60) == [], "not before that is done"
    crowded.claim(claim("a-c"))
    crowded.desk.finish(Released(release), crowded.now)
    [again] = crowded.decide(after=2)
    assert again.bind.node != prepare.bind.node


def test_a_pod_with_room_where_its_devices_are_keeps_them() -> None:
    fleet = Fleet(n=1, m=1)
    fleet.users("a")
    [prepare] = fleet.decide()
    later = Fleet(n=1, m=1)
    later.claim(written(prepare))
    later.see(user("a", "a-c"))
    [again] = later.decide()
    assert isinstance(again, Prepare), "it may have been taken back since: the server is asked"
    assert (again.bind.node, again.bind.claims) == (prepare.bind.node, (Use("a-c", given=True),))
    assert again.grants == ()


def prepared_by_driver(fleet: Fleet) -> Prepare:
    """A pod's claim is written, and its device has to be prepared before the pod is bound."""
    slow = resource_slice("n", 1, bindingConditions=["attached"], bindingFailureConditions=["broken"])
    fleet.tell("ResourceSlice", "n-gpu", slow)
    fleet.users("a")
    [prepare] = fleet.decide()
    assert isinstance(prepare, Prepare)
    fleet.desk.finish(Prepared(prepare.bind), fleet.now)
    assert fleet.desk.take() == []
    return prepare


def test_a_pod_is_bound_once_its_devices_are_prepared() -> None:
    fleet = Fleet(n=1)
    prepare = prepared_by_driver(fleet)
    done = written(prepare)
    fleet.claim(done)
    assert fleet.desk.take() == []
    status = {"driver": DRIVER, "pool": "n", "device": "gpu-0", "conditions": [{"type": "attached", "status": "True"}]}
    fleet.claim(done.set("status.devices", [status]))
    assert fleet.desk.take() == [prepare.bind]


def test_devices_that_are_never_prepared_are_given_back() -> None:
    fleet = Fleet(n=1)
    prepare = prepared_by_driver(fleet)
    fleet.claim(written(prepare))
    [undo] = fleet.decide(after=PREPARE_SECONDS)
    assert isinstance(undo, Undo)
    assert "not ready after 600 seconds" in undo.why
    fleet.claim(claim("a-c"))
    fleet.desk.finish(Undone(undo.bind, undo.why), fleet.now)
    assert fleet.in_use() == set()


def test_a_claim_that_went_takes_its_devices_along() -> None:
    fleet = Fleet(n=1)
    fleet.users("a")
    [prepare] = fleet.decide()
    fleet.claim(written(prepare))
    assert fleet.in_use() == {"n/gpu-0"}
    view = read("ResourceClaim", written(prepare).build())
    fleet.hear("ResourceClaim", Updated("default/a-c", view, view))
    fleet.hear("ResourceClaim", Deleted("default/a-c", view))
    assert fleet.in_use() == set()


def test_devices_that_only_describe_a_machine_are_for_nobody() -> None:
    fleet = Fleet(n=0)
    ours = str(DRA_DRIVER)
    fleet.tell("DeviceClass", CLASS, device_class(driver=ours))
    fleet.tell("ResourceSlice", "n-topology", resource_slice("n", 2, driver=ours))
    fleet.users("a")
    assert granted(fleet.decide()) == {}


# --- Offline ----------------------------------------------------------------------------------------------------------


def world(*pods: PodBuilder | Obj, count: int = 1) -> Simulation:
    """A node with so many devices, a template `one` and a claim `shared`, and these pods."""
    room = node("n").capacity(cpu=8, memory="32Gi").build()
    objects = [room, device_class(), resource_slice("n", count), claim_template("one", 1), claim("shared").build()]
    return Simulation([*objects, *(one.build() if isinstance(one, Builder) else one for one in pods)])


def made_for(name: str) -> PodBuilder:
    return user(name).set("spec.resourceClaims", from_template("one"))


def test_claims_are_made_from_templates() -> None:
    found = world(made_for("a"), made_for("b")).run()
    assert [one["pod"] for one in found["placements"]] == ["default/a"]
    assert "cannot allocate all claims" in found["pending"][0]["reason"]


@pytest.mark.parametrize("odd", [{"status": []}, {"status": "x"}, {"spec": {"resourceClaims": [7, {"name": 7}]}}])
def test_odd_pods_are_read_as_far_as_possible(odd: Obj) -> None:
    raw = made_for("a").build()
    parts = {key: {**raw[key], **part} if isinstance(part, dict) else part for key, part in odd.items()}
    assert len(world({**raw, **parts}).pending) == 1


def test_devices_go_with_the_last_pod_that_uses_them() -> None:
    play = world(user("a", "shared"), user("b", "shared"), made_for("c"))
    play.run()
    in_use = play.world.state.objects.claims.in_use
    for name, left in (("a", 1), ("b", 0)):
        play.leave(f"uid-{name}")
        assert len(in_use.taken) == left
