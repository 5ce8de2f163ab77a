"""Volumes, where kube-scheduler's own cases say nothing: which volume a claim gets, and what is remembered of it."""

from __future__ import annotations

import pytest

from kubenexus.common.objects import ClaimRef, project_node, project_pod
from kubenexus.scheduler.engine.cycle import Cycle, Park, Place
from kubenexus.scheduler.engine.plugin import Plugin
from kubenexus.scheduler.engine.shape import Weighted, shape_key
from kubenexus.scheduler.engine.state import State
from kubenexus.scheduler.plugins.dynamic_resources import ELSEWHERE, IN_USE, DynamicResources
from kubenexus.scheduler.plugins.volume_binding import (
    BIND_CONFLICT,
    NO_SPACE,
    NODE_CONFLICT,
    UNBOUND,
    VolumeBinding,
    VolumeDecision,
)
from kubenexus.scheduler.plugins.volume_limits import TOO_MANY, NodeVolumeLimits
from kubenexus.scheduler.plugins.volume_restrictions import CLAIM_TAKEN, VolumeRestrictions
from tests.builders import Builder, PodBuilder, node, pod
from tests.volumes import (
    bound_claim,
    cluster,
    only_on,
    put,
    refused,
    storage_class,
    volume,
    volume_claim,
)

BINDING = VolumeBinding({})


def decision(raw: PodBuilder, state: State, name: str = "n1") -> VolumeDecision:
    term, number = BINDING.compile(project_pod(raw.build()), state), state.index(name)
    assert term is not None
    assert number is not None
    taken = BINDING.take(term, state, number)
    assert taken is not None
    return taken


def given(taken: VolumeDecision) -> dict[str, str]:
    return {claim.name: view.name for claim, view in taken.bindings}


# --- Which volume -----------------------------------------------------------------------------------------------------

SSD = {"disk": "ssd"}
NOT_FOR_IT: dict[str, Builder] = {
    "too small": volume("v", "9Gi"),
    "of another class": volume("v", kind="other"),
    "a raw device": volume("v", volumeMode="Block"),
    "of other attributes": volume("v", volumeAttributesClassName="gold"),
    "without the access mode": volume("v", accessModes=["ReadOnlyMany"]),
    "not chosen by the selector": volume("v", accessModes=["ReadWriteOnce"]).label("disk", "hdd"),
    "not available": volume("v", accessModes=["ReadWriteOnce"]).label("disk", "ssd").set("status.phase", "Released"),
    "being deleted": volume("v", accessModes=["ReadWriteOnce"]).label("disk", "ssd").deleting(),
    "another's": volume("v", claimRef={"namespace": "default", "name": "other"}),
    "of a claim of the same name": volume("v", claimRef={"namespace": "default", "name": "a", "uid": "gone"}),
    "on another node": volume("v", accessModes=["ReadWriteOnce"], nodeAffinity=only_on(host="n2")).label("disk", "ssd"),
}


def picky() -> Builder:
    return volume_claim("a", accessModes=["ReadWriteOnce"], selector={"matchLabels": SSD})


@pytest.mark.parametrize("offered", NOT_FOR_IT.values(), ids=NOT_FOR_IT)
def test_a_claim_does_not_get_a_volume_that_is(offered: Builder) -> None:
    state = cluster(storage_class(), picky(), offered)
    assert refused(BINDING, pod("p").claim("a"), state)["n1"] == [BIND_CONFLICT]


def test_a_claim_gets_the_smallest_volume_that_fits_and_can_be_used() -> None:
    state = cluster(
        storage_class(),
        volume_claim("a"),
        volume("large", "30Gi"),
        volume("small", "20Gi"),
        volume("here", "15Gi", nodeAffinity=only_on(host="n1")),
        volume("never", "12Gi", nodeAffinity=only_on(host="n1", zone="z")),
    )
    raw = pod("p").claim("a")
    assert not refused(BINDING, raw, state)
    assert given(decision(raw, state, "n1")) == {"a": "here"}
    assert given(decision(raw, state, "n2")) == {"a": "small"}


def test_a_volume_goes_to_one_claim_and_small_claims_choose_first() -> None:
    state = cluster(
        storage_class(), volume_claim("big", size="5Gi"), volume_claim("tiny", size="1Gi"), volume("v1"), volume("v2")
    )
    assert given(decision(pod("p").claim("big").claim("tiny"), state)) == {"tiny": "v1", "big": "v2"}
    state.objects.pvs.remove("v2")
    assert refused(BINDING, pod("p").claim("big").claim("tiny"), state).keys() == {"n1", "n2"}


