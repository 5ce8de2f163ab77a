"""Values: all of them described, unknown and contradictory ones refused with a sentence."""

from __future__ import annotations

import re

import pytest
import yaml

from hack.chart_pages import leaves, read
from tests.chart.helm import BOTH, CHART, INTO, Helm
from tests.contract.objects import rows

REFUSED_BY_BOTH = [
    ("an unknown key", ["agnt=1"], r"agnt'? (is )?not allowed"),
    ("a word that is none of those allowed", ["agent.gpu.access=magic"], "runtimeClass"),
    ("a webhook without certificates", ["webhook.certificates.mode=null"], "set it to selfManaged, certManager or"),
    ("no scheduler", ["scheduler.replicas=0"], "scheduler.replicas is 0, so nobody would do its work: set it to 1"),
]
REFUSED = [
    ("an unknown key inside", ["webhook.certificate.mode=selfManaged"], r"certificate'? (is )?not allowed"),
    (
        "a Secret without its authority",
        ["webhook.certificates.mode=existingSecret", "webhook.certificates.secretName=tls"],
        "give its authority in base64",
    ),
    ("a Secret that nobody would use", ["webhook.certificates.secretName=tls"], "leave them out or change the mode"),
    ("no webhook", ["webhook.replicas=0"], "webhook.replicas is 0, so nobody would do its work: set it to 1"),
    ("two servers on one port", ["webhook.port=9000", "webhook.metricsPort=9000"], "are both 9000: choose two ports"),
    ("no profile", ["scheduler.profiles=null"], "give at least one profile"),
    ("a profile without a name", ["scheduler.profiles[0].plugins.x=1"], "no schedulerName"),
    ("the cluster's own scheduler", ["scheduler.profiles[0].schedulerName=default-scheduler"], "choose another"),
    ("a part that the agent does not have", ["agent.publish[0]=everything"], "use some of labels, annotation, slices"),
]


@BOTH
@pytest.mark.parametrize(("settings", "sentence"), rows(REFUSED_BY_BOTH))
def test_both_helms_refuse(helm: Helm, settings: list[str], sentence: str) -> None:
    words = [word for setting in settings for word in ("--set", setting)]
    done = helm.run("template", "kubenexus", CHART, *INTO, *words)
    assert (done.returncode, done.stdout) == (1, "")
    assert re.search(sentence, done.stderr), done.stderr


@pytest.mark.parametrize(("settings", "sentence"), rows(REFUSED))
def test_what_makes_no_sense_is_refused(helm: Helm, settings: list[str], sentence: str) -> None:
    test_both_helms_refuse(helm, settings, sentence)


@BOTH
def test_kube_system_is_refused(helm: Helm) -> None:
    done = helm.run("template", "kubenexus", CHART, "--namespace", "kube-system", "--kube-version", "1.36.0")
    assert done.returncode == 1
    assert "does not go into kube-system" in done.stderr
    assert "--namespace kubenexus-system --create-namespace." in done.stderr


def test_old_kubernetes_is_refused(helm: Helm) -> None:
    done = helm.run("template", "kubenexus", CHART, "--kube-version", "1.33.9")
    assert ">=1.34.0" in done.stderr


@pytest.mark.parametrize("component", ["scheduler", "webhook"])
def test_no_replicas_are_fine_where_a_component_is_off(helm: Helm, component: str) -> None:
    helm.template("--set", f"{component}.replicas=0", "--set", f"{component}.enabled=false")


def test_every_value_is_described() -> None:
    text = (CHART / "values.yaml").read_text(encoding="utf-8")
    found = dict(leaves(read(text)))
    assert [path for path, value in found.items() if not value.about] == []
    assert len(found) > 50
    assert {path.partition(".")[0] for path in found} == set(yaml.safe_load(text))


def test_marks_narrow_and_widen_the_schema() -> None:
    text = "# @one-of a, b\n# Which\nx: a\ny:\n  # @free\n  # Any\n  z: {k: 1}\n  # @also integer\n  # Both\n  w: 1%\n"
    choice, group = read(text)
    assert (choice.about, choice.marks, choice.kind) == ("Which", {"one-of": "a, b"}, "string")
    assert [path for path, _ in leaves([group])] == ["y.z", "y.w"]
    assert group.parts[0].default == {"k": 1}
