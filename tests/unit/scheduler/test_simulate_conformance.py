"""kube-scheduler's own cases through `kubenexus simulate --jsonl --explain`: codes and scores as it prints them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kubenexus.common.cli import main
from tests.shared import conformance

Case = dict[str, Any]
Obj = dict[str, Any]

FILES = (
    "nodename",
    "nodeunschedulable",
    "tainttoleration",
    "nodeaffinity",
    "nodeports",
    "noderesources_fit",
    "noderesources_score",
    "imagelocality",
    "interpodaffinity",
    "podtopologyspread",
    "volumezone",
    "volumerestrictions",
    "nodevolumelimits",
    "volumebinding",
)
OBJECTS = [
    "nodes",
    "namespaces",
    "services",
    "replicaSets",
    "statefulSets",
    "replicationControllers",
    "pvcs",
    "pvs",
    "storageClasses",
    "csiNodes",
    "csiDrivers",
    "csiStorageCapacities",
    "volumeAttachments",
    "pdbs",
    "deviceClasses",
    "resourceClaims",
    "pods",
]
CODES = {
    "Unschedulable": "Unschedulable",
    "UnschedulableAndUnresolvable": "Unresolvable",
    "Error": "Unresolvable",
}


# Cases that mean something else in a file of manifests, and why.
OTHERWISE = {
    "ephemeral volume missing": "the claims of ephemeral volumes are made, as a controller would",
    "don't skip Filter when the pod has ephemeral volumes": "the claims of ephemeral volumes are made",
    "host matches": "a pod with a node is running",
    "host doesn't match": "a pod with a node is running",
}
NOT_MET = dict.fromkeys(
    (
        "include DRA resource on a node for balanced resource allocation",
        "include DRA resource on a node for balanced resource allocation if PreScore not called",
        "test case for ScoringStrategy LeastAllocated with Extended resources",
        "test case for ScoringStrategy LeastAllocated with Extended resources if PreScore is not called",
    ),
    "counts devices that a DeviceClass offers as an extended resource, which we do not give out (decision 15)",
)
EVERY = 5


def cases(kind: str) -> list[Any]:
    """A sample: the plugins' own suites go through all of them."""
    params = [param for name in FILES for param in conformance(name, kind)]
    usable = [param for param in params if param.values[0] is None or is_usable(param.values[0])]
    return usable[::EVERY]


def is_usable(case: Case) -> bool:
    narrowed = "feasible" in case and len(case["feasible"]) < len(case["nodes"])
    return not narrowed and case["name"] not in OTHERWISE and case["name"] not in NOT_MET


def simulate(case: Case, folder: Path, capsys: pytest.CaptureFixture[str]) -> Obj:
    """The command's result for a case, with the plugin of the case alone."""
    objects = [one for key in OBJECTS for one in case.get(key, ())]
    plugins = {"enabled": [{"name": case["plugin"]}], "disabled": [{"name": "*"}]}
    args = [{"name": case["plugin"], "args": case["args"]}] if "args" in case else []
    config = {"profiles": [{"plugins": plugins, "pluginConfig": args}]}
    (folder / "lines").write_text(json.dumps({"objects": [*objects, case["pod"]], "config": config}))
    main(["simulate", "--jsonl", "--explain", str(folder / "lines")])
    result: Obj = json.loads(capsys.readouterr().out)
    return result


def explain(case: Case, folder: Path, capsys: pytest.CaptureFixture[str]) -> Obj:
    """What the command says of every node."""
    result = simulate(case, folder, capsys)
    mine = f"{case['pod']['metadata']['namespace']}/{case['pod']['metadata']['name']}"
    (entry,) = (one for one in (*result["placements"], *result["pending"]) if one["pod"] == mine)
    nodes: Obj = entry["nodes"]
    return nodes


@pytest.mark.parametrize("case", cases("filter"))
def test_codes(case: Case, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wanted = {name: CODES.get(one["code"]) for name, one in case["want"]["nodes"].items()}
    nodes = explain(case, tmp_path, capsys)
    assert {name: one.get("code") for name, one in nodes.items()} == wanted
    assert all(one["feasible"] == ("code" not in one) for one in nodes.values())


@pytest.mark.parametrize("case", cases("score"))
def test_scores(case: Case, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    want = case["want"]
    if "argErrors" in want:
        assert simulate(case, tmp_path, capsys).keys() == {"error"}
        return
    nodes = explain(case, tmp_path, capsys)
    if want.get("preScore", {}).get("code") == "Error":
        assert {one["code"] for one in nodes.values()} == {"Unresolvable"}
        return
    wanted = {one["name"]: one["score"] for one in want.get("scores") or ()}
    # The plugin filters here, too: what it refuses has no score.
    for name in (name for name, one in nodes.items() if one["feasible"]):
        assert nodes[name]["scores"].get(case["plugin"], 0) == wanted.get(name, 0), name
