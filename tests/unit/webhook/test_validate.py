"""What is refused and what is warned of: a table for each rule. The texts are what users read, so they stand here."""

from __future__ import annotations

from typing import Any

import pytest

from kubenexus.common import vocabulary as v
from kubenexus.webhook.cluster import Cluster
from tests.admission import cluster, message, pod, validated, warnings
from tests.builders import Builder
from tests.owners import job, made, reference

Obj = dict[str, Any]

MIN, NAME = v.GANG_MIN_AVAILABLE, v.GANG_NAME
SIGS = "pod-group.scheduling.sigs.k8s.io/"
KOORDINATOR = "gang.scheduling.koordinator.sh/"
KUEUE = "kueue.x-k8s.io/pod-group-"


def gang(size: str = "4", name: str = "g") -> Builder:
    return pod().label(NAME, name).label(MIN, size)


def owned(by: Obj) -> Builder:
    return pod().append("metadata.ownerReferences", reference(by))


def denied(sentence: str, builder: Builder, text: str, rule: str, world: Cluster | None = None) -> Any:
    return pytest.param(builder, text, rule, world or cluster(), id=sentence)


# --- Denied ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("builder", "text", "rule", "world"),
    [
        denied("G6: a size that is no number", gang("abc"), f"{MIN} is 'abc', which is not a whole number", "value"),
        denied("G6: a size of nothing", gang("0"), "write one from 1 to 100000.", "value"),
        denied("a size below nothing", gang("-1"), "write one from 1 to 100000.", "value"),
        denied("a size above every cluster", gang("100001"), "write one from 1 to 100000.", "value"),
        denied("a size as annotation", pod().label(NAME, "g").annotation(MIN, "x"), "write one from 1 to", "value"),
        denied(
            "a bad size beside a good one, which would be passed over in silence",
            gang().annotation(MIN, "x"),
            "write one from 1 to",
            "value",
        ),
        denied(
            "G7: a name without a size",
            pod().label(NAME, "g"),
            f"{NAME} names a gang, but nothing tells its size: add {MIN}.",
            "gang",
        ),
        denied(
            "a size without a name",
            pod().label(MIN, "4"),
            f"{MIN} stands without a gang's name: add {NAME}, or remove it.",
            "gang",
        ),
        denied("an empty name", gang(name=""), f"{NAME} is empty: write the name of the gang", "gang"),
        denied("a name with blanks", gang(name="a b"), "write at most 63 letters, digits, -, _ and .", "value"),
        denied("a name that is too long", gang(name="a" * 64), "write at most 63 letters", "value"),
        denied("a size in another dialect", pod().label(f"{SIGS}name", "g").label(f"{SIGS}min-available", "x"),
               f"{SIGS}min-available is 'x'", "gang"),
        denied("an owner that asks for what it cannot have",
               owned(made("apps/v1/StatefulSet", "s", {"replicas": 4}, notes={MIN: "4"})),
               "set podManagementPolicy to Parallel.", "gang",
               cluster(made("apps/v1/StatefulSet", "s", {"replicas": 4}, notes={MIN: "4"}))),
        denied("isolated without CPUs", pod().gpu(1).annotation(v.NUMA_POLICY, "isolated"),
               "request CPUs, or use single-numa.", "isolated"),
        denied("GPU memory without GPUs", pod().annotation(v.VRAM_REQUEST, "80Gi"),
               "asks for GPU memory, but the pod for no GPU: request nvidia.com/gpu, too.", "vram"),
        denied("a tenant that is not the namespace's", pod().label(v.TENANT_NAME, "rich"),
               "namespace team belongs to team: remove it.", "tenant"),
        denied("a place in advance", pod().annotation(v.GPU_ASSIGNED, "0"),
               f"{v.GPU_ASSIGNED} is written by the scheduler when it places a pod: remove it.", "placed"),
    ],
)  # fmt: skip
def test_denied(builder: Builder, text: str, rule: str, world: Cluster) -> None:
    found = validated(builder, world)
    assert text in message(found)
    assert (found.denied, found.rule) == (True, rule)
    assert found.body["response"]["auditAnnotations"]["denied"].split(",").count(rule) == 1


