"""Examples do what their comments promise: placed by simulate, a gang of that size, nothing that the webhook minds."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from kubenexus.common import vocabulary as v
from kubenexus.common.cli import main
from kubenexus.common.gangs import Gang, PodFacts, resolve
from tests.devices import resource_slice
from tests.docs import examples
from tests.owners import Known, reference

Obj = dict[str, Any]
Capture = pytest.CaptureFixture[str]

# Placed on examples/cluster.yaml, all of their pods; how many these are.
PLACED = {
    "clique.yaml": 2,
    "hpc-isolated.yaml": 2,
    "inference.yaml": 6,
    "jobset.yaml": 5,
    "mixed.yaml": 12,
    "pytorch-job.yaml": 2,
    "quickstart.yaml": 4,
    "spark.yaml": 1,
}
CLAIMS = "claims.yaml"
OTHERS = {"cluster.yaml", "simulate.yaml", "webhook.yaml", CLAIMS}
"""nodes to place on, examples of refusals, and what needs a driver's devices"""


def simulate(capsys: Capture, name: str) -> list[Obj]:
    words = ["simulate", "-o", "json", str(examples.FOLDER / examples.CLUSTER), str(examples.FOLDER / name)]
    assert main(words) == 0, capsys.readouterr().out
    placed: list[Obj] = json.loads(capsys.readouterr().out)["placements"]
    return placed


def test_every_example_is_checked() -> None:
    assert set(examples.names()) == {*PLACED, *examples.foreign(), *OTHERS}


def test_every_example_is_in_the_guide() -> None:
    guide = (examples.ROOT / "docs" / "guide" / "README.md").read_text(encoding="utf-8")
    assert set(re.findall(r"examples/([a-z-]+\.yaml)", guide)) == set(examples.names())


@pytest.mark.parametrize("name", PLACED)
def test_example_is_placed(name: str, capsys: Capture) -> None:
    assert len(simulate(capsys, name)) == PLACED[name]


@pytest.mark.parametrize("name", [*PLACED, *examples.foreign()])
def test_every_pod_asks_for_the_scheduler_or_leaves_it_to_the_webhook(name: str) -> None:
    specs = [spec for obj in examples.read(name) for spec in examples.pod_specs(obj)]
    wanted = None if name == "quickstart.yaml" else v.SCHEDULER_NAME
    assert {spec.get("schedulerName") for spec in specs} <= {wanted}


@pytest.mark.parametrize("name", PLACED)
def test_webhook_has_nothing_to_say_against_it(name: str, capsys: Capture) -> None:
    assert main(["webhook", "-o", "json", "--check", str(examples.FOLDER / name)]) == 0
    assert [one["warnings"] for one in json.loads(capsys.readouterr().out)["pods"] if one["warnings"]] == []


# --- What each shows


@pytest.mark.parametrize(("machines", "code"), [(2, 0), (1, 1)])
def test_claims_get_devices_that_a_driver_publishes(machines: int, code: int, capsys: Capture, tmp_path: Path) -> None:
    """Each pod gets two, of two machines; with one machine the gang waits."""
    names = [f"h100-{number}" for number in range(1, machines + 1)]
    memory = {"memory": {"value": "80Gi"}}
    slices = [resource_slice(name, 2, "gpu.example.com", capacity=memory) for name in names]
    driver = tmp_path / "slices.json"
    driver.write_text(json.dumps({"kind": "List", "items": slices}))
    words = ["simulate", "-o", "json", "--explain", str(examples.FOLDER / examples.CLUSTER), str(driver)]
    assert main([*words, str(examples.FOLDER / CLAIMS)]) == code
    found = json.loads(capsys.readouterr().out)
    assert sorted(one["node"] for one in found["placements"]) == ([] if code else names)
    [refused] = (found["pending"] or found["placements"])[0]["nodes"]["h100-3"]["reasons"]
    assert refused == (
        "cannot allocate all claims (the request gpus asks for 2 devices of the class gpu.example.com, "
        "and the node has none that it may have)"
    )


