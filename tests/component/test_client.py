"""The client's verbs against both API servers."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from kubernetes.client import Configuration

from kubenexus.common.kube import errors
from kubenexus.common.kube.auth import Access
from kubenexus.common.kube.client import Client
from kubenexus.common.kube.request import PatchType
from kubenexus.common.kube.resources import CONFIG_MAPS, NODES, PODS, SERVICE_ACCOUNTS
from tests.servers import Server

Obj = dict[str, Any]


@pytest.fixture
def client(server: Server) -> Iterator[Client]:
    with Client.connect(str(server.kubeconfig)) as made:
        yield made


def client_with(server: Server, token: str) -> Client:
    settings = Configuration(host=server.url, ssl_ca_cert=str(server.ca_file))
    settings.api_key["BearerToken"] = f"Bearer {token}"
    return Client(Access(lambda: settings))


def config_map(name: str, **data: str) -> Obj:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def test_create_get_update_delete(client: Client, server: Server) -> None:
    made = client.create(CONFIG_MAPS, config_map("a", x="1"), server.namespace)
    assert client.get(CONFIG_MAPS, "a", server.namespace) == made
    changed = client.update(CONFIG_MAPS, {**made, "data": {"x": "2"}})
    assert changed["data"] == {"x": "2"}
    with pytest.raises(errors.Conflict):
        client.update(CONFIG_MAPS, {**made, "data": {"x": "3"}})
    with pytest.raises(errors.AlreadyExists):
        client.create(CONFIG_MAPS, config_map("a"), server.namespace)
    with pytest.raises(errors.Conflict):
        client.delete(CONFIG_MAPS, "a", server.namespace, uid="another")
    client.delete(CONFIG_MAPS, "a", server.namespace, uid=made["metadata"]["uid"], propagation="Background")
    with pytest.raises(errors.NotFound, match='configmaps "a" not found'):
        client.get(CONFIG_MAPS, "a", server.namespace)


def test_lists_page_and_select(client: Client, server: Server) -> None:
    for number in range(5):
        obj = config_map(f"n{number}")
        obj["metadata"]["labels"] = {"odd": str(number % 2)}
        client.create(CONFIG_MAPS, obj, server.namespace)
    found = client.list(CONFIG_MAPS, server.namespace, label_selector="odd", limit=2)
    assert [item["metadata"]["name"] for item in found.items] == ["n0", "n1", "n2", "n3", "n4"]
    assert int(found.resource_version) > 0
    assert len(client.list(CONFIG_MAPS, server.namespace, label_selector="odd=1").items) == 2
    assert len(client.list(CONFIG_MAPS, server.namespace, field_selector="metadata.name=n3").items) == 1
    assert len(client.list(CONFIG_MAPS, label_selector="odd").items) >= 5


@pytest.mark.parametrize(
    ("kind", "patch"),
    [
        (PatchType.MERGE, {"data": {"x": None, "y": "2"}}),
        (PatchType.STRATEGIC, {"data": {"x": None, "y": "2"}}),
        (PatchType.JSON, [{"op": "remove", "path": "/data/x"}, {"op": "add", "path": "/data/y", "value": "2"}]),
    ],
    ids=lambda value: value.name if isinstance(value, PatchType) else "",
)
def test_patches(client: Client, server: Server, kind: PatchType, patch: Any) -> None:
    client.create(CONFIG_MAPS, config_map("a", x="1"), server.namespace)
    patched = client.patch(CONFIG_MAPS, "a", patch, server.namespace, kind=kind, manager="tester")
    assert patched["data"] == {"y": "2"}
    assert "tester" in {entry["manager"] for entry in patched["metadata"]["managedFields"]}


def test_apply(client: Client, server: Server) -> None:
    def apply(manager: str, force: bool = False, **data: str) -> Obj:
        obj = config_map("a", **data)
        return client.patch(CONFIG_MAPS, "a", obj, server.namespace, kind=PatchType.APPLY, manager=manager, force=force)

    apply("one", x="1", y="1")
    assert apply("one", x="1")["data"] == {"x": "1"}
    with pytest.raises(errors.Conflict) as conflict:
        apply("two", x="2")
    assert conflict.value.causes[0].reason == "FieldManagerConflict"
    assert apply("two", force=True, x="2")["data"] == {"x": "2"}
    with pytest.raises(ValueError, match="needs a field manager"):
        client.patch(CONFIG_MAPS, "a", config_map("a"), server.namespace, kind=PatchType.APPLY)


def pod(name: str) -> Obj:
    spec = {"containers": [{"name": "main", "image": "x"}], "serviceAccountName": "mine", "schedulerName": "nobody"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def test_binding(client: Client, server: Server) -> None:
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "mine"}}
    client.create(SERVICE_ACCOUNTS, account, server.namespace)
    made = client.create(PODS, pod("a"), server.namespace)
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "a", "uid": made["metadata"]["uid"], "annotations": {"gpus": "0,1"}},
        "target": {"apiVersion": "v1", "kind": "Node", "name": "n1"},
    }
    client.create(PODS, binding, server.namespace, subresource="binding")
    bound = client.get(PODS, "a", server.namespace)
    assert (bound["spec"]["nodeName"], bound["metadata"]["annotations"]["gpus"]) == ("n1", "0,1")
    with pytest.raises(errors.Conflict):
        client.create(PODS, binding, server.namespace, subresource="binding")
    status = {"status": {"message": "on its way"}}
    patched = client.patch(PODS, "a", status, server.namespace, kind=PatchType.STRATEGIC, subresource="status")
    assert patched["status"]["message"] == "on its way"
    client.delete(PODS, "a", server.namespace, grace_seconds=0)


def test_invalid_names_the_field(client: Client, server: Server) -> None:
    obj = config_map("a")
    obj["metadata"]["labels"] = {"numa": "0,1"}
    with pytest.raises(errors.Invalid) as invalid:
        client.create(CONFIG_MAPS, obj, server.namespace)
    assert [(cause.field, cause.reason) for cause in invalid.value.causes] == [("metadata.labels", "FieldValueInvalid")]
    assert "\n" not in str(invalid.value)


def test_dry_run_leaves_no_trace(client: Client, server: Server) -> None:
    client.create(CONFIG_MAPS, config_map("a"), server.namespace, dry_run=True)
    with pytest.raises(errors.NotFound):
        client.get(CONFIG_MAPS, "a", server.namespace)


def test_other_paths(client: Client) -> None:
    assert "gitVersion" in client.request("GET", "/version")
    assert client.request("GET", "/readyz") == "ok"
    with pytest.raises(errors.NotFound):
        client.request("GET", "/apis/no.such.group/v1/things")


def test_who_is_not_known_is_refused(server: Server) -> None:
    with client_with(server, "wrong") as stranger, pytest.raises(errors.Unauthorized):
        stranger.list(NODES)


def test_the_missing_right_is_named(real_server: Server) -> None:
    server = real_server
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "weak"}}
    ask = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "metadata": {"name": "weak"}, "spec": {}}
    with Client.connect(str(server.kubeconfig)) as admin:
        admin.create(SERVICE_ACCOUNTS, account, server.namespace)
        answer = admin.create(SERVICE_ACCOUNTS, ask, server.namespace, subresource="token")
    with client_with(server, answer["status"]["token"]) as weak:
        with pytest.raises(errors.Forbidden) as no:
            weak.list(NODES)
        assert (no.value.verb, no.value.resource) == ("list", "nodes")
        binding = {"metadata": {"name": "a"}}
        with pytest.raises(errors.Forbidden) as no:
            weak.create(PODS, binding, server.namespace, subresource="binding")
        assert str(no.value) == (
            f"system:serviceaccount:{server.namespace}:weak may not create pods/binding in namespace "
            f"{server.namespace}: give its role the verb create on pods/binding"
        )


def test_many_threads_share_a_client(client: Client, server: Server) -> None:
    def one(number: int) -> str:
        made = client.create(CONFIG_MAPS, config_map(f"t{number}"), server.namespace)
        return str(client.get(CONFIG_MAPS, made["metadata"]["name"], server.namespace)["metadata"]["name"])

    with ThreadPoolExecutor(16) as pool:
        assert {*pool.map(one, range(64))} == {f"t{number}" for number in range(64)}