@pytest.mark.parametrize(
    ("key", "text", "remedy"),
    [
        (v.GANG_TIMEOUT, "10", "write it as 90s, 10m or 1h30m."),
        (v.GANG_INFER, "no", "write one of these two words."),
        (v.NUMA_POLICY, "strict", "use one of none, best-effort, restricted, single-numa, isolated."),
        (v.NUMA_POLICY_ALIAS, "strict", "use one of none, best-effort, restricted, single-numa, isolated."),
        (v.NUMA_RESOURCES, "cpu;memory", "comma-separated list of resource names"),
        (v.GANG_NUMA_SPREAD, "wide", "use one of packed, balanced, isolated."),
        (v.MEMORY_INTENSIVE, "yes", "write one of these two words."),
        (v.NUMA_DISTANCE_WEIGHT, "101", "write one from 0 to 100."),
        (v.VRAM_REQUEST, "80 GB", "write it as 2, 500m or 80Gi."),
        (v.VRAM_REQUEST, "-80Gi", "write it as 2, 500m or 80Gi."),
        (v.VRAM_REQUEST, "0", "write it as 2, 500m or 80Gi."),
        (v.MIN_FABRIC_TIER, "fast", "use one of nvswitch, nvlink, infiniband, roce, ethernet."),
        (v.CO_LOCATE, "true", "use one of strict, preferred, none."),
        (v.REQUIRE_CLIQUE, "1", "write one of these two words."),
        (v.NETWORK_SENSITIVE, "True", "write one of these two words."),
        (v.WORKLOAD_TYPE, "gaming", "use one of training, inference, batch, service, interactive."),
        (v.EXPECTED_DURATION, "soon", "write it as 90s, 10m or 1h30m."),
        (v.SPREAD_ZONES, "", "write one of these two words."),
        (v.EXECUTOR_COUNT, "-1", "write one from 0 to 100000."),
        (v.EXECUTOR_CPU, "two", "write it as 2, 500m or 80Gi."),
        (v.EXECUTOR_MEMORY, "8GB", "write it as 2, 500m or 80Gi."),
        (v.INJECT, "off", "use one of enabled, disabled."),
    ],
)
def test_values_of_annotations(key: str, text: str, remedy: str) -> None:
    found = validated(pod().gpu(1).annotation(key, text), cluster())
    assert message(found).startswith(f"{key} is {text!r}, which is n")
    assert remedy in message(found)
    assert found.rule == "value"


@pytest.mark.parametrize(
    ("key", "text"),
    [(v.PREEMPTIBLE, "yes"), (v.BACKFILL, "1"), (v.WORKLOAD_TYPE, "gaming"), (v.VRAM_REQUEST_ALIAS, "many")],
)
def test_values_of_labels(key: str, text: str) -> None:
    assert validated(pod().gpu(1).label(key, text), cluster()).rule == "value"


def test_all_that_is_wrong_is_told_at_once() -> None:
    found = validated(gang("abc").annotation(v.NUMA_POLICY, "strict"), cluster())
    assert message(found).count(", which is not ") == 2
    assert found.body["response"]["auditAnnotations"] == {"denied": "value"}


# --- Tiers -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("granted", "claim", "allowed"),
    [
        pytest.param("gold", "gold", True, id="its own"),
        pytest.param("gold", "bronze", True, id="a lower one"),
        pytest.param("silver", "gold", False, id="a higher one"),
        pytest.param("bronze", "silver", False, id="the next higher one"),
        pytest.param(None, "bronze", True, id="the lowest where none is granted"),
        pytest.param(None, "silver", False, id="more than the lowest where none is granted"),
        pytest.param("glod", "silver", False, id="more than the lowest where the grant is misspelt"),
        pytest.param("Silver", "SILVER", True, id="its own, whatever the case"),
        pytest.param("silver", "GOLD", False, id="a higher one, whatever the case"),
        pytest.param("gold", "platinum", False, id="one that does not exist"),
    ],
)
@pytest.mark.parametrize("where", ["label", "annotation"])
def test_tiers(granted: str | None, claim: str, allowed: bool, where: str) -> None:
    """T4: neither label nor annotation makes a pod more than its namespace is."""
    labels = {v.INJECT: "enabled", **({} if granted is None else {v.TENANT_TIER: granted})}
    found = validated(getattr(pod(), where)(v.TENANT_TIER, claim), cluster(labels=labels))
    assert found.denied is not allowed


