"""Versions and preconditions: who may write when someone else wrote first."""

from __future__ import annotations

import pytest

from kubenexus.common.kube.resources import CONFIG_MAPS, LEASES, PODS
from tests.contract.api import Api
from tests.contract.objects import config_map, meta, pod

ANOTHER_UID = "00000000-0000-0000-0000-000000000000"


def test_every_write_raises_the_version(api: Api) -> None:
    first = api.create(CONFIG_MAPS, config_map("a")).expect(201)
    second = api.update(CONFIG_MAPS, config_map("a", {"k": "1"})).expect(200)
    third = api.patch(CONFIG_MAPS, "a", {"data": {"k": "2"}}).expect(200)
    versions = [int(obj["metadata"]["resourceVersion"]) for obj in (first, second, third)]
    assert versions == sorted(set(versions))


def test_update_with_the_current_version_succeeds(api: Api) -> None:
    created = api.create(LEASES, meta("a") | {"spec": {"holderIdentity": "x"}}).expect(201)
    created["spec"]["holderIdentity"] = "y"
    assert api.update(LEASES, created).expect(200)["spec"]["holderIdentity"] == "y"


def test_update_with_a_stale_version_is_refused(api: Api) -> None:
    created = api.create(LEASES, meta("a") | {"spec": {"holderIdentity": "x"}}).expect(201)
    api.patch(LEASES, "a", {"spec": {"holderIdentity": "y"}}).expect(200)
    status = api.update(LEASES, created).refused(409, "Conflict")
    assert status["message"].startswith('Operation cannot be fulfilled on leases.coordination.k8s.io "a": ')
    assert status["details"] == {"name": "a", "group": "coordination.k8s.io", "kind": "leases"}
    assert api.get(LEASES, "a").expect(200)["spec"]["holderIdentity"] == "y"


def test_update_without_a_version_overwrites(api: Api) -> None:
    api.create(CONFIG_MAPS, config_map("a")).expect(201)
    api.patch(CONFIG_MAPS, "a", {"data": {"k": "1"}}).expect(200)
    assert api.update(CONFIG_MAPS, config_map("a", {"k": "2"})).expect(200)["data"] == {"k": "2"}


@pytest.mark.parametrize("kind", ["merge", "strategic"])
def test_patch_that_names_a_stale_version_is_refused(api: Api, kind: str) -> None:
    old = api.create(CONFIG_MAPS, config_map("a")).expect(201)["metadata"]["resourceVersion"]
    api.patch(CONFIG_MAPS, "a", {"data": {"k": "1"}}).expect(200)
    patch = {"metadata": {"resourceVersion": old}, "data": {"k": "2"}}
    api.patch(CONFIG_MAPS, "a", patch, kind).refused(409, "Conflict")


@pytest.mark.parametrize("kind", ["merge", "strategic"])
def test_patch_that_names_another_uid_is_refused(api: Api, kind: str) -> None:
    api.create(CONFIG_MAPS, config_map("a")).expect(201)
    patch = {"metadata": {"uid": ANOTHER_UID}, "data": {"k": "2"}}
    refusal = api.patch(CONFIG_MAPS, "a", patch, kind)
    refusal.refused(422, "Invalid")
    assert refusal.causes == {("metadata.uid", "FieldValueInvalid")}


def test_update_that_names_another_uid_is_refused(api: Api) -> None:
    api.create(CONFIG_MAPS, config_map("a")).expect(201)
    api.update(CONFIG_MAPS, config_map("a", {"k": "2"}, uid=ANOTHER_UID)).refused(409, "Conflict")


@pytest.mark.parametrize(
    "precondition",
    [
        pytest.param({"uid": ANOTHER_UID}, id="another uid"),
        pytest.param({"resourceVersion": "1"}, id="a stale version"),
    ],
)
def test_delete_under_a_false_precondition_is_refused(api: Api, precondition: dict[str, str]) -> None:
    api.create(PODS, pod("a")).expect(201)
    api.delete(PODS, "a", preconditions=precondition).refused(409, "Conflict")
    api.get(PODS, "a").expect(200)


def test_delete_under_a_true_precondition_succeeds(api: Api) -> None:
    created = api.create(PODS, pod("a")).expect(201)
    api.delete(PODS, "a", preconditions={"uid": created["metadata"]["uid"]}).expect(200)
    api.get(PODS, "a").refused(404, "NotFound")


def test_versions_are_ordered_over_all_kinds(api: Api) -> None:
    before = api.create(CONFIG_MAPS, config_map("a")).expect(201)["metadata"]["resourceVersion"]
    after = api.create(PODS, pod("a")).expect(201)["metadata"]["resourceVersion"]
    assert int(before) < int(after)


def test_list_has_the_version_of_its_moment(api: Api) -> None:
    newest = api.create(CONFIG_MAPS, config_map("a")).expect(201)["metadata"]["resourceVersion"]
    assert int(api.list(CONFIG_MAPS).expect(200)["metadata"]["resourceVersion"]) >= int(newest)