def test_a_volume_that_is_meant_for_a_claim_is_the_only_one() -> None:
    meant = volume("meant", "99Gi", claimRef={"namespace": "default", "name": "a"}, nodeAffinity=only_on(host="n2"))
    state = cluster(storage_class(), volume_claim("a"), volume("v"), meant)
    raw = pod("p").claim("a")
    assert refused(BINDING, raw, state) == {"n1": [BIND_CONFLICT]}
    assert given(decision(raw, state, "n2")) == {"a": "meant"}


# --- Making volumes ---------------------------------------------------------------------------------------------------


def test_a_volume_is_made_where_the_class_allows_it() -> None:
    kind = storage_class(provisioner="csi.example")
    kind.set("allowedTopologies", [{"matchLabelExpressions": [{"key": "kubernetes.io/hostname", "values": ["n1"]}]}])
    state = cluster(kind, volume_claim("a"))
    raw = pod("p").claim("a")
    assert refused(BINDING, raw, state) == {"n2": [BIND_CONFLICT]}
    taken = decision(raw, state, "n1")
    assert (taken.bindings, [claim.key for claim in taken.provisions]) == ((), ["default/a"])


def test_a_volume_is_made_where_the_driver_has_room() -> None:
    driver = Builder("storage.k8s.io/v1", "CSIDriver", "csi.example").set("spec", {"storageCapacity": True})
    rooms = {"a": ("n1", "9Gi"), "b": ("n2", "10Gi")}
    made = [
        Builder("storage.k8s.io/v1", "CSIStorageCapacity", name, "kube-system")
        .set("storageClassName", "wait")
        .set("capacity", size)
        .set("nodeTopology", {"matchLabels": {"kubernetes.io/hostname": where}})
        for name, (where, size) in rooms.items()
    ]
    state = cluster(
        storage_class(provisioner="csi.example"), driver, volume_claim("a"), *made, nodes=("n1", "n2", "n3")
    )
    raw = pod("p").claim("a")
    assert refused(BINDING, raw, state) == {"n1": [NO_SPACE], "n3": [NO_SPACE]}
    put(state, made[0].set("maximumVolumeSize", "1Ti"), made[1].set("nodeTopology", {}))
    assert not refused(BINDING, raw, state)


def test_a_volume_that_is_begun_on_a_node_is_made_there() -> None:
    begun = volume_claim("a").annotation("volume.kubernetes.io/selected-node", "n2")
    state = cluster(storage_class(provisioner="csi.example"), begun, volume("v"))
    raw = pod("p").claim("a")
    assert refused(BINDING, raw, state) == {"n1": [BIND_CONFLICT]}
    assert [claim.name for claim in decision(raw, state, "n2").provisions] == ["a"]


BARRED: dict[str, tuple[Builder, str]] = {
    "being deleted": (volume_claim("a").deleting(), 'persistentvolumeclaim "a" is being deleted'),
    "of a class that binds at once": (volume_claim("a", "now"), UNBOUND),
    "of no class": (volume_claim("a", ""), UNBOUND),
    "of a class that is not there": (volume_claim("a", "gone"), UNBOUND),
    "half bound": (volume_claim("a", volumeName="v"), UNBOUND),
}


@pytest.mark.parametrize(("claim", "reason"), BARRED.values(), ids=BARRED)
def test_a_pod_waits_for_a_claim_that_is(claim: Builder, reason: str) -> None:
    state = cluster(storage_class(), storage_class("now", mode="Immediate"), claim, nodes=["n1"])
    assert refused(BINDING, pod("p").claim("a"), state) == {"n1": [reason]}


# --- Ephemeral claims belong to their pod -----------------------------------------------------------------------------


def with_scratch(uid: str) -> PodBuilder:
    return pod("p").uid(uid).append("spec.volumes", {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {}}})


def test_an_ephemeral_claim_must_be_the_pods_own() -> None:
    state = cluster(storage_class(provisioner="csi.example"), nodes=["n1"])
    waiting = 'waiting for ephemeral volume controller to create the persistentvolumeclaim "p-scratch"'
    assert refused(BINDING, with_scratch("u1"), state) == {"n1": [waiting]}
    put(state, volume_claim("p-scratch").owner("Pod", "p", "u1", "v1"))
    assert not refused(BINDING, with_scratch("u1"), state)
    wrong = "PVC default/p-scratch was not created for pod default/p (pod is not owner)"
    assert refused(BINDING, with_scratch("u2"), state) == {"n1": [wrong]}


