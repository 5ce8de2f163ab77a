"""A real API server takes every example, and the pods in it, with strict validation.

Kinds of operators are served under a group of this process's own, by definitions that take everything: their true names
belong to whoever else uses this server.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hack.control_plane import binaries
from kubenexus.common.gangs import plural
from kubenexus.common.kube.client import Client
from kubenexus.common.kube.resources import CUSTOM_RESOURCES
from tests.contract.objects import unique
from tests.docs import examples
from tests.servers import Server
from tests.stub_server import until

Obj = dict[str, Any]
SUFFIX = f".{unique('examples')}.test"
"""several processes may run these tests on one server"""


def definition(api_version: str, kind: str) -> Obj:
    group, _, version = api_version.rpartition("/")
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    return {
        "metadata": {"name": f"{plural(kind)}.{group}{SUFFIX}"},
        "spec": {
            "group": group + SUFFIX,
            "scope": "Namespaced",
            "names": {"plural": plural(kind), "singular": kind.lower(), "kind": kind},
            "versions": [{"name": version, "served": True, "storage": True, "schema": schema}],
        },
    }


@pytest.fixture(scope="module")
def _definitions(_real_session: Server) -> Iterator[None]:
    objects = [obj for name in examples.foreign() for obj in examples.read(name)]
    with Client.connect(str(_real_session.kubeconfig)) as client:
        made = [client.create(CUSTOM_RESOURCES, definition(obj["apiVersion"], obj["kind"])) for obj in objects]
        names = [one["metadata"]["name"] for one in made]
        until(lambda: all(_is_served(client, name) for name in names), 60)
        yield
        for name in names:
            client.delete(CUSTOM_RESOURCES, name)


def _is_served(client: Client, name: str) -> bool:
    conditions = client.get(CUSTOM_RESOURCES, name).get("status", {}).get("conditions") or ()
    return any((one["type"], one["status"]) == ("Established", "True") for one in conditions)


def rewritten(obj: Obj, namespace: str) -> Obj:
    """The object in the test's namespace, in a group that is served here."""
    version = obj["apiVersion"].replace("/", f"{SUFFIX}/") if _is_foreign(obj) else obj["apiVersion"]
    return {**obj, "apiVersion": version, "metadata": {**obj["metadata"], "namespace": namespace}}


def _is_foreign(obj: Obj) -> bool:
    return examples.group(obj) not in examples.BUILT_IN


def pods_of(obj: Obj, namespace: str) -> Iterator[Obj]:
    """A pod for each template of a kind whose templates the server does not look into."""
    for number, spec in enumerate(examples.pod_specs(obj) if _is_foreign(obj) else ()):
        meta = {"name": f"{obj['metadata']['name']}-{number}", "namespace": namespace}
        yield {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


@pytest.mark.parametrize("name", examples.names())
@pytest.mark.usefixtures("_definitions")
def test_example_is_accepted(name: str, real_server: Server, tmp_path: Path) -> None:
    namespace = real_server.namespace
    objects = [obj for obj in examples.read(name) if obj["kind"] != "Namespace"]
    items = [rewritten(obj, namespace) for obj in objects if obj["kind"] != "Node"]
    items += [obj for obj in objects if obj["kind"] == "Node"]
    items += [pod for obj in objects for pod in pods_of(obj, namespace)]
    words = ["create", "--dry-run=server", "--validate=strict", "-f", "-"]
    done = subprocess.run(
        [str(binaries.find("kubectl")), f"--kubeconfig={real_server.kubeconfig}", *words],
        input=json.dumps({"apiVersion": "v1", "kind": "List", "items": items}),
        env={**os.environ, "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("(server dry run)") == len(items)