def test_a_tier_is_denied_with_what_is_granted_and_the_remedy() -> None:
    found = validated(
        pod().label(v.TENANT_TIER, "gold"), cluster(labels={v.INJECT: "enabled", v.TENANT_TIER: "silver"})
    )
    assert message(found) == (
        f"{v.TENANT_TIER} is gold, above silver, the tier of namespace team: lower or remove it, "
        "or let an administrator raise the namespace."
    )


def test_a_higher_tier_is_not_hidden_behind_a_lower_one() -> None:
    assert validated(pod().label(v.TENANT_TIER, "bronze").annotation(v.TENANT_TIER, "gold"), cluster()).rule == "tier"


def test_a_tier_in_a_namespace_that_is_not_known_is_not_judged() -> None:
    other = pod().scheduler(v.SCHEDULER_NAME).label(v.TENANT_TIER, "gold").set("metadata.namespace", "new")
    world = Cluster(lambda _: None, cluster().owners)
    found = validated(other, world)
    assert not found.denied
    assert warnings(found) == [f"namespace team is not known yet: {v.TENANT_TIER} was not checked."]


# --- Warned of -------------------------------------------------------------------------------------------------------


def warned(sentence: str, builder: Builder, text: str, world: Cluster | None = None) -> Any:
    return pytest.param(builder, text, world or cluster(), id=sentence)


@pytest.mark.parametrize(
    ("builder", "text", "world"),
    [
        warned("a typing error in a name", pod().annotation("numa.scheduling.kubenexus.io/polcy", "none"),
               "numa.scheduling.kubenexus.io/polcy is not known: did you mean numa.scheduling.kubenexus.io/policy?"),
        warned("a name of ours that does not exist", pod().label("magic.kubenexus.io/on", "true"),
               "magic.kubenexus.io/on is not known and does nothing: remove it."),
        warned("a label that should be an annotation", pod().label(v.NUMA_POLICY, "none"),
               f"{v.NUMA_POLICY} is not read as label: make it an annotation."),
        warned("a label that nobody but the scheduler would write as annotation", pod().label(v.GPU_ASSIGNED, "0"),
               f"{v.GPU_ASSIGNED} is written by the scheduler when it places a pod: remove it."),
        warned("an annotation that should be a label", pod().annotation(v.PREEMPTIBLE, "true"),
               f"{v.PREEMPTIBLE} is not read as annotation: make it a label."),
        warned("a name for namespaces", pod().annotation(v.GPU_QUOTA, "8"),
               f"{v.GPU_QUOTA} does nothing on a pod: it is a namespace annotation."),
        warned("require-clique without a gang", pod().gpu(1).annotation(v.REQUIRE_CLIQUE, "true"),
               f"{v.REQUIRE_CLIQUE} does nothing: the pod is in no gang; name one, or remove it."),
        warned("co-locate without a gang", pod().annotation(v.CO_LOCATE, "strict"),
               f"{v.CO_LOCATE} does nothing: the pod is in no gang; name one, or remove it."),
        warned("a gang's spread without a gang", gang("1").annotation(v.GANG_NUMA_SPREAD, "packed"),
               f"{v.GANG_NUMA_SPREAD} does nothing: the pod is in no gang; name one, or remove it."),
        warned("spread and packed", gang().annotation(v.SPREAD_ZONES, "true").annotation(v.CO_LOCATE, "strict"),
               f"{v.SPREAD_ZONES} cannot be had with co-locate strict: remove one of the two."),
        warned("a size that differs as annotation", gang("4").annotation(MIN, "8"),
               f"{MIN}: label and annotation differ, the label counts; remove one."),
        warned("a size that differs in another dialect",
               gang("4").label(f"{SIGS}name", "g").label(f"{SIGS}min-available", "8"),
               "gang g has two sizes, 4 (kubenexus) counts, not 8 (sigs): make them equal."),
        warned("a size that differs, past a dialect that cannot be read",
               gang("4").label(f"{SIGS}name", "g").label(f"{SIGS}min-available", "x")
               .label(f"{KOORDINATOR}name", "g").label(f"{KOORDINATOR}min-available", "8"),
               "gang g has two sizes, 4 (kubenexus) counts, not 8 (koordinator): make them equal."),
        warned("another gang in another dialect",
               gang("4").label(f"{KOORDINATOR}name", "h").label(f"{KOORDINATOR}min-available", "4"),
               "gang g (kubenexus) counts, not gang h (koordinator): remove one."),
        warned("a name that would end the warning, for API servers drop those with control characters",
               gang("4").annotation(f"{KOORDINATOR}name", "h\x1b\n").annotation(f"{KOORDINATOR}min-available", "4"),
               "gang g (kubenexus) counts, not gang h (koordinator): remove one."),
        warned("a strict policy for a Burstable pod", pod().cpu(4).annotation(v.NUMA_POLICY, "single-numa"),
               "no kubelet pins the CPUs for single-numa: not Guaranteed; set limits equal to requests."),
        warned("a strict policy for parts of CPUs",
               pod().guaranteed("1500m", "1Gi").annotation(v.NUMA_POLICY, "isolated"),
               "no kubelet pins all CPUs for isolated: give each container a whole number of CPUs."),
        warned("a resource to align that is not requested",
               pod().guaranteed(1, "1Gi").annotation(v.NUMA_RESOURCES, "cpu,nvidia.com/gpu"),
               f"{v.NUMA_RESOURCES} lists nvidia.com/gpu, which the pod does not request: remove it."),
        warned("what is no NUMA id", pod().annotation(v.NUMA_AFFINITY, "0,abc,2"),
               f"{v.NUMA_AFFINITY} has 'abc', which is no NUMA id: write it as 0,1."),
        warned("ids both wanted and avoided",
               pod().annotation(v.NUMA_AFFINITY, "0,1").annotation(v.NUMA_ANTI_AFFINITY, "1, 2"),
               "NUMA ids 1 are both preferred and avoided: avoided counts; remove them from one."),
        warned("two NUMA policies",
               pod().annotation(v.NUMA_POLICY, "none").annotation(v.NUMA_POLICY_ALIAS, "best-effort"),
               f"{v.NUMA_POLICY} counts, not {v.NUMA_POLICY_ALIAS}: remove the latter."),
        warned("two amounts of GPU memory",
               pod().gpu(1).annotation(v.VRAM_REQUEST, "80Gi").label(v.VRAM_REQUEST_ALIAS, "40Gi"),
               f"{v.VRAM_REQUEST} counts, not {v.VRAM_REQUEST_ALIAS}: remove the latter."),
        warned("a tier that is misspelt on the namespace", pod(),
               "tier 'glod' of namespace team is not known, so its pods are bronze: tell an administrator.",
               cluster(labels={v.INJECT: "enabled", v.TENANT_TIER: "glod"})),
        warned("GPU memory without a unit", pod().gpu(1).annotation(v.VRAM_REQUEST, "80"),
               f"{v.VRAM_REQUEST} is 80 bytes of each GPU: did you forget the unit, such as Gi?"),
        warned("more memory than any GPU has", pod().gpu(2).annotation(v.VRAM_REQUEST, "4Ti"),
               f"{v.VRAM_REQUEST} is 2048Gi of each GPU, more than any has: request more GPUs."),
    ],
)  # fmt: skip
def test_warned(builder: Builder, text: str, world: Cluster) -> None:
    found = validated(builder, world)
    assert warnings(found) == [text]
    assert not found.denied
    assert len(text) <= 120


