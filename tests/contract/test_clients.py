"""The clients people have: kubectl and the official Python package, against both servers."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from typing import Any

import kubernetes
import pytest

from hack.control_plane import binaries
from kubenexus.common.kube.resources import CONFIG_MAPS, NODES, PODS
from tests.contract.api import Api, eventually
from tests.contract.objects import config_map, device, meta, node, pod, resource_slice, unique

Kubectl = Callable[..., str]
NUMA_NODE = device("gpu-0", **{"numa-node": {"int": 0}})


@pytest.fixture
def kubectl(api: Api, tmp_path_factory: pytest.TempPathFactory) -> Kubectl:
    """Run kubectl in the test's namespace; its output. It must exit with `code`."""
    program = binaries.find("kubectl")
    if program is None:
        pytest.skip("no kubectl: run `hack/control-plane build` once")
    home = tmp_path_factory.mktemp("kubectl")

    def run(*arguments: str, stdin: Any = None, code: int = 0) -> str:
        done = subprocess.run(
            [str(program), f"--kubeconfig={api.server.kubeconfig}", f"--namespace={api.namespace}", *arguments],
            input=None if stdin is None else json.dumps(stdin),
            env={**os.environ, "HOME": str(home)},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == code, done.stderr
        return done.stdout + done.stderr

    return run


def typed(api_version: str, kind: str, obj: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": api_version, "kind": kind, **obj}


def test_kubectl_get_shows_the_server_s_table(api: Api, kubectl: Kubectl) -> None:
    api.create(PODS, pod("a")).expect(201)
    header, row = kubectl("get", "pods").splitlines()
    assert header.split() == ["NAME", "READY", "STATUS", "RESTARTS", "AGE"]
    assert row.split()[:4] == ["a", "0/1", "Pending", "0"]


def test_kubectl_get_prints_json(api: Api, kubectl: Kubectl) -> None:
    api.create(CONFIG_MAPS, config_map("a", {"k": "v"})).expect(201)
    assert json.loads(kubectl("get", "configmap", "a", "-o", "json"))["data"] == {"k": "v"}


def test_kubectl_get_of_an_unknown_object_says_so(kubectl: Kubectl) -> None:
    assert 'pods "absent" not found' in kubectl("get", "pod", "absent", code=1)


def test_kubectl_get_waits_for_a_condition(api: Api, kubectl: Kubectl) -> None:
    api.create(PODS, pod("a")).expect(201)
    api.patch(PODS, "a", {"status": {"phase": "Running"}}, sub="status").expect(200)
    kubectl("wait", "pod/a", "--for=jsonpath={.status.phase}=Running", "--timeout=20s")


def test_kubectl_describe_tells_about_a_pod(api: Api, kubectl: Kubectl) -> None:
    api.create(PODS, pod("a", labels={"app": "x"})).expect(201)
    text = kubectl("describe", "pod", "a")
    assert "app=x" in text
    assert "example.invalid/main" in text


def test_kubectl_describe_tells_about_a_node(api: Api, kubectl: Kubectl) -> None:
    name = unique("node")
    api.create(NODES, node(name)).expect(201)
    assert "Capacity:" in kubectl("describe", "node", name)


def test_kubectl_apply_creates_and_changes(api: Api, kubectl: Kubectl) -> None:
    obj = typed("v1", "ConfigMap", config_map("a", {"k": "1", "drop": "1"}))
    assert "created" in kubectl("apply", "-f", "-", stdin=obj)
    assert "unchanged" in kubectl("apply", "-f", "-", stdin=obj)
    obj["data"] = {"k": "2"}
    assert "configured" in kubectl("apply", "-f", "-", stdin=obj)
    assert api.get(CONFIG_MAPS, "a").expect(200)["data"] == {"k": "2"}


def test_kubectl_server_side_apply_shows_conflicts(api: Api, kubectl: Kubectl) -> None:
    api.apply(CONFIG_MAPS, config_map("a", {"k": "1"}), "other").expect(201)
    mine = typed("v1", "ConfigMap", config_map("a", {"k": "2"}))
    assert 'conflict with "other"' in kubectl("apply", "--server-side", "-f", "-", stdin=mine, code=1)
    kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=mine)
    assert api.get(CONFIG_MAPS, "a").expect(200)["data"] == {"k": "2"}


def test_kubectl_apply_takes_a_job_a_node_and_a_slice(api: Api, kubectl: Kubectl) -> None:
    name = unique("thing")
    template = {"spec": {**pod()["spec"], "restartPolicy": "Never"}}
    things = [
        typed("batch/v1", "Job", {**meta("job"), "spec": {"template": template}}),
        typed("v1", "Node", node(name)),
        typed("resource.k8s.io/v1", "ResourceSlice", resource_slice(name, device("gpu-0", index={"int": 0}))),
    ]
    api.made += [NODES.path(name=name), f"/apis/resource.k8s.io/v1/resourceslices/{name}"]
    out = kubectl("apply", "-f", "-", stdin={"apiVersion": "v1", "kind": "List", "items": things})
    assert out.split("\n")[:3] == [
        "job.batch/job created", f"node/{name} created", f"resourceslice.resource.k8s.io/{name} created"]  # fmt: skip


@pytest.mark.parametrize(
    ("thing", "words"),
    [
        (typed("v1", "ConfigMap", config_map("a", labels={"x": "0,1"})), "a valid label must be"),
        (typed("resource.k8s.io/v1", "ResourceSlice", resource_slice("a", NUMA_NODE)), "numa-node"),
    ],
    ids=["an invalid label value", "an attribute called numa-node"],
)
def test_kubectl_apply_is_refused_for(kubectl: Kubectl, thing: dict[str, Any], words: str) -> None:
    assert words in kubectl("apply", "-f", "-", stdin=thing, code=1)


def test_kubectl_apply_refuses_an_unknown_field(kubectl: Kubectl) -> None:
    wrong = typed("v1", "Pod", pod("a", {"colour": "red"}))
    assert 'unknown field "spec.colour"' in kubectl("apply", "-f", "-", stdin=wrong, code=1)


def test_kubectl_label_sets_and_takes_away(api: Api, kubectl: Kubectl) -> None:
    api.create(CONFIG_MAPS, config_map("a")).expect(201)
    kubectl("label", "configmap", "a", "x=y")
    assert api.get(CONFIG_MAPS, "a").expect(200)["metadata"]["labels"] == {"x": "y"}
    assert "--overwrite is false" in kubectl("label", "configmap", "a", "x=z", code=1)
    kubectl("label", "configmap", "a", "x-")
    assert "labels" not in api.get(CONFIG_MAPS, "a").expect(200)["metadata"]


def test_kubectl_delete_waits_until_the_object_is_gone(api: Api, kubectl: Kubectl) -> None:
    api.create(CONFIG_MAPS, config_map("a")).expect(201)
    assert 'configmap "a" deleted' in kubectl("delete", "configmap", "a", "--timeout=20s")
    api.get(CONFIG_MAPS, "a").refused(404, "NotFound")


def test_kubectl_api_resources_lists_ours(kubectl: Kubectl) -> None:
    names = {line.split("/")[0] for line in kubectl("api-resources", "-o", "name").splitlines()}
    assert {"pods", "nodes", "resourceslices.resource.k8s.io", "jobs.batch", "leases.coordination.k8s.io"} <= names


@pytest.fixture
def core(api: Api) -> Any:
    """The official client, configured by the server's kubeconfig."""
    configure: Any = kubernetes.config.new_client_from_config
    client = configure(config_file=str(api.server.kubeconfig))
    yield kubernetes.client.CoreV1Api(client)
    client.close()


def test_official_client_lists_pods(api: Api, core: Any) -> None:
    api.create(PODS, pod("a", labels={"app": "x"})).expect(201)
    [found] = core.list_namespaced_pod(api.namespace, label_selector="app=x").items
    assert (found.metadata.name, found.status.phase) == ("a", "Pending")


def test_official_client_creates_and_watches(api: Api, core: Any) -> None:
    version = core.list_namespaced_pod(api.namespace).metadata.resource_version
    core.create_namespaced_pod(api.namespace, pod("a"))
    watch: Any = kubernetes.watch.Watch
    pods, since = core.list_namespaced_pod, {"resource_version": version, "timeout_seconds": 10}
    stream = watch().stream(pods, api.namespace, **since)
    event = next(stream)
    assert (event["type"], event["object"].metadata.name) == ("ADDED", "a")
    stream.close()


def test_official_client_raises_what_the_server_says(api: Api, core: Any) -> None:
    with pytest.raises(kubernetes.client.ApiException) as caught:
        core.read_namespaced_pod("absent", api.namespace)
    assert (caught.value.status, json.loads(caught.value.body or "")["reason"]) == (404, "NotFound")


def test_official_client_evicts(api: Api, core: Any) -> None:
    api.create(PODS, pod("a")).expect(201)
    core.create_namespaced_pod_eviction("a", api.namespace, {"metadata": {"name": "a"}})
    eventually(lambda: api.get(PODS, "a").status == 404)
