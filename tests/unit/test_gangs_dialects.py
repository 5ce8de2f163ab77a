"""Gangs that pods declare: our labels, every other dialect, their order, and what is wrong with bad ones."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kubenexus.common import vocabulary as v
from kubenexus.common.gangs import Gang, Invalid, OwnerRef, PodFacts, Single, Waiting, resolve
from tests.owners import TEAM, Known, made, pod, short

SIGS_NAME = "pod-group.scheduling.sigs.k8s.io/name"
SIGS_MIN = "pod-group.scheduling.sigs.k8s.io/min-available"
KOORDINATOR = "gang.scheduling.koordinator.sh"
KUEUE = "kueue.x-k8s.io/pod-group-"
X_GROUP = made("scheduling.x-k8s.io/v1alpha1/PodGroup", "g", {"minMember": 4})
VOLCANO_GROUP = made("scheduling.volcano.sh/v1beta1/PodGroup", "g", {"minMember": 4})
KAI_GROUP = made("scheduling.run.ai/v2alpha2/PodGroup", "g", {"minMember": 4})
ALPHA_GROUP = made("scheduling.k8s.io/v1alpha2/PodGroup", "g", {"schedulingPolicy": {"gang": {"minCount": 4}}})
BETA_GROUP = made("scheduling.k8s.io/v1beta1/PodGroup", "g", {"schedulingPolicy": {"gang": {"minCount": 4}}})
BASIC_GROUP = made("scheduling.k8s.io/v1beta1/PodGroup", "g", {"schedulingPolicy": {"basic": {}}})
TASK_GROUPS = json.dumps([{"name": "head", "minMember": 1}, {"name": "worker", "minMember": 3}])
YUNIKORN = {"yunikorn.apache.org/task-groups": TASK_GROUPS, "yunikorn.apache.org/task-group-name": "worker"}


def case(sentence: str, facts: PodFacts, *objects: dict[str, Any], source: str, size: int = 4) -> Any:
    return pytest.param(facts, Known(*objects), source, size, id=sentence)


@pytest.mark.parametrize(
    ("facts", "owners", "source", "size"),
    [
        case("our labels", pod(labels={v.GANG_NAME: "g", v.GANG_MIN_AVAILABLE: "4"}), source="kubenexus"),
        case("our keys as annotations", pod(notes={v.GANG_NAME: "g", v.GANG_MIN_AVAILABLE: "4"}), source="kubenexus"),
        case("a gang of one", pod(labels={v.GANG_NAME: "g", v.GANG_MIN_AVAILABLE: "1"}), source="kubenexus", size=1),
        case(
            "a gang of 256", pod(labels={v.GANG_NAME: "g", v.GANG_MIN_AVAILABLE: "256"}), source="kubenexus", size=256
        ),
        case("our name, sized by a PodGroup", pod(labels={v.GANG_NAME: "g"}), X_GROUP, source="kubenexus"),
        case("sigs labels", pod(labels={SIGS_NAME: "g", SIGS_MIN: "4"}), source="sigs"),
        case("sigs annotations", pod(notes={SIGS_NAME: "g", SIGS_MIN: "4"}), source="sigs"),
        case(
            "sigs name as label, size as annotation", pod(labels={SIGS_NAME: "g"}, notes={SIGS_MIN: "4"}), source="sigs"
        ),
        case(
            "scheduling.x-k8s.io label and its PodGroup",
            pod(labels={"scheduling.x-k8s.io/pod-group": "g"}),
            X_GROUP,
            source="scheduler-plugins",
        ),
        case("schedulingGroup and its v1alpha2 PodGroup", pod(group="g"), ALPHA_GROUP, source="native"),
        case("schedulingGroup and its v1beta1 PodGroup", pod(group="g"), BETA_GROUP, source="native"),
        case("schedulingGroup with the basic policy", pod(group="g"), BASIC_GROUP, source="native", size=1),
        case(
            "Volcano's annotation and its PodGroup",
            pod(notes={"scheduling.k8s.io/group-name": "g"}),
            VOLCANO_GROUP,
            source="volcano",
        ),
        case(
            "Koordinator's annotations",
            pod(notes={f"{KOORDINATOR}/name": "g", f"{KOORDINATOR}/min-available": "4"}),
            source="koordinator",
        ),
        case(
            "Kueue's pod group",
            pod(labels={f"{KUEUE}name": "g"}, notes={f"{KUEUE}total-count": "4"}),
            source="kueue",
        ),
        case(
            "Kueue's pod group whose pods come one by one",
            pod(labels={f"{KUEUE}name": "g"}, notes={f"{KUEUE}total-count": "4", f"{KUEUE}fast-admission": "true"}),
            source="kueue",
            size=1,
        ),
        case("YuniKorn's task groups", pod(labels={"applicationId": "g"}, notes=YUNIKORN), source="yunikorn"),
        case(
            "YuniKorn's task groups, newer label",
            pod(labels={"yunikorn.apache.org/app-id": "g"}, notes=YUNIKORN),
            source="yunikorn",
        ),
        case("KAI's annotation and its PodGroup", pod(notes={"pod-group-name": "g"}), KAI_GROUP, source="kai"),
        case(
            "gang-group with our size",
            pod(notes={v.GANG_GROUP: "g"}, labels={v.GANG_MIN_AVAILABLE: "4"}),
            source="gang-group",
        ),
        case("gang-group alone asks for no quorum", pod(notes={v.GANG_GROUP: "g"}), source="gang-group", size=1),
    ],
)
def test_declared(facts: PodFacts, owners: Known, source: str, size: int) -> None:
    gang = resolve(facts, owners)
    assert isinstance(gang, Gang)
    assert (str(gang.key), gang.name, gang.min_available, gang.source) == (f"{TEAM}/g", "g", size, source)


def test_the_role_of_a_yunikorn_pod_is_its_task_group() -> None:
    gang = resolve(pod(labels={"applicationId": "g"}, notes=YUNIKORN), Known())
    assert isinstance(gang, Gang)
    assert gang.role == "worker"


def test_dialects_are_read_in_order_ours_first_and_before_any_owner() -> None:
    job = made("batch/v1/Job", "train", {"parallelism": 9, "completions": 9, "completionMode": "Indexed"})
    spoken = [
        ({v.GANG_NAME: "ours", v.GANG_MIN_AVAILABLE: "2"}, {}),
        ({SIGS_NAME: "sigs", SIGS_MIN: "3"}, {}),
        ({f"{KUEUE}name": "kueue"}, {f"{KUEUE}total-count": "5"}),
        ({}, {v.GANG_GROUP: "group"}),
    ]
    names = []
    while spoken:
        labels = {key: text for one, _ in spoken for key, text in one.items()}
        notes = {key: text for _, one in spoken for key, text in one.items()}
        gang = resolve(pod(job, labels=labels, notes=notes), Known(job))
        assert isinstance(gang, Gang)
        names.append(gang.key.id)
        del spoken[0]
    assert names == ["ours", "sigs", "kueue", "group"]


def test_a_label_counts_before_an_annotation_of_the_same_key() -> None:
    gang = resolve(pod(labels={SIGS_NAME: "g", SIGS_MIN: "4"}, notes={SIGS_NAME: "h", SIGS_MIN: "5"}), Known())
    assert isinstance(gang, Gang)
    assert (gang.key.id, gang.min_available) == ("g", 4)


def test_one_name_in_two_dialects_is_one_gang() -> None:
    ours = resolve(pod(labels={v.GANG_NAME: "g", v.GANG_MIN_AVAILABLE: "2"}), Known())
    theirs = resolve(pod(labels={SIGS_NAME: "g", SIGS_MIN: "2"}), Known())
    assert isinstance(ours, Gang)
    assert isinstance(theirs, Gang)
    assert ours.key == theirs.key


def test_one_name_in_two_namespaces_is_two_gangs() -> None:
    labels = {v.GANG_NAME: "g", v.GANG_MIN_AVAILABLE: "2"}
    gangs = [resolve(PodFacts.from_json({"metadata": {"labels": labels}}, space), Known()) for space in ("a", "b")]
    assert [str(gang.key) for gang in gangs if isinstance(gang, Gang)] == ["a/g", "b/g"]


@pytest.mark.parametrize(
    ("facts", "missing"),
    [
        pytest.param(
            pod(labels={"scheduling.x-k8s.io/pod-group": "g"}),
            OwnerRef("scheduling.x-k8s.io/v1alpha1", "PodGroup", "g"),
            id="scheduling.x-k8s.io",
        ),
        pytest.param(pod(group="g"), OwnerRef("scheduling.k8s.io/v1beta1", "PodGroup", "g"), id="schedulingGroup"),
        pytest.param(
            pod(notes={"scheduling.k8s.io/group-name": "g"}),
            OwnerRef("scheduling.volcano.sh/v1beta1", "PodGroup", "g"),
            id="Volcano",
        ),
        pytest.param(
            pod(notes={"pod-group-name": "g"}), OwnerRef("scheduling.run.ai/v2alpha2", "PodGroup", "g"), id="KAI"
        ),
    ],
)
def test_a_podgroup_that_is_not_there_yet_is_waited_for(facts: PodFacts, missing: OwnerRef) -> None:
    assert resolve(facts, Known()) == Waiting(missing)


def test_a_podgroup_of_another_namespace_is_not_ours() -> None:
    facts = PodFacts("other", labels={"scheduling.x-k8s.io/pod-group": "g"})
    assert isinstance(resolve(facts, Known(X_GROUP)), Waiting)


@pytest.mark.parametrize("size", ["abc", "0", "-1", "1.5", "", " 4", "4 ", "+4", "٤", "1e3", "100001", "9" * 30])
@pytest.mark.parametrize("key", [v.GANG_NAME, SIGS_NAME])
def test_a_size_that_is_no_size_is_refused_with_its_key_and_the_bounds(key: str, size: str) -> None:
    size_key = key.replace("/name", "/min-available")
    answer = resolve(pod(labels={key: "g", size_key: size}), Known())
    assert isinstance(answer, Invalid)
    assert size_key in answer.reason
    assert "from 1 to 100000" in answer.reason


@pytest.mark.parametrize(
    ("facts", "remedy"),
    [
        pytest.param(pod(labels={v.GANG_NAME: "g"}), f"add {v.GANG_MIN_AVAILABLE}", id="our name without a size"),
        pytest.param(pod(labels={SIGS_NAME: "g"}), f"add {SIGS_MIN}", id="sigs name without a size"),
        pytest.param(pod(labels={f"{KUEUE}name": "g"}), f"add {KUEUE}total-count", id="Kueue group without a count"),
        pytest.param(pod(labels={v.GANG_MIN_AVAILABLE: "4"}), f"add {v.GANG_NAME}", id="our size without a name"),
        pytest.param(pod(labels={v.GANG_NAME: ""}), "write the name of the gang", id="empty name"),
        pytest.param(
            pod(labels={"applicationId": "a"}, notes={"yunikorn.apache.org/task-groups": "[{"}),
            "is not JSON: correct it",
            id="task groups that are not JSON",
        ),
        pytest.param(
            pod(labels={"applicationId": "a"}, notes={"yunikorn.apache.org/task-groups": '[{"minMember": "3"}]'}),
            "minMember '3', which is no number of pods: correct it",
            id="task groups with text for a number",
        ),
    ],
)
def test_a_bad_declaration_is_refused_with_the_remedy(facts: PodFacts, remedy: str) -> None:
    answer = resolve(facts, Known())
    assert isinstance(answer, Invalid)
    assert remedy in answer.reason


def test_a_podgroup_with_a_bad_size_is_named() -> None:
    group = made("scheduling.x-k8s.io/v1alpha1/PodGroup", "g", {"minMember": -2})
    answer = resolve(pod(labels={"scheduling.x-k8s.io/pod-group": "g"}), Known(group))
    assert answer == Invalid("PodGroup g has spec.minMember -2, which is no number of pods: correct it.")


def test_an_unprefixed_label_of_kais_name_means_nothing() -> None:
    assert resolve(pod(labels={"pod-group-name": "g"}), Known()) == Single("Pod")


def test_task_groups_without_an_application_mean_nothing() -> None:
    assert resolve(pod(notes=YUNIKORN), Known()) == Single("Pod")


@pytest.mark.parametrize("name", ["x" * 64, "with space", "ünïcode", "-", "a/b"])
def test_a_name_that_no_label_can_hold_gets_one_that_can(name: str) -> None:
    gangs = [resolve(pod(notes={v.GANG_NAME: text, v.GANG_MIN_AVAILABLE: "2"}), Known()) for text in (name, name + "2")]
    keys = [gang.key.id for gang in gangs if isinstance(gang, Gang)]
    assert len(set(keys)) == 2
    assert all(len(key) <= 63 and key.isascii() and key[0].isalnum() and key[-1].isalnum() for key in keys)


def test_a_gang_from_a_podgroup_knows_its_uid() -> None:
    gang = resolve(pod(group="g"), Known(BETA_GROUP))
    assert isinstance(gang, Gang)
    assert gang.owner_uid.startswith(short(BETA_GROUP))
