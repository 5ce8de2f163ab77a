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
    ("a port that is none", ["webhook.port=70000"], r"webhook.port'?: .*65,?535"),
    ("a group that is taken away", ["agent.gpu=null"], r"agent'?: .*gpu"),
    ("a value that is taken away", ["agent.interval=null"], r"agent'?: .*interval"),
]
CERTIFICATES = "webhook.certificates"
EXISTING = [f"{CERTIFICATES}.mode=existingSecret", f"{CERTIFICATES}.secretName=tls"]
FIRST, SECOND = "scheduler.profiles[0]", "scheduler.profiles[1]"
KUBELET = "agent.kubeletConfig"
REFUSED = [
    ("an unknown key inside", ["webhook.certificate.mode=selfManaged"], r"certificate'? (is )?not allowed"),
    (
        "nothing to install",
        ["agent.enabled=false", "scheduler.enabled=false", "webhook.enabled=false"],
        "switch one on",
    ),
    # Certificates
    ("a Secret without its authority", EXISTING, "give its authority in base64"),
    ("an authority as it is", [*EXISTING, f"{CERTIFICATES}.caBundle=-----BEGIN CERTIFICATE-----"], "base64 -w0 ca.crt"),
    ("an authority that is none", [*EXISTING, f"{CERTIFICATES}.caBundle=bm9uZQ=="], "base64 -w0 ca.crt"),
    ("a Secret that nobody would use", [f"{CERTIFICATES}.secretName=tls"], "leave them out or change the mode"),
    ("an issuer that nobody would ask", [f"{CERTIFICATES}.issuerRef.name=ca"], "leave it out or change the mode"),
    (
        "no issuer",
        [f"{CERTIFICATES}.mode=certManager", f"{CERTIFICATES}.issuerRef.kind=ClusterIssuer"],
        "give its name",
    ),
    # Replicas and ports
    ("no webhook", ["webhook.replicas=0"], "webhook.replicas is 0, so nobody would do its work: set it to 1"),
    ("fewer than none", ["scheduler.replicas=-1"], "scheduler.replicas is -1, so nobody would do its work"),
    ("two servers on one port", ["webhook.port=9000", "webhook.metricsPort=9000"], "are both 9000: choose two ports"),
    ("a negative port", ["agent.metricsPort=-1"], r"agent.metricsPort: .* 1024"),
    ("a port for root", ["scheduler.metricsPort=443"], r"scheduler.metricsPort: .* 1024"),
    ("no port of a Service", ["webhook.servicePort=0"], r"webhook.servicePort: .* 1"),
    ("a port that is a word", ["webhook.port=https"], r"webhook.port: .*integer"),
    ("no port of the API server", ["networkPolicy.apiServerPorts=null"], "apiServerPorts"),
    ("a negative one", ["networkPolicy.apiServerPorts={-1}"], r"apiServerPorts.0: .* 1"),
    ("an empty list of its ports", ["networkPolicy.apiServerPorts={}"], "apiServerPorts"),
    # Numbers
    ("no time between scans", ["agent.interval=0"], r"agent.interval: .* 1"),
    ("no bind at a time", ["scheduler.bindThreads=0"], r"scheduler.bindThreads: .* 1"),
    ("too many binds at a time", ["scheduler.bindThreads=300"], r"scheduler.bindThreads: .* 256"),
    ("a quota that lets nobody in", ["resourceQuota.pods=0"], r"resourceQuota.pods: .* 1"),
    ("agents that are never replaced", ["agent.maxUnavailable=0"], "agent.maxUnavailable is 0, so that no agent"),
    ("a share that is none", ["agent.maxUnavailable=ten"], "a number such as 1 or a share such as 10%"),
    # Profiles
    ("no profile", ["scheduler.profiles=null"], "give at least one profile"),
    ("a profile without a name", [f"{FIRST}.plugins.x=1"], "no schedulerName"),
    ("a profile with a number for its name", [f"{FIRST}.schedulerName=1"], "choose a name of letters"),
    ("a profile with a name that events cannot have", [f"{FIRST}.schedulerName=a b"], "choose a name of letters"),
    (
        "a profile with a key that nobody reads",
        [f"{FIRST}.schedulerName=a", f"{FIRST}.plugin=x"],
        "has plugin, which is",
    ),
    ("two profiles of one name", [f"{FIRST}.schedulerName=a", f"{SECOND}.schedulerName=a"], "two of them are called a"),
    ("the cluster's own scheduler", [f"{FIRST}.schedulerName=default-scheduler"], "choose another"),
    # Names and paths
    ("a part that the agent does not have", ["agent.publish[0]=all"], "use some of labels, annotation, slices"),
    ("no part at all", ["agent.publish=null"], "publish"),
    ("a name that no Service may have", ["fullnameOverride=Big_One"], "'Big_One', which no Service may be called"),
    ("no name at all", ["fullnameOverride=-"], "'', which no Service may be called"),
    ("no image", ["image.repository="], "image.repository is empty"),
    (
        "an image with its tag",
        ["image.repository=localhost:5000/kubenexus:1"],
        "put what follows the name into image.tag",
    ),
    ("a tag that is none", ["image.tag=a/b"], "image.tag is 'a/b', which is no tag"),
    ("a digest that is none", ["image.digest=sha256:0"], "image.digest is 'sha256:0', which is no digest"),
    ("no label of GPU nodes", ["agent.gpu.nodeLabel.key="], "agent.gpu.nodeLabel.key is empty"),
    ("a driver nowhere", ["agent.gpu.access=hostDriver", "agent.gpu.driverRoot=run"], "driverRoot is 'run'"),
    (
        "a kubelet nowhere",
        ["agent.podResources=true", "agent.kubeletRoot="],
        "agent.kubeletRoot is '', which is no path",
    ),
    (
        "a kubelet's file nowhere",
        [f"{KUBELET}.enabled=true", f"{KUBELET}.file=x"],
        "file is 'x', which is no path of a host",
    ),
    (
        "its folder nowhere",
        [f"{KUBELET}.enabled=true", f"{KUBELET}.dropIns=x"],
        "dropIns is 'x', which is no path of a",
    ),
    (
        "a folder that nobody reads",
        [f"{KUBELET}.dropIns=/etc/x"],
        "set agent.kubeletConfig.enabled, too, or leave it out",
    ),
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
@pytest.mark.parametrize("namespace", ["kube-system", "kube-node-lease", "kube-public", "default"])
def test_namespaces_of_others_are_refused(helm: Helm, namespace: str) -> None:
    """The cluster's, and the one that work is done in: the webhook leaves its own namespace alone."""
    done = helm.run("template", "kubenexus", CHART, "--namespace", namespace, "--kube-version", "1.36.0")
    assert done.returncode == 1
    assert f"does not go into {namespace}," in done.stderr
    assert "--namespace kubenexus-system --create-namespace." in done.stderr


@pytest.mark.parametrize("release", ["1st-kubenexus", "kubenexus.v1"])
def test_a_release_after_which_no_service_can_be_called_is_refused(helm: Helm, release: str) -> None:
    done = helm.run("template", release, CHART, *INTO)
    assert f"'{release}', which no Service may be called" in done.stderr
    helm.template("--set", "fullnameOverride=kubenexus", release=release)


def test_old_kubernetes_is_refused(helm: Helm) -> None:
    done = helm.run("template", "kubenexus", CHART, "--kube-version", "1.33.9")
    assert ">=1.34.0" in done.stderr


@pytest.mark.parametrize("component", ["scheduler", "webhook"])
def test_no_replicas_are_fine_where_a_component_is_off(helm: Helm, component: str) -> None:
    helm.template("--set", f"{component}.replicas=0", "--set", f"{component}.enabled=false")


AGENTS_ONLY = ["scheduler.enabled=false", "webhook.enabled=false"]
ACCEPTED = [
    ("a registry with a port", ["image.repository=localhost:5000/kubenexus"]),
    ("agents for somebody else's scheduler, without profiles", [*AGENTS_ONLY, "scheduler.profiles=null"]),
    ("GPU nodes whose usual runtime injects the driver", ["agent.gpu.runtimeClassName="]),
    ("all agents at once", ["agent.maxUnavailable=100%"]),
    ("values of an umbrella chart", ["global.registry=registry.example"]),
]


@pytest.mark.parametrize("settings", rows(ACCEPTED))
def test_what_makes_sense_is_accepted(helm: Helm, settings: list[str]) -> None:
    helm.template(*(word for setting in settings for word in ("--set", setting)))


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