def test_workers_of_pytorch_share_a_fabric_and_have_a_machine_each(capsys: Capture) -> None:
    one, other = simulate(capsys, "pytorch-job.yaml")
    assert {one["node"], other["node"]} in ({"h100-1", "h100-2"}, {"h100-3", "h100-4"})
    assert one["gpus"] == other["gpus"] == list(range(8))


def test_isolated_ranks_have_a_numa_node_each(capsys: Capture) -> None:
    seats = [(one["node"], one["numa"]) for one in simulate(capsys, "hpc-isolated.yaml")]
    assert seats[0] != seats[1]
    assert all(len(numa) == 1 and node.startswith("cpu-") for node, numa in seats)


def test_clique_stays_in_the_rack(capsys: Capture) -> None:
    assert {one["node"] for one in simulate(capsys, "clique.yaml")} == {"gb200-1", "gb200-2"}


def test_inference_is_spread_evenly(capsys: Capture) -> None:
    zones = {node["metadata"]["name"]: node["metadata"]["labels"][v.ZONE] for node in examples.read(examples.CLUSTER)}
    placed = [zones[one["node"]] for one in simulate(capsys, "inference.yaml")]
    assert placed.count("east") == placed.count("west") == 3


def test_small_pods_leave_machines_whole_for_the_gang(capsys: Capture) -> None:
    placed = simulate(capsys, "mixed.yaml")
    gang = [one for one in placed if one["pod"].startswith("default/finetune-")]
    assert [one["gpus"] for one in gang] == [list(range(8))] * 3


# --- Kinds of operators: their gang, from the object and the labels that the operator puts on pods

MEMBERS: dict[str, Obj] = {
    "pytorchjob.yaml": {},
    "mpijob.yaml": {},
    "jobset.yaml": {},
    "leaderworkerset.yaml": {
        "leaderworkerset.sigs.k8s.io/name": "llm",
        "leaderworkerset.sigs.k8s.io/group-index": "0",
    },
    "sparkapplication.yaml": {
        "spark-role": "driver",
        "spark-app-selector": "spark-1",
        "sparkoperator.k8s.io/app-name": "report",
    },
    "rayjob.yaml": {},
}


def owner_in(name: str) -> Obj:
    """What decides the gang: the object of the example; of a RayJob, the RayCluster that KubeRay makes of it."""
    obj = next(obj for obj in examples.read(name) if examples.group(obj) not in examples.BUILT_IN)
    if obj["kind"] == "RayJob":
        obj = {**obj, "kind": "RayCluster", "spec": obj["spec"]["rayClusterSpec"]}
    return {**obj, "metadata": {"name": obj["metadata"]["name"], "namespace": "team", "uid": "0" * 36}}


def test_every_foreign_kind_has_a_member() -> None:
    assert set(MEMBERS) == set(examples.foreign())


@pytest.mark.parametrize("name", MEMBERS)
def test_gang_is_as_large_as_the_comment_says(name: str) -> None:
    said = re.search(r"[Gg]ang of (\d+)", (examples.FOLDER / name).read_text(encoding="utf-8"))
    assert said is not None
    owner = owner_in(name)
    pod = {"metadata": {"namespace": "team", "labels": MEMBERS[name], "ownerReferences": [reference(owner)]}}
    found = resolve(PodFacts.from_json(pod), Known(owner))
    assert isinstance(found, Gang), found
    assert found.min_available == int(said[1])


def test_spark_operator_s_driver_holds_room_for_four() -> None:
    owner = owner_in("sparkapplication.yaml")
    pod = {"metadata": {"namespace": "team", "labels": MEMBERS["sparkapplication.yaml"]}}
    found = resolve(PodFacts.from_json(pod), Known(owner))
    assert isinstance(found, Gang)
    assert found.reserve is not None
    assert found.reserve.count == 4
