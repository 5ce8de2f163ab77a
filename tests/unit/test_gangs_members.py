"""Members of one gang: what they need together, and what the webhook writes on them."""

from __future__ import annotations

import pytest

from kubenexus.common import vocabulary as v
from kubenexus.common.gangs import (
    ANNOTATIONS,
    Gang,
    GangKey,
    OwnerRef,
    Phase,
    PodFacts,
    Quorum,
    Single,
    combine,
    marks,
    resolve,
)
from kubenexus.common.objects import project_pod
from tests.owners import INDEXED, TEAM, Known, Obj, job, made, pod, raw_pod, short


def member(size: int, first: Phase | None = None) -> Gang:
    return Gang(GangKey(TEAM, "g"), "g", size, "kubenexus", first=first)


def test_members_that_agree_need_no_warning() -> None:
    assert combine([member(4), member(4)]) == Quorum(4)


def test_members_that_disagree_get_the_largest_size_and_a_warning() -> None:
    assert combine([member(4), member(2), member(8), member(4)]) == Quorum(
        8,
        warnings=("Members of gang team/g disagree on its size (2, 4 and 8): 8 counts; give all members the same.",),
    )


def test_one_member_that_knows_who_comes_first_is_enough() -> None:
    assert combine([member(4), member(4, Phase("leader", 1))]).first == Phase("leader", 1)


def test_without_a_first_phase_the_size_is_needed_whoever_is_placed() -> None:
    assert Quorum(4).needed({}) == Quorum(4).needed({"worker": 3}) == 4


# --- What the webhook writes -----------------------------------------------------------------------------------------


def marked(facts: Obj, gang: Gang) -> PodFacts:
    written = marks(gang)
    metadata = facts["metadata"]
    labels, notes = {**metadata["labels"], **written.labels}, {**metadata["annotations"], **written.annotations}
    return PodFacts.from_json({**facts, "metadata": {**metadata, "labels": labels, "annotations": notes}})


def test_the_webhook_writes_name_and_size_as_labels_and_where_they_come_from() -> None:
    gang = resolve(pod(job()), Known(job()))
    assert isinstance(gang, Gang)
    labels, annotations = marks(gang)
    assert labels == {v.GANG_NAME: f"job-{short(job())}", v.GANG_MIN_AVAILABLE: "8"}
    assert annotations == {v.GANG_DISPLAY_NAME: "Job train", v.GANG_INFERRED_FROM: f"Job/{job()['metadata']['uid']}"}


def test_a_marked_pod_and_an_unmarked_one_are_in_the_same_gang() -> None:
    plain = resolve(pod(job()), Known(job()))
    assert isinstance(plain, Gang)
    assert resolve(marked(raw_pod(job()), plain), Known(job())) == plain


def test_a_marked_pod_follows_its_owner_when_it_is_resized() -> None:
    before = resolve(pod(job()), Known(job()))
    assert isinstance(before, Gang)
    grown = job({**INDEXED, "parallelism": 12, "completions": 12})
    after = resolve(marked(raw_pod(job()), before), Known(grown))
    assert isinstance(after, Gang)
    assert (after.key, after.min_available) == (before.key, 12)


def test_a_marked_pod_whose_owner_is_no_gang_any_more_stands_alone() -> None:
    before = resolve(pod(job()), Known(job()))
    assert isinstance(before, Gang)
    shrunk = job({**INDEXED, "parallelism": 1, "completions": 1})
    assert resolve(marked(raw_pod(job()), before), Known(shrunk)) == Single("Job")


def test_a_marked_pod_whose_owner_is_not_known_keeps_what_was_written() -> None:
    before = resolve(pod(job()), Known(job()))
    assert isinstance(before, Gang)
    kept = resolve(marked(raw_pod(job()), before), Known())
    assert isinstance(kept, Gang)
    assert (kept.key, kept.min_available) == (before.key, 8)


# --- What the scheduler keeps of a pod -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("raw", "objects"),
    [
        pytest.param(raw_pod(job()), [job()], id="an owner"),
        pytest.param(raw_pod(labels={v.GANG_NAME: "g", v.GANG_MIN_AVAILABLE: "4"}), [], id="our labels"),
        pytest.param(
            raw_pod(group="g"),
            [made("scheduling.k8s.io/v1alpha2/PodGroup", "g", {"schedulingPolicy": {"gang": {"minCount": 4}}})],
            id="a scheduling group",
        ),
    ],
)
def test_the_schedulers_view_of_a_pod_resolves_as_its_json_does(raw: Obj, objects: list[Obj]) -> None:
    view = project_pod({**raw, "metadata": {**raw["metadata"], "name": "p"}})
    owner = OwnerRef(*view.owner) if view.owner else None
    facts = PodFacts(view.namespace, view.labels, view.annotations, owner, view.spec.scheduling_group)
    answer = resolve(facts, Known(*objects))
    assert isinstance(answer, Gang)
    assert answer == resolve(PodFacts.from_json(raw), Known(*objects))


def test_the_schedulers_view_of_a_pod_keeps_every_annotation_that_matters() -> None:
    raw = raw_pod(notes=dict.fromkeys([*ANNOTATIONS, "example.com/other"], "x"))
    assert project_pod({**raw, "metadata": {**raw["metadata"], "name": "p"}}).annotations.keys() == ANNOTATIONS