@pytest.mark.parametrize(
    ("builder", "world"),
    [
        pytest.param(pod(), cluster(), id="a plain pod"),
        pytest.param(gang(), cluster(), id="a gang"),
        pytest.param(gang("256"), cluster(), id="G8: a gang of 256"),
        pytest.param(gang("1"), cluster(), id="a gang of one"),
        pytest.param(owned(job()), cluster(job()), id="a gang that is inferred"),
        pytest.param(
            owned(job()).annotation(v.REQUIRE_CLIQUE, "true"), cluster(job()), id="a clique for an inferred gang"
        ),
        pytest.param(
            owned(job()).annotation(v.REQUIRE_CLIQUE, "true"), cluster(), id="a clique for what may be a gang"
        ),
        pytest.param(pod().annotation(v.REQUIRE_CLIQUE, "false"), cluster(), id="no clique, and no gang"),
        pytest.param(
            pod().guaranteed(4, "8Gi").gpu(1).annotation(v.NUMA_POLICY, "isolated"),
            cluster(),
            id="isolated as it should be",
        ),
        pytest.param(pod().gpu(1).annotation(v.NUMA_POLICY, "best-effort"), cluster(), id="best effort, Burstable"),
        pytest.param(pod().gpu(8).annotation(v.VRAM_REQUEST, "640Gi"), cluster(), id="80Gi of each of eight GPUs"),
        pytest.param(
            pod().annotation(v.VRAM_REQUEST, "80Gi").set("spec.resourceClaims", [{"name": "gpu"}]),
            cluster(),
            id="GPU memory of claimed GPUs, which are not known",
        ),
        pytest.param(
            pod().request("nvidia.com/mig-3g.40gb", 1).annotation(v.VRAM_REQUEST, "40Gi"),
            cluster(),
            id="GPU memory of MIG",
        ),
        pytest.param(
            gang().label(f"{SIGS}name", "g").label(f"{SIGS}min-available", "4"), cluster(), id="two dialects that agree"
        ),
        pytest.param(gang().annotation(v.GANG_GROUP, "g"), cluster(), id="a gang-group of the same name"),
        pytest.param(
            gang().label(f"{KUEUE}name", "g").annotation(f"{KUEUE}fast-admission", "true"),
            cluster(),
            id="a dialect that asks for no quorum",
        ),
        pytest.param(
            pod()
            .guaranteed(1, "1Gi")
            .annotation(v.NUMA_POLICY, "single-numa")
            .annotation(v.NUMA_POLICY_ALIAS, "single-numa-node"),
            cluster(),
            id="an older name with the same meaning",
        ),
        pytest.param(pod().label("example.com/policy", "strict"), cluster(), id="names of others"),
        pytest.param(pod().label(v.TENANT_NAME, "team"), cluster(), id="the namespace as tenant"),
        pytest.param(
            pod().label(v.TENANT_NAME, "acme"),
            cluster(labels={v.INJECT: "enabled", v.TENANT_NAME: "acme"}),
            id="the namespace's tenant",
        ),
        pytest.param(pod().node("n1").annotation(v.GPU_ASSIGNED, "0"), cluster(), id="a place, for a pod that has one"),
    ],
)
def test_nothing_to_say(builder: Builder, world: Cluster) -> None:
    response = validated(builder, world).body["response"]
    assert response == {"uid": "705ab4f5", "allowed": True}


