"""Every foreign kind that makes gangs, all the way: its CRD, its object, its pod, a real API server and the webhook."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest

from kubenexus.common import vocabulary as v
from kubenexus.common.gangs import OWNER_KINDS, plural
from kubenexus.common.kube.client import Client
from kubenexus.common.kube.discovery import discover
from kubenexus.common.kube.errors import AlreadyExists
from kubenexus.common.kube.resources import CUSTOM_RESOURCES, PODS, Resource
from tests import webhooks
from tests.contract.objects import pod
from tests.owners import BUILT_IN, definition, reference
from tests.servers import Server
from tests.stub_server import until
from tests.unit.webhook.test_owners import CASES
from tests.webhooks import PATIENCE, Tenant

pytestmark = pytest.mark.e2e

Obj = dict[str, Any]


def is_foreign(case: Any) -> bool:
    """Whether controllers of a real cluster leave its objects alone: nobody runs the operators here."""
    return all(group_of(obj) not in BUILT_IN for obj in case.values[1])


def group_of(obj: Obj) -> str:
    return str(obj["apiVersion"]).rpartition("/")[0]


FOREIGN = [case for case in CASES if is_foreign(case)]


def resource(obj: Obj) -> Resource:
    group, _, version = obj["apiVersion"].rpartition("/")
    return Resource(group, version, plural(obj["kind"]), obj["kind"])


@pytest.fixture(scope="module")
def kinds(_real_session: Server) -> list[Resource]:
    """Foreign kinds, served until the control plane ends: another process may need them after us."""
    wanted = list(dict.fromkeys(resource(obj) for case in FOREIGN for obj in case.values[1]))
    with Client.connect(str(_real_session.kubeconfig)) as client:
        for res in wanted:
            with contextlib.suppress(AlreadyExists):
                client.create(CUSTOM_RESOURCES, definition(res))
        # Established is not enough: the webhook asks what is served, which the API server tells a moment later.
        names = {(res.group, res.kind) for res in wanted}
        until(lambda: {(res.group, res.kind) for res in discover(client, names)} == names, PATIENCE)
    return wanted


@pytest.fixture(scope="module")
def tenant(kinds: list[Resource], _real_session: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tenant]:
    """A namespace that asks for the webhook, which was started after the kinds were there."""
    assert kinds
    folder = tmp_path_factory.mktemp("webhook")
    with _real_session.with_namespace() as home, webhooks.serving(home, folder) as make:
        yield make(home)


@pytest.mark.parametrize(("raw", "known", "size", "type_"), FOREIGN)
def test_gang_of_a_foreign_kind(tenant: Tenant, raw: Obj, known: tuple[Obj, ...], size: int, type_: str) -> None:
    client, namespace = tenant.client, tenant.namespace
    by, labels = create_owners(client, namespace, known), raw["metadata"]["labels"]
    references = [reference(by)] if raw["metadata"]["ownerReferences"] else []
    wanted = pod("p", labels=labels, ownerReferences=references)

    def labels_of() -> dict[str, str]:
        found: dict[str, str] = client.create(PODS, wanted, namespace, dry_run=True)["metadata"].get("labels") or {}
        return found

    # A pod waits a quarter of a second for the news of its owner, and not at all for one known by name only.
    until(lambda: v.GANG_NAME in labels_of(), PATIENCE)
    written = labels_of()
    assert written[v.GANG_MIN_AVAILABLE] == str(size)
    assert written[v.WORKLOAD_TYPE] == type_
    if references:
        assert by["metadata"]["uid"][:13] in written[v.GANG_NAME]


def create_owners(client: Client, namespace: str, known: tuple[Obj, ...]) -> Obj:
    """Creates them from the top down, each under a name of the test's own where no label needs the given one."""
    above: Obj = {}
    for obj in reversed(known):
        meta = {"name": obj["metadata"]["name"], "namespace": namespace}
        if obj["metadata"]["ownerReferences"]:
            meta["ownerReferences"] = [reference(above)]
        body = {"apiVersion": obj["apiVersion"], "kind": obj["kind"], "metadata": meta, "spec": obj["spec"]}
        above = client.create(resource(obj), body)
    return above


def test_every_foreign_kind_is_here(kinds: list[Resource]) -> None:
    wanted = {(group, kind) for group, kind in OWNER_KINDS if group not in BUILT_IN and kind != "PodGroup"}
    assert wanted - {("jobset.x-k8s.io", "JobSet")} == {(res.group, res.kind) for res in kinds}
