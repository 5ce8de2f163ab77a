"""Every value set is accepted by both Helms and gives valid Kubernetes objects, one to a file."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.chart.helm import BOTH, CHART, EVERY_SET, MAJORS, VALUE_SETS, VERSIONS, Helm, get_helm

NO_SCHEMA = {"Certificate", "Issuer", "PodMonitor", "PrometheusRule"}
"""kinds of other projects, which kubernetes-validate does not know"""


@BOTH
@EVERY_SET
def test_lints_without_a_warning(helm: Helm, values: Path) -> None:
    helm.do("lint", "--strict", CHART, "--values", values, "--kube-version", "1.36.0")


@EVERY_SET
def test_both_helms_render_the_same(values: Path) -> None:
    first, second = (sorted(map(str, get_helm(major).objects("--values", values))) for major in MAJORS)
    assert first == second


@pytest.fixture(scope="module")
def rendered(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """A file for each value set. No template looks at the version of Kubernetes, so that one rendering does."""
    folder, helm = tmp_path_factory.mktemp("rendered"), get_helm(3)
    for values in VALUE_SETS:
        (folder / values.name).write_text(helm.template("--values", values))
    return [folder / values.name for values in VALUE_SETS]


def test_no_template_looks_at_the_version_of_kubernetes() -> None:
    assert [path for path in (CHART / "templates").rglob("*.*") if "Capabilities" in path.read_text()] == []


@pytest.mark.parametrize("version", VERSIONS)
def test_objects_are_valid(rendered: list[Path], version: str) -> None:
    program = Path(sys.executable).with_name("kubernetes-validate")
    command = [str(program), "--kubernetes-version", version, "--strict", *map(str, rendered)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = (done.stdout + done.stderr).splitlines()
    told = [line for line in lines if not any(f"kind {kind} " in line for kind in NO_SCHEMA)]
    assert [line for line in told if not line.startswith("INFO")] == []
    assert done.returncode == 0
    assert len(told) > 100, "nothing was looked at"


def test_every_file_renders_one_object(rendered: list[Path]) -> None:
    text = "\n---\n".join(path.read_text() for path in rendered)
    sources: dict[str, set[tuple[str, str]]] = {}
    for document in text.split("\n---\n"):
        obj = yaml.load(document, yaml.CSafeLoader)
        if obj:
            source = next(line for line in document.splitlines() if line.startswith("# Source: "))
            sources.setdefault(source, set()).add((obj["kind"], obj["metadata"]["name"].partition("-")[2]))
    assert len(sources) > 50
    assert {source: found for source, found in sources.items() if len(found) > 1} == {}
