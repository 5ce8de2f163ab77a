"""`kubenexus simulate` as people type it: what it reads, what it prints, and what it says when it cannot."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from kubenexus.common import wire
from kubenexus.common.cli import main
from kubenexus.common.vocabulary import TOPOLOGY_SNAPSHOT
from tests.builders import node, pod
from tests.machines import dgx_h100

Obj = dict[str, Any]
Capture = pytest.CaptureFixture[str]

CLUSTER = [
    node("big").capacity(cpu=4, memory="8Gi").build(),
    node("tainted").capacity(cpu=4, memory="8Gi").taint("x").build(),
]
FITS, HUGE = pod("fits").cpu(1).build(), pod("huge").cpu(9).build()
CONFIG = "apiVersion: kubenexus.io/v1alpha1\nkind: SchedulerConfiguration\n"


@pytest.fixture
def write(tmp_path: Path) -> Any:
    """Writes a file of text, or of documents as YAML; gives its name."""

    def write(content: str | list[Any], name: str = "objects") -> str:
        path = tmp_path / name
        path.write_text(content if isinstance(content, str) else yaml.safe_dump_all(content), encoding="utf-8")
        return str(path)

    return write


def run(capsys: Capture, *words: str) -> tuple[int, str, str]:
    code = main(["simulate", *words])
    said = capsys.readouterr()
    return code, said.out, said.err


def placements(out: str) -> dict[str, str | None]:
    result = json.loads(out)
    return {one["pod"]: one["node"] for one in (*result["placements"], *result["pending"])}


# --- Results


def test_everything_placed_is_0(write: Any, capsys: Capture) -> None:
    code, out, err = run(capsys, "-o", "json", write([*CLUSTER, FITS]))
    entry: Obj = {"pod": "default/fits", "gang": None, "node": "big", "numa": [], "gpus": [], "reason": None}
    counts = {"pods": 1, "placed": 1, "pending": 0}
    assert (code, err) == (0, "")
    assert json.loads(out) == {"placements": [entry], "pending": [], "summary": counts}


def test_something_pending_is_1_and_has_the_reason(write: Any, capsys: Capture) -> None:
    code, out, _ = run(capsys, "-o", "json", write([*CLUSTER, FITS, HUGE]))
    result = json.loads(out)
    (entry,) = result["pending"]
    assert code == 1
    assert (entry["pod"], entry["node"]) == ("default/huge", None)
    assert entry["reason"].startswith("0/2 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint(s)")
    assert result["summary"] == {"pods": 2, "placed": 1, "pending": 1}


@pytest.mark.parametrize("words", [[], ["-o", "json"], ["--timeline"]], ids=["table", "json", "timeline"])
def test_pending_pod_is_told_what_would_help(write: Any, capsys: Capture, words: list[str]) -> None:
    _, out, _ = run(capsys, *words, write([CLUSTER[0], HUGE]))
    assert "No node has more than 4 cpu: request less, or add a larger node." in out


def test_no_pods_at_all(write: Any, capsys: Capture) -> None:
    code, out, _ = run(capsys, "-o", "json", write(CLUSTER))
    assert (code, json.loads(out)["summary"]) == (0, {"pods": 0, "placed": 0, "pending": 0})


@pytest.mark.parametrize("one", [FITS, HUGE], ids=["placed", "pending"])
def test_explain_tells_of_every_node(write: Any, capsys: Capture, one: Obj) -> None:
    _, out, _ = run(capsys, "--explain", "-o", "json", write([*CLUSTER, one]))
    result: dict[str, list[Obj]] = json.loads(out)
    (entry,) = result["placements"] + result["pending"]
    big, tainted = entry["nodes"]["big"], entry["nodes"]["tainted"]
    assert tainted == {
        "feasible": False,
        "code": "Unresolvable",
        "reasons": ["node(s) had untolerated taint(s)"],
        "scores": {},
    }
    if one is FITS:
        assert (big["feasible"], big["reasons"], "code" in big) == (True, [], False)
        assert big["scores"]["TaintToleration"] == 100
        assert big["scores"]["NodeAffinity"] == 0  # no preference, and says so
        assert all(0 <= score <= 100 for score in big["scores"].values())
    else:
        assert big == {"feasible": False, "code": "Unresolvable", "reasons": ["Insufficient cpu"], "scores": {}}


def test_table(write: Any, capsys: Capture) -> None:
    _, out, _ = run(capsys, write([*CLUSTER, FITS, HUGE]))
    lines = out.splitlines()
    assert [line.split() for line in lines[:3]] == [["POD", "NODE"], ["default/fits", "big"], ["default/huge", "-"]]
    assert lines[3].startswith("default/huge stays pending: 0/2 nodes are available: ")
    assert lines[-1] == "pods 2, placed 1, pending 1"


def test_table_has_seats_and_tells_the_reason_of_a_gang_once(write: Any, capsys: Capture) -> None:
    described = node("dgx").capacity(cpu=64, memory="128Gi", gpu=8)
    described.annotation(TOPOLOGY_SNAPSHOT, wire.encode_annotation(dgx_h100()))
    gang = [pod(name).gpu(8).gang("g", 2).build() for name in ("g-0", "g-1")]
    _, out, _ = run(capsys, write([described.build(), pod("a").gpu(2).build(), *gang]))
    lines = out.splitlines()
    assert [line.split() for line in lines[:3]] == [
        ["POD", "NODE", "NUMA", "GPUS"],
        ["default/a", "dgx", "0", "0-1"],
        ["default/g-0", "-", "-", "-"],
    ]
    assert lines[4].startswith("default/g-0 and 1 more stay pending: Gang g needs 2 members at once")
    assert lines[5] == ""


def test_table_explains_too(write: Any, capsys: Capture) -> None:
    _, out, _ = run(capsys, "--explain", write([*CLUSTER, FITS]))
    assert "\ndefault/fits:\n  big      feasible      TaintToleration 100, " in out
    assert "\n  tainted  Unresolvable  node(s) had untolerated taint(s)\n" in out


def test_help_has_an_example(capsys: Capture) -> None:
    assert run(capsys, "--help")[0] == 0


# --- What it reads


def listed(kind: str, items: list[Obj], **more: Any) -> Obj:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"resourceVersion": ""}, "items": items, **more}


BARE = [{key: value for key, value in one.items() if key not in ("kind", "apiVersion")} for one in CLUSTER]
INPUTS = {
    "YAML documents": yaml.safe_dump_all([*CLUSTER, FITS]),
    "empty documents between": "---\n---\n" + yaml.safe_dump_all([*CLUSTER, FITS]) + "---\n",
    "a List": yaml.safe_dump(listed("List", [*CLUSTER, FITS])),
    "a NodeList and a pod": yaml.safe_dump_all([listed("NodeList", BARE), FITS]),
    "Lists in a List": json.dumps(listed("List", [listed("NodeList", BARE), FITS])),
    "JSON": json.dumps(listed("List", [*CLUSTER, FITS]), indent=2),
    "JSON documents one after the other": "\n".join(json.dumps(one) for one in [*CLUSTER, FITS]),
    "other objects too": yaml.safe_dump_all([*CLUSTER, FITS, {"kind": "ConfigMap"}, {"kind": "CronJob", "spec": 3}]),
}


@pytest.mark.parametrize("text", INPUTS.values(), ids=INPUTS)
def test_reads(write: Any, capsys: Capture, text: str) -> None:
    code, out, err = run(capsys, "-o", "json", write(text))
    assert (code, err, placements(out)) == (0, "", {"default/fits": "big"})


def test_several_files_and_standard_input(write: Any, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(yaml.safe_dump_all(CLUSTER)))
    code, out, _ = run(capsys, "-o", "json", "-", write([FITS]))
    assert (code, placements(out)) == (0, {"default/fits": "big"})


def test_unquoted_times_are_times(write: Any, capsys: Capture) -> None:
    text = yaml.safe_dump_all([*CLUSTER, FITS]).replace("'2026-01-01T00:00:00Z'", "2026-01-01T00:00:00Z")
    assert "'2026" not in text
    assert run(capsys, write(text))[0] == 0


def test_configuration_file(write: Any, capsys: Capture) -> None:
    config = CONFIG + "profiles: [{plugins: {disabled: [{name: TaintToleration}, {name: NodeResourcesFit}]}}]\n"
    code, out, _ = run(capsys, "--explain", "-o", "json", "--config", write(config, "c"), write([*CLUSTER, HUGE]))
    (entry,) = json.loads(out)["placements"]
    assert code == 0
    assert "TaintToleration" not in entry["nodes"]["tainted"]["scores"]


def test_pods_go_by_the_profile_they_name_or_the_first(write: Any, capsys: Capture) -> None:
    config = CONFIG + (
        "profiles:\n- schedulerName: strict\n- schedulerName: lax\n  plugins: {disabled: [{name: NodeResourcesFit}]}\n"
    )
    pods = [pod(name).cpu(9).scheduler(name).build() for name in ("strict", "lax", "unheard-of")]
    _, out, _ = run(capsys, "-o", "json", "--config", write(config, "c"), write([CLUSTER[0], *pods]))
    assert placements(out) == {"default/strict": None, "default/lax": "big", "default/unheard-of": None}


# --- Lines


def line(*objects: Obj, **config: Any) -> str:
    return json.dumps({"objects": objects, "config": config} if config else {"objects": objects})


def test_a_result_for_each_line(write: Any, capsys: Capture) -> None:
    lines = [line(*CLUSTER, FITS), "", line(*CLUSTER, HUGE), line(listed("List", [*CLUSTER, FITS]))]
    code, out, err = run(capsys, "--jsonl", write("\n".join(lines)))
    assert (code, err) == (1, "")
    assert [placements(one) for one in out.splitlines()] == [
        {"default/fits": "big"},
        {"default/huge": None},
        {"default/fits": "big"},
    ]


def test_a_line_with_its_own_configuration(write: Any, capsys: Capture) -> None:
    profiles = [{"plugins": {"disabled": [{"name": "*"}], "enabled": [{"name": "NodeAffinity"}]}}]
    config = {"apiVersion": "kubenexus.io/v1alpha1", "kind": "SchedulerConfiguration", "profiles": profiles}
    text = "\n".join((line(*CLUSTER, HUGE, profiles=profiles), line(*CLUSTER, HUGE, **config), line(*CLUSTER, HUGE)))
    code, out, _ = run(capsys, "--jsonl", "--explain", write(text))
    first, second, third = map(json.loads, out.splitlines())
    assert code == 1
    assert first == second
    assert first["placements"][0]["nodes"]["big"]["scores"] == {"NodeAffinity": 0}
    assert third["pending"]


def test_separators_inside_text_do_not_end_a_line(write: Any, capsys: Capture) -> None:
    odd = pod("odd").annotation("note", "a\u2028b\x85c").build()
    code, out, _ = run(capsys, "--jsonl", write(json.dumps({"objects": [*CLUSTER, odd]}, ensure_ascii=False)))
    assert (code, placements(out)) == (0, {"default/odd": "big"})


BAD_LINES = {
    "not JSON": ("{", "is not JSON"),
    "no objects": ('{"config": {}}', 'has no list "objects"'),
    "unknown key": ('{"objects": [], "confg": {}}', "confg is not known"),
    "configuration of another type": ('{"objects": [], "config": []}', "config is not a mapping"),
    "unknown key in the configuration": ('{"objects": [], "config": {"profils": []}}', "did you mean profiles?"),
    "unknown plugin": (line(profiles=[{"plugins": {"enabled": [{"name": "NodeAfinity"}]}}]), "no plugin NodeAfinity"),
    "object without a kind": ('{"objects": [{"metadata": {}}]}', "without a kind"),
    "object that is none": ('{"objects": [7]}', "without a kind"),
    "nested too deeply": ('{"objects": ' + "[" * 100_000, "in each other too deeply"),
}


@pytest.mark.parametrize(("bad", "complaint"), BAD_LINES.values(), ids=BAD_LINES)
def test_a_bad_line_hides_no_other(write: Any, capsys: Capture, bad: str, complaint: str) -> None:
    code, out, err = run(capsys, "--jsonl", write(f"{bad}\n{line(*CLUSTER, FITS)}\n"))
    first, second = out.splitlines()
    assert code == 2
    assert complaint in json.loads(first)["error"]
    assert placements(second) == {"default/fits": "big"}
    assert err.count("\n") == 1
    assert "line 1" in err


# --- Bad input

BAD_FILES: dict[str, tuple[str | list[Any], str]] = {
    "neither YAML nor JSON": ("a: [", "neither YAML nor JSON"),
    "a document without a kind": ([*CLUSTER, {"metadata": {"name": "x"}}], "a document without a kind"),
    "text": ("hello", "a document without a kind"),
    "a pod without a name": ([{"kind": "Pod", "metadata": {}}], "Pod: metadata.name is not a name"),
    "a node without metadata": ([{"kind": "Node"}], "Node: metadata is not a mapping"),
    "a Job that cannot be counted": (
        [{"kind": "Job", "metadata": {"name": "j"}, "spec": {"parallelism": "three"}}],
        "Job default/j: spec.parallelism is not a whole number",
    ),
}


@pytest.mark.parametrize(("content", "complaint"), BAD_FILES.values(), ids=BAD_FILES)
def test_bad_file_is_one_sentence_and_2(write: Any, capsys: Capture, content: Any, complaint: str) -> None:
    code, out, err = run(capsys, write(content))
    assert (code, out) == (2, "")
    assert complaint in err
    assert err.count("\n") == 1
    assert err.endswith(".\n")


BAD_CONFIGS = {
    "unknown key": (CONFIG + "profils: []", "profils is not known (did you mean profiles?)"),
    "unknown plugin": (CONFIG + "profiles: [{plugins: {enabled: [{name: NodeFit}]}}]", "there is no plugin NodeFit"),
    "wrong argument": (
        CONFIG + "profiles: [{pluginConfig: [{name: InterPodAffinity, args: {hardPodAffinityWeight: 101}}]}]",
        "hardPodAffinityWeight is 101",
    ),
    "not YAML": ("a: [", "not YAML"),
    "something else": ("kind: Pod", "apiVersion is missing"),
}


@pytest.mark.parametrize(("config", "complaint"), BAD_CONFIGS.values(), ids=BAD_CONFIGS)
def test_bad_configuration_is_one_sentence_and_2(write: Any, capsys: Capture, config: str, complaint: str) -> None:
    code, out, err = run(capsys, "--config", write(config, "config.yaml"), write([*CLUSTER, FITS]))
    assert (code, out) == (2, "")
    assert complaint in err
    assert err.count("\n") == 1


def test_missing_files_are_named(write: Any, capsys: Capture) -> None:
    for words in (["/nowhere.yaml"], ["--jsonl", "/nowhere.yaml"], ["--config", "/nowhere.yaml", write(CLUSTER)]):
        code, out, err = run(capsys, *words)
        assert (code, out) == (2, "")
        assert err == "kubenexus simulate: /nowhere.yaml cannot be read: No such file or directory.\n"


def test_no_files_is_2(capsys: Capture) -> None:
    assert run(capsys)[0] == 2


def test_what_a_node_says_badly_is_told_once(write: Any, capsys: Capture) -> None:
    broken = node("broken").capacity(cpu="lots", memory="8Gi").build()
    code, out, err = run(capsys, "-o", "json", write([broken, *CLUSTER, FITS]))
    assert (code, placements(out)) == (0, {"default/fits": "big"})
    assert "node broken: status.allocatable.cpu cannot be read" in err
