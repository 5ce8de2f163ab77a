"""Every value set is accepted by both Helms and gives valid Kubernetes objects, one to a file."""

from __future__ import annotations

import subprocess
from pathlib import Path

import kubernetes_validate
import pytest
import yaml

from kubenexus.common.vocabulary import SYSTEM_NAMESPACE
from tests.chart.helm import BOTH, CHART, EVERY_SET, MAJORS, ROOT, VALUE_SETS, VERSIONS, Helm, get_helm

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
def rendered() -> list[str]:
    """A text for each value set. No template looks at the version of Kubernetes, so that one rendering does."""
    return [get_helm(3).template("--values", values) for values in VALUE_SETS]


def test_no_template_looks_at_the_version_of_kubernetes() -> None:
    assert [path for path in (CHART / "templates").rglob("*.*") if "Capabilities" in path.read_text()] == []


@pytest.mark.parametrize("version", VERSIONS)
def test_objects_are_valid(rendered: list[str], version: str) -> None:
    different = {document for text in rendered for document in text.split("\n---\n")}
    found = [obj for document in sorted(different) if (obj := yaml.load(document, yaml.CSafeLoader))]
    known = [obj for obj in found if obj["kind"] not in NO_SCHEMA]
    assert len(known) > 80
    for obj in known:
        kubernetes_validate.validate(obj, version, strict=True)


def test_every_file_renders_one_object(rendered: list[str]) -> None:
    text = "\n---\n".join(rendered)
    sources: dict[str, set[tuple[str, str]]] = {}
    for document in text.split("\n---\n"):
        obj = yaml.load(document, yaml.CSafeLoader)
        if obj:
            source = next(line for line in document.splitlines() if line.startswith("# Source: "))
            sources.setdefault(source, set()).add((obj["kind"], obj["metadata"]["name"].partition("-")[2]))
    assert len(sources) > 50
    assert {source: found for source, found in sources.items() if len(found) > 1} == {}


def test_manifests_without_helm_are_the_chart_in_its_namespace(helm: Helm) -> None:
    """`make manifests` and the release write them; hooks are Helm's business."""
    image = ("--set", "image.repository=registry.example/kubenexus")
    done = subprocess.run([ROOT / "hack" / "manifests", *image], capture_output=True, text=True, check=True)
    namespace, *rest = yaml.safe_load_all(done.stdout)
    hooked = [obj for obj in helm.objects(*image) if "helm.sh/hook" in (obj["metadata"].get("annotations") or {})]
    assert (namespace["kind"], namespace["metadata"]["name"]) == ("Namespace", SYSTEM_NAMESPACE)
    assert namespace["metadata"]["labels"] == {"pod-security.kubernetes.io/enforce": "privileged"}
    assert hooked
    assert [obj for obj in rest if obj] == [obj for obj in helm.objects(*image) if obj not in hooked]