def test_pods_of_one_name_with_ephemeral_claims_have_shapes_of_their_own() -> None:
    first, second = (project_pod(with_scratch(uid).build()) for uid in ("u1", "u2"))
    assert shape_key(first) != shape_key(second)
    plain = [project_pod(pod("p").uid(uid).claim("a").build()) for uid in ("u1", "u2")]
    assert shape_key(plain[0]) == shape_key(plain[1])


# --- Volumes of old kinds ---------------------------------------------------------------------------------------------

DRIVERS_ZONE = "topology.ebs.csi.aws.com/zone"
OLD_VOLUMES: dict[str, Builder] = {
    "by its terms": volume("v", awsElasticBlockStore={"volumeID": "vol-1"},
                           nodeAffinity=only_on(**{"topology.kubernetes.io/zone": "z1"})),
    "by its old label": volume("v", awsElasticBlockStore={"volumeID": "vol-1"})
    .label("failure-domain.beta.kubernetes.io/zone", "z1__z9"),
}  # fmt: skip


@pytest.mark.parametrize("old", OLD_VOLUMES.values(), ids=OLD_VOLUMES)
def test_where_a_csi_driver_took_over_its_own_zone_label_counts(old: Builder) -> None:
    moved = Builder("storage.k8s.io/v1", "CSINode", "n1").set("spec.drivers", [])
    moved.annotation("storage.alpha.kubernetes.io/migrated-plugins", "kubernetes.io/aws-ebs")
    state = cluster(bound_claim("a", "v"), old, moved, nodes=())
    for machine in (node("n1"), node("n2").zone("z1")):
        state.set_node(project_node(machine.build()))
    raw = pod("p").claim("a")
    assert refused(BINDING, raw, state) == {"n1": [NODE_CONFLICT]}
    state.set_node(project_node(node("n1").label(DRIVERS_ZONE, "z1").build()))
    assert not refused(BINDING, raw, state)


# --- Limits -----------------------------------------------------------------------------------------------------------


def csi_node(name: str, count: int) -> Builder:
    drivers = [{"name": "csi.example", "nodeID": name, "allocatable": {"count": count}}]
    return Builder("storage.k8s.io/v1", "CSINode", name).set("spec.drivers", drivers)


def csi_volume(name: str) -> list[Builder]:
    """A volume, and the claim of the same name that is bound to it."""
    return [volume(name, csi={"driver": "csi.example", "volumeHandle": f"id-{name}"}), bound_claim(name, name)]


def test_a_volume_that_pods_share_counts_once() -> None:
    objects = [*csi_volume("a"), *csi_volume("b"), csi_node("n1", 1)]
    state = cluster(*objects, nodes=["n1"])
    for number in range(3):
        state.place(project_pod(pod(f"old-{number}").claim("a").build()), "n1")
    limits = NodeVolumeLimits()
    assert not refused(limits, pod("p").claim("a"), state)
    assert refused(limits, pod("p").claim("b"), state) == {"n1": [TOO_MANY]}
    put(state, csi_node("n1", 2))
    assert not refused(limits, pod("p").claim("b"), state)


def test_volumes_of_other_drivers_do_not_count() -> None:
    other = volume("o", csi={"driver": "other.example", "volumeHandle": "o"})
    state = cluster(other, bound_claim("o", "o"), *csi_volume("a"), csi_node("n1", 1), nodes=["n1"])
    state.place(project_pod(pod("old").claim("o").build()), "n1")
    assert not refused(NodeVolumeLimits(), pod("p").claim("a"), state)


# --- In the cycle: what others decide and write is seen ---------------------------------------------------------------


def cycle(state: State, plugin: Plugin) -> Cycle:
    return Cycle(state, [Weighted(plugin, 0)])


def owner_of(volume: str, state: State) -> ClaimRef | None:
    return state.objects.pvs[volume].claim


def test_a_parked_pod_goes_once_its_claim_is_there() -> None:
    state = cluster(storage_class(), nodes=["n1"])
    engine, raw = cycle(state, BINDING), project_pod(pod("p").claim("a").build())
    refusal = engine.decide(raw)
    assert isinstance(refusal, Park)
    assert refusal.message == '0/1 nodes are available: 1 persistentvolumeclaim "a" not found.'
    put(state, volume_claim("a"), volume("v"))
    assert isinstance(engine.decide(raw), Place)