def test_a_warning_that_is_too_long_is_cut() -> None:
    found = validated(pod().label(f"{'x' * 200}.kubenexus.io/a", "b"), cluster())
    assert [len(text) for text in warnings(found)] == [120]
    assert warnings(found)[0].endswith("…")


def test_a_flood_of_unknown_names_is_told_in_part() -> None:
    flood = pod()
    for number in range(1000):
        flood.annotation(f"{number}.kubenexus.io/a", "b")
    assert len(warnings(validated(flood, cluster()))) == 5


# --- Who is judged ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("scheduler", "labels", "judged"),
    [
        pytest.param("default-scheduler", None, True, id="a namespace that asked for us"),
        pytest.param("volcano", None, False, id="a namespace that asked for us, another scheduler"),
        pytest.param("", None, True, id="a namespace that asked for us, no scheduler yet"),
        pytest.param(v.SCHEDULER_NAME, {}, True, id="our scheduler elsewhere"),
        pytest.param("default-scheduler", {}, False, id="neither"),
    ],
)
def test_who_is_judged(scheduler: str, labels: dict[str, str] | None, judged: bool) -> None:
    assert validated(gang("abc").scheduler(scheduler), cluster(labels=labels)).denied is judged  # type: ignore[attr-defined]


def test_pods_of_every_profile_are_judged() -> None:
    world = cluster(labels={}, schedulers=("batch", "serving"))
    assert [validated(gang("abc").scheduler(name), world).denied for name in ("batch", "serving", "other")] == [  # type: ignore[attr-defined]
        True,
        True,
        False,
    ]


def test_a_pod_that_opts_out_is_judged_only_if_it_asks_for_our_scheduler() -> None:
    out = gang("abc").label(v.INJECT, "disabled")
    assert not validated(out, cluster()).denied
    assert validated(out.set("spec.schedulerName", v.SCHEDULER_NAME), cluster()).denied


# --- What fits -------------------------------------------------------------------------------------------------------


def test_the_schedulers_verdict_is_a_warning() -> None:
    world = cluster(verdict=lambda _: "needs 16 GPUs on one node, the largest has 8")
    assert warnings(validated(pod().gpu(16), world)) == ["needs 16 GPUs on one node, the largest has 8"]
    assert warnings(validated(pod().gpu(16).label("a", "b"), world, old=pod().gpu(16))) == []
