"""Stand-ins for kubelets, as far as no cluster is needed; the tests of the chart and of the install page run them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from hack.control_plane.processes import free_port
from hack.kubelet import cli
from hack.kubelet.containers import Kubelet, MountError, Ports
from hack.kubelet.play import is_ours
from kubenexus.common.kube.client import Client
from kubenexus.common.sandbox import Sandbox


def test_there_must_be_a_control_plane(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    missing = tmp_path / "kubeconfig"
    assert cli.main(["--kubeconfig", str(missing)]) == 1
    assert capsys.readouterr().err == f"There is no {missing}; start one with hack/control-plane up.\n"


def test_a_port_belongs_to_its_process_before_that_listens() -> None:
    ports, port = Ports(), free_port()
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as silent:
        assert ports.pick(port) == port
        ports.give([port], silent)
        assert ports.pick(port) != port
    assert ports.pick(port) == port


def test_a_pod_waits_for_what_the_host_lacks(tmp_path: Path) -> None:
    volumes = [{"name": "driver", "hostPath": {"path": "/proc/driver", "type": "Directory"}}]
    mounting = {"name": "agent", "args": [], "volumeMounts": [{"name": "driver", "mountPath": "/driver"}]}
    pod = {"metadata": {"name": "agent"}, "spec": {"containers": [mounting], "volumes": volumes}}
    with Sandbox() as box:
        box.write_kubeconfig(tmp_path / "kubeconfig")
        with Client.connect(str(tmp_path / "kubeconfig")) as client:
            kubelet = Kubelet(client, tmp_path / "kubeconfig", "n1", tmp_path / "host", tmp_path)
            with pytest.raises(MountError, match="/proc/driver of the host is not what the pod wants"):
                kubelet.start(pod)


@pytest.mark.parametrize(
    ("images", "ours"),
    [
        (["registry.example/kubenexus:0.1.0"], True),
        (["localhost/kubenexus:0.1.0"], True),
        (["busybox:1.37"], False),
        (["registry.example/kubenexus:0.1.0", "registry.example/proxy:1"], False),
    ],
)
def test_pods_of_the_chart_are_known_by_their_image(images: list[str], ours: bool) -> None:
    assert is_ours({"spec": {"containers": [{"image": image} for image in images]}}) is ours
