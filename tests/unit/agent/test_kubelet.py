"""The kubelet's settings from its files: defaults, drop-ins, what cannot be read, and what becomes of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kubenexus.agent.discovery.nvml import OFF
from kubenexus.agent.kubelet import CONFIG, UnreadableError, read_settings
from kubenexus.agent.machine import Machine
from kubenexus.common.wire import UNTOLD, KubeletSettings
from kubenexus.common.wire.kubelet import CpuPolicy, MemoryPolicy, TopologyPolicy, TopologyScope

HEAD = "kind: KubeletConfiguration\napiVersion: kubelet.config.k8s.io/v1beta1\n"
DEFAULTS = KubeletSettings(TopologyPolicy.NONE, TopologyScope.CONTAINER, CpuPolicy.NONE, MemoryPolicy.NONE)
STRICT = f"""{HEAD}
topologyManagerPolicy: single-numa-node
topologyManagerScope: pod
cpuManagerPolicy: static
memoryManagerPolicy: Static
topologyManagerPolicyOptions:
  prefer-closest-numa-nodes: "true"
  max-allowable-numa-nodes: "16"
cpuManagerPolicyOptions:
  full-pcpus-only: "false"
reservedSystemCPUs: 0-1
"""
SINGLE = TopologyPolicy.SINGLE_NUMA_NODE
CLOSEST = frozenset(("prefer-closest-numa-nodes",))
ALL = KubeletSettings(SINGLE, TopologyScope.POD, CpuPolicy.STATIC, MemoryPolicy.STATIC, CLOSEST, (0, 1))


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        pytest.param([HEAD], DEFAULTS, id="what is not set has its default"),
        pytest.param([HEAD + "topologyManagerPolicy: ''\n"], DEFAULTS, id="empty is not set"),
        pytest.param(
            [STRICT],
            ALL,
            id="everything",
        ),
        pytest.param(
            [json.dumps({"kind": "KubeletConfiguration", "cpuManagerPolicy": "static"})],
            DEFAULTS._replace(cpu=CpuPolicy.STATIC),
            id="JSON",
        ),
        pytest.param(
            [STRICT, HEAD + "topologyManagerPolicy: restricted\n", HEAD + "cpuManagerPolicy: none\n"],
            ALL._replace(policy=TopologyPolicy.RESTRICTED, cpu=CpuPolicy.NONE),
            id="drop-ins replace words",
        ),
        pytest.param(
            [
                STRICT,
                HEAD + "cpuManagerPolicyOptions: {full-pcpus-only: 'true'}\ntopologyManagerPolicyOptions: {a: b}\n",
            ],
            ALL._replace(options=CLOSEST | {"full-pcpus-only"}),
            id="and add to maps",
        ),
    ],
)
def test_settings(texts: list[str], expected: KubeletSettings) -> None:
    assert read_settings((f"file {number}", text) for number, text in enumerate(texts)) == expected


@pytest.mark.parametrize(
    ("text", "why"),
    [
        pytest.param("a: [", "config.yaml is neither YAML nor JSON", id="broken"),
        pytest.param("", "config.yaml is no KubeletConfiguration", id="empty"),
        pytest.param("kind: Pod", "config.yaml is no KubeletConfiguration", id="something else"),
        pytest.param(
            HEAD + "topologyManagerPolicy: lax", "topologyManagerPolicy is 'lax', which is none of", id="word"
        ),
        pytest.param(HEAD + "reservedSystemCPUs: some", "reservedSystemCPUs is not a list of CPUs", id="CPUs"),
        pytest.param(HEAD + "cpuManagerPolicy: [a]", "cpuManagerPolicy is \"['a']\"", id="no word at all"),
    ],
)
def test_what_cannot_be_read_is_unknown(text: str, why: str) -> None:
    with pytest.raises(UnreadableError) as found:
        read_settings([("config.yaml", text)])
    assert why in str(found.value)


def machine(root: Path, config: Path | None = None, drop_ins: Path | None = None) -> Machine:
    return Machine(root, lambda: OFF, root / "no.sock", config, drop_ins)


def written(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def test_a_machine_without_the_file_says_nothing(tmp_path: Path) -> None:
    assert machine(tmp_path).kubelet() == (UNTOLD, "")


def test_the_usual_file_and_its_drop_ins(tmp_path: Path) -> None:
    written(tmp_path / CONFIG, HEAD)
    folder = tmp_path / "kubelet.conf.d"
    for name, policy in (("20-b.conf", "restricted"), ("10-a.conf", "best-effort"), ("30-c.yaml", "none")):
        written(folder / name, f"{HEAD}topologyManagerPolicy: {policy}\n")
    expected = DEFAULTS._replace(policy=TopologyPolicy.RESTRICTED)
    assert machine(tmp_path, drop_ins=folder).kubelet() == (expected, "")


def test_a_file_that_is_named_has_to_be_there(tmp_path: Path) -> None:
    settings, why = machine(tmp_path, config=tmp_path / "other.json").kubelet()
    assert settings == UNTOLD
    assert "No such file" in why


def test_a_folder_that_is_named_has_to_be_there(tmp_path: Path) -> None:
    written(tmp_path / CONFIG, STRICT)
    settings, why = machine(tmp_path, drop_ins=tmp_path / "gone").kubelet()
    assert settings == UNTOLD
    assert "there is no folder" in why


def test_a_look_tells_the_settings_or_why_they_are_unknown(tmp_path: Path) -> None:
    file = written(tmp_path / CONFIG, STRICT)
    (tmp_path / "sys").mkdir()
    look = machine(tmp_path).look()
    assert look.kubelet.policy is SINGLE
    file.write_text("kind: Pod", encoding="utf-8")
    look = machine(tmp_path).look()
    assert look.kubelet == UNTOLD
    assert look.topology.unknowns["kubelet"] == "config.yaml is no KubeletConfiguration"
