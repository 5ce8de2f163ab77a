"""`kubenexus webhook --check`: manifests in, what would be set and the verdict out."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from kubenexus.common import vocabulary as v
from kubenexus.common.cli import NEGATIVE, OK, CommandError
from kubenexus.webhook import check
from tests.admission import TEAM, pod
from tests.builders import Builder, job, namespace
from tests.owners import job_set

Obj = dict[str, Any]
JOB = job("train", pod().gpu(1), TEAM).parallelism(8).indexed()
OPTED_IN = namespace(TEAM).label(v.INJECT, "enabled")


def run(folder: Path, *objects: Obj | Builder, flags: tuple[str, ...] = ()) -> int:
    built = [obj.build() if isinstance(obj, Builder) else obj for obj in objects]
    file = folder / "pods.yaml"
    file.write_text(yaml.safe_dump_all(built))
    return check.main(arguments(str(file), *flags))


def arguments(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--scheduler-name", dest="schedulers", type=lambda name: (name,), default=(v.SCHEDULER_NAME,))
    check.configure(parser)
    return parser.parse_args(["--check", *words])


def checked(folder: Path, capsys: pytest.CaptureFixture[str], *objects: Obj | Builder) -> list[Obj]:
    """What `-o json` prints."""
    run(folder, *objects, flags=("-o", "json"))
    found: list[Obj] = json.loads(capsys.readouterr().out)["pods"]
    return found


def values(result: Obj) -> dict[str, str]:
    return {step["path"].rpartition("/")[2].replace("~1", "/"): step["value"] for step in result["patch"]}


def test_a_job_is_checked_by_one_of_its_pods(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path, OPTED_IN, JOB) == OK
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "team/train-0: admitted"
    assert f"  set      metadata.labels.{v.GANG_MIN_AVAILABLE}: 8" in lines
    assert "  because  gang: Job train starts with 8 pods or not at all" in lines


def test_a_denied_pod_is_told_what_to_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path, OPTED_IN, pod("bad").gang("g", 0), pod("good")) == NEGATIVE
    out = capsys.readouterr().out
    assert "team/bad: denied" in out
    assert f"  denied   {v.GANG_MIN_AVAILABLE} is '0', which is not in range: write one from 1 to 100000." in out
    assert "team/good: admitted" in out


def test_the_result_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (result,) = checked(tmp_path, capsys, OPTED_IN, pod("p").annotation(v.REQUIRE_CLIQUE, "true"))
    assert result.keys() == {"pod", "allowed", "message", "warnings", "patch", "notes"}
    assert (result["pod"], result["allowed"], result["message"], result["notes"]) == ("team/p", True, None, [])
    assert [warning.partition(" ")[0] for warning in result["warnings"]] == [v.REQUIRE_CLIQUE]


def test_the_namespace_in_the_file_counts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (result,) = checked(tmp_path, capsys, namespace(TEAM), JOB)
    assert result["patch"] == []
    strict = namespace(TEAM).label(v.INJECT, "enabled").annotation(v.DEFAULT_NUMA_POLICY, "restricted")
    (result,) = checked(tmp_path, capsys, strict, JOB)
    assert values(result)[v.NUMA_POLICY] == "restricted"


def test_without_the_namespace_it_is_taken_as_opted_in_and_that_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (result,) = checked(tmp_path, capsys, JOB)
    assert values(result)["schedulerName"] == v.SCHEDULER_NAME
    assert result["notes"] == ["namespace team is not in the file: taken as one that has asked for KubeNexus"]


def test_the_schedulers_name_is_that_of_the_installation(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(tmp_path, pod(), flags=("--scheduler-name", "second"))
    assert "  set      spec.schedulerName: second" in capsys.readouterr().out


def template(kind: str, api_version: str, **more: Any) -> Obj:
    spec = {"template": {"spec": {"containers": [{"name": "c"}]}}, **more}
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": "w", "namespace": TEAM}, "spec": spec}


@pytest.mark.parametrize(
    ("workload", "name", "type_"),
    [
        pytest.param(template("ReplicaSet", "apps/v1"), "w-0", "service", id="a ReplicaSet"),
        pytest.param(template("Deployment", "apps/v1"), "w-0-0", "service", id="a Deployment, through a ReplicaSet"),
        pytest.param(template("StatefulSet", "apps/v1"), "w-0", "service", id="a StatefulSet"),
        pytest.param(template("DaemonSet", "apps/v1"), "w-0", "service", id="a DaemonSet"),
        pytest.param(
            template("CronJob", "batch/v1", jobTemplate=template("", "")),
            "w-0-0",
            "batch",
            id="a CronJob, through a Job",
        ),
    ],
)
def test_other_workloads(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], workload: Obj, name: str, type_: str
) -> None:
    (result,) = checked(tmp_path, capsys, OPTED_IN, workload)
    assert result["pod"] == f"team/{name}"
    assert values(result)[v.WORKLOAD_TYPE] == type_


def test_a_jobset_is_checked_by_a_pod_of_each_role(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole = job_set()
    for replicated in whole["spec"]["replicatedJobs"]:
        replicated["template"]["spec"]["template"] = {"spec": {"containers": [{"name": "c"}]}}
    results = checked(tmp_path, capsys, OPTED_IN, whole)
    assert [result["pod"] for result in results] == ["team/train-driver-0-0", "team/train-worker-0-0"]
    assert {values(result)[v.GANG_MIN_AVAILABLE] for result in results} == {"7"}


def test_a_deployment_that_asks_for_a_gang_is_denied(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    deployment = template("Deployment", "apps/v1", replicas=4)
    deployment["metadata"]["annotations"] = {v.GANG_MIN_AVAILABLE: "4"}
    (result,) = checked(tmp_path, capsys, deployment)
    assert "replaces its pods a few at a time" in result["message"]


def test_a_workload_whose_pods_are_in_the_file_makes_no_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = JOB.build()
    child = pod("own").owner("Job", "train", whole["metadata"]["uid"], api_version="batch/v1")
    (result,) = checked(tmp_path, capsys, OPTED_IN, whole, child)
    assert result["pod"] == "team/own"
    assert values(result)[v.GANG_MIN_AVAILABLE] == "8"


@pytest.mark.parametrize(
    ("objects", "sentence"),
    [
        pytest.param(
            [OPTED_IN], "has no pods, and nothing that makes any: give a Pod, Job or Deployment.", id="no pods"
        ),
        pytest.param([pod("p").cpu("lots")], "Pod team/p: spec.containers[0].resources.requests.cpu cannot", id="junk"),
        pytest.param([{"metadata": {}}], "has a document without a kind", id="no kind"),
    ],
)
def test_files_that_are_of_no_use(tmp_path: Path, objects: list[Obj | Builder], sentence: str) -> None:
    with pytest.raises(CommandError) as refused:
        run(tmp_path, *objects)
    assert sentence in str(refused.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="cannot be read: No such file"):
        check.main(arguments(str(tmp_path / "none.yaml")))