def test_two_pods_do_not_get_the_same_volume() -> None:
    state = cluster(storage_class(), volume_claim("a"), volume_claim("b"), volume("v"), nodes=["n1"])
    engine = cycle(state, BINDING)
    first = engine.decide(project_pod(pod("p").claim("a").build()))
    assert isinstance(first, Place)
    assert owner_of("v", state) == ClaimRef("default", "a", "persistentvolumeclaim-default-a")
    second = project_pod(pod("q").claim("b").build())
    assert isinstance(engine.decide(second), Park)
    for taken in first.taken:
        taken.forget(state.objects)
    assert owner_of("v", state) is None
    assert isinstance(engine.decide(second), Place)


def test_a_claim_whose_volume_is_begun_keeps_other_pods_on_that_node() -> None:
    state = cluster(storage_class(provisioner="csi.example"), volume_claim("a"))
    engine = cycle(state, BINDING)
    places = [engine.decide(project_pod(pod(name).claim("a").build())) for name in ("p", "q", "r")]
    nodes = {place.node for place in places if isinstance(place, Place)}
    assert len(nodes) == 1
    assert state.objects.pvcs["default/a"].selected_node in nodes


def test_what_the_api_server_says_is_not_forgotten() -> None:
    state = cluster(storage_class(), volume_claim("a"), volume("v"), nodes=["n1"])
    place = cycle(state, BINDING).decide(project_pod(pod("p").claim("a").build()))
    assert isinstance(place, Place)
    put(state, volume("v", claimRef={"namespace": "default", "name": "b"}))
    for taken in place.taken:
        taken.forget(state.objects)
    assert owner_of("v", state) == ClaimRef("default", "b", "")


def test_a_claim_for_one_pod_is_taken_by_the_decision_and_free_when_that_pod_goes() -> None:
    alone = bound_claim("a", "v").set("spec.accessModes", ["ReadWriteOncePod"])
    state = cluster(alone, volume("v"))
    engine = cycle(state, VolumeRestrictions())
    first, second = (project_pod(pod(name).claim("a").build()) for name in ("p", "q"))
    assert isinstance(engine.decide(first), Place)
    refusal = engine.decide(second)
    assert isinstance(refusal, Park)
    assert refusal.message == f"0/2 nodes are available: 2 {CLAIM_TAKEN}."
    state.remove(first.uid)
    assert isinstance(engine.decide(second), Place)
    state.validate()


# --- Claims of devices ------------------------------------------------------------------------------------------------


def device_claim(*consumers: str, allocated: bool = True) -> Builder:
    made = Builder("resource.k8s.io/v1", "ResourceClaim", "gpu", "default")
    if allocated:
        made.set("status.allocation", {"nodeSelector": only_on(host="n1")["required"]})
    return made.set("status.reservedFor", [{"resource": "pods", "name": uid, "uid": uid} for uid in consumers])


def with_device(uid: str = "u1") -> PodBuilder:
    return pod("p").uid(uid).set("spec.resourceClaims", [{"name": "dev", "resourceClaimName": "gpu"}])


FULL = [f"other-{number}" for number in range(256)]
DEVICES: dict[str, tuple[list[Builder], dict[str, str]]] = {
    "missing": ([], dict.fromkeys(("n1", "n2"), 'resourceclaim "gpu" not found')),
    "being deleted": ([device_claim().deleting()], dict.fromkeys(("n1", "n2"), 'resourceclaim "gpu" is being deleted')),
    "allocated": ([device_claim()], {"n2": ELSEWHERE}),
    "in use by as many as possible": ([device_claim(*FULL)], dict.fromkeys(("n1", "n2"), IN_USE)),
    "in use by as many as possible and this one": ([device_claim(*FULL[1:], "u1")], {"n2": ELSEWHERE}),
}


@pytest.mark.parametrize(("objects", "wanted"), DEVICES.values(), ids=DEVICES)
def test_a_pod_with_a_claim_of_devices_that_is(objects: list[Builder], wanted: dict[str, str]) -> None:
    found = refused(DynamicResources({}), with_device(), cluster(*objects))
    assert found == {name: [reason] for name, reason in wanted.items()}


def test_a_pod_with_a_claim_of_no_class_waits_and_says_so_until_it_is_allocated() -> None:
    request = {"name": "one", "exactly": {"deviceClassName": "gpu"}}
    state = cluster(device_claim(allocated=False).set("spec.devices.requests", [request]))
    engine, raw = cycle(state, DynamicResources({})), project_pod(with_device().build())
    refusal = engine.decide(raw)
    assert isinstance(refusal, Park)
    assert "device class gpu, which does not exist: create it" in refusal.message
    put(state, device_claim())
    place = engine.decide(raw)
    assert isinstance(place, Place)
    assert place.node == "n1"
