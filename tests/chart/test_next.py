"""What people do after an installation: `helm test`, and what the notes tell them."""

from __future__ import annotations

import argparse
import re

import pytest

from kubenexus.common import doctor
from kubenexus.common.vocabulary import SYSTEM_NAMESPACE as SPACE
from tests.chart.helm import CHART, Helm, of_kind, pod_templates
from tests.contract.objects import rows

DOCTOR = [
    ("all of it", [], [], None, True),
    ("no agents", ["agent.enabled=false"], ["nodes"], None, True),
    ("no scheduler", ["scheduler.enabled=false"], ["scheduler"], None, True),
    ("webhook only", ["agent.enabled=false", "scheduler.enabled=false"], ["nodes", "scheduler"], None, True),
    ("no webhook", ["webhook.enabled=false"], [], None, False),
    ("nothing on nodes that can be seen there", ["agent.publish={slices}"], ["nodes"], None, True),
    ("an annotation on nodes", ["agent.publish={annotation}"], [], None, True),
    (
        "agents on some nodes",
        ["agent.nodeSelector.pool=work", "agent.nodeSelector.gpu=true"],
        [],
        "gpu=true,pool=work",
        True,
    ),
]


@pytest.mark.parametrize(("settings", "skipped", "labels", "tried"), rows(DOCTOR))
def test_helm_test_looks_at_what_is_installed(
    helm: Helm, settings: list[str], skipped: list[str], labels: str | None, tried: bool
) -> None:
    rendered = helm.objects(*(word for setting in settings for word in ("--set", setting)))
    _, *words = pod_templates(rendered)["Pod/kubenexus-test"]["containers"][0]["args"]
    parser = argparse.ArgumentParser()
    doctor.configure(parser)
    args = parser.parse_args(words)
    assert ([*args.skip], args.nodes_with, args.try_in is not None) == (skipped, labels, tried)


def test_helm_test_has_a_namespace_that_nobody_else_would_make(helm: Helm) -> None:
    """Helm deletes what it finds under the name of a hook, and with a namespace all that is in it."""
    names = [one["metadata"]["name"] for name in ("a", "b") for one in of_kind(helm.objects(release=name), "Namespace")]
    assert all(re.fullmatch(r"[ab]-kubenexus-test-[0-9a-f]{8}", name) for name in names), names
    rendered = helm.objects(release="a")
    [args] = [pod["containers"][0]["args"] for name, pod in pod_templates(rendered).items() if name.startswith("Pod/")]
    assert f"--try-in={names[0]}" in args
    inside = [one["kind"] for one in rendered if one["metadata"].get("namespace") == names[0]]
    assert sorted(inside) == ["Role", "RoleBinding"]


NOTES = [
    ("all of it", [], ["what the agents found", "kubectl label namespace", "localhost/kubenexus"], ["schedulerName:"]),
    ("an image", ["image.repository=registry.example/kubenexus"], ["kubectl label namespace"], ["localhost"]),
    ("no webhook", ["webhook.enabled=false"], ["schedulerName: kubenexus-scheduler"], ["kubectl label namespace"]),
    ("no scheduler", ["scheduler.enabled=false"], ["they wait until one of"], ["The webhook is off"]),
    (
        "agents only",
        ["scheduler.enabled=false", "webhook.enabled=false"],
        ["what the agents found"],
        ["kubectl label namespace", "schedulerName:", "they wait"],
    ),
    ("no agents", ["agent.enabled=false"], ["See that all is well:"], ["kubectl get nodes", "count as GPU nodes"]),
]


@pytest.mark.parametrize("helm", [4], indirect=True, ids=["helm 4"])
@pytest.mark.parametrize(("settings", "said", "unsaid"), rows(NOTES))
def test_notes_say_what_to_do_next(helm: Helm, settings: list[str], said: list[str], unsaid: list[str]) -> None:
    words = [word for setting in settings for word in ("--set", setting)]
    shown = helm.do("install", "kubenexus", CHART, "--namespace", SPACE, "--dry-run=client", *words)
    notes = shown.partition("\nNOTES:\n")[2]
    assert [text for text in said if text not in notes] == []
    assert [text for text in unsaid if text in notes] == []
