"""The kubelet's PodResources socket, played by a small server that speaks HTTP/2."""

from __future__ import annotations

import contextlib
import json
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import DataReceived, RequestReceived, StreamEnded

from kubenexus.agent import unary
from kubenexus.agent.discovery.nvml import OFF
from kubenexus.agent.machine import Machine, list_pods
from kubenexus.agent.podresources import METHOD, PodResources
from kubenexus.common import cli, logs
from kubenexus.common.kube.resources import NODES
from kubenexus.common.sandbox import Sandbox
from kubenexus.common.sandbox.machine_tree import write_machine
from kubenexus.common.vocabulary import ALLOCATIONS
from kubenexus.common.wire import Given
from tests.agents import SMALL_DGX
from tests.machines import dgx_h100
from tests.protobuf import answer, container, device, pod

GPU = "nvidia.com/gpu"
ONE_POD = answer(pod("web", "ns", container(device(GPU, "GPU-5"), cpus=[0, 1])))


class Kubelet:
    """Answers every connection in turn with `reply`, a whole gRPC message, in pieces as flow control allows."""

    def __init__(self, path: Path) -> None:
        self.reply = ONE_POD
        self.status = "0"
        self.raw: bytes | None = None
        self.silent = False
        self.requests: list[tuple[dict[str, str], bytes]] = []
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.bind(str(path))
        self._socket.listen()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join(5)
        self._socket.close()

    def _serve(self) -> None:
        while True:
            try:
                channel, _ = self._socket.accept()
            except OSError:
                return
            with channel, contextlib.suppress(OSError):
                self._answer(channel)

    def _answer(self, channel: socket.socket) -> None:
        if self.raw is not None:
            channel.recv(1 << 16)
            channel.sendall(self.raw)
            return
        connection = H2Connection(H2Configuration(client_side=False, header_encoding="utf-8"))
        connection.initiate_connection()
        headers: dict[str, str] = {}
        body, left = b"", None
        while data := channel.recv(1 << 16):
            for event in connection.receive_data(data):
                if isinstance(event, RequestReceived):
                    headers = {str(name): str(value) for name, value in event.headers or ()}
                elif isinstance(event, DataReceived):
                    body += event.data or b""
                elif isinstance(event, StreamEnded) and not self.silent:
                    self.requests.append((headers, body))
                    connection.send_headers(1, [(":status", "200"), ("content-type", "application/grpc")])
                    left = struct.pack(">BI", 0, len(self.reply)) + self.reply
            if left is not None:
                left = self._send(connection, left)
            channel.sendall(connection.data_to_send())
            if left == b"":
                return

    def _send(self, connection: H2Connection, left: bytes) -> bytes:
        while left and (window := min(connection.local_flow_control_window(1), connection.max_outbound_frame_size)):
            connection.send_data(1, left[:window])
            left = left[window:]
        if not left:
            connection.send_headers(1, [("grpc-status", self.status), ("grpc-message", "too busy")], end_stream=True)
        return left


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "kubelet.sock"


@pytest.fixture
def kubelet(path: Path) -> Iterator[Kubelet]:
    made = Kubelet(path)
    yield made
    made.stop()


def test_the_list_of_pods(kubelet: Kubelet, path: Path) -> None:
    assert list_pods(path) == [PodResources("ns", "web", (0, 1), ((GPU, "GPU-5"),), ())]
    [(headers, body)] = kubelet.requests
    assert (headers[":method"], headers[":path"], headers["te"]) == ("POST", METHOD, "trailers")
    assert (headers["content-type"], body) == ("application/grpc", b"\0\0\0\0\0")


def test_an_answer_larger_than_any_window(kubelet: Kubelet, path: Path) -> None:
    pods = [pod(f"pod-{number}", "ns", container(cpus=range(100))) for number in range(5000)]
    kubelet.reply = answer(*pods)
    assert len(kubelet.reply) > 500_000
    assert len(list_pods(path)) == 5000


def refuse(kubelet: Kubelet) -> None:
    kubelet.status = "8"


def mumble(kubelet: Kubelet) -> None:
    kubelet.raw = b"\0\0\1\0\0\0\0\0\0x"  # data that belongs to no request


def hang_up(kubelet: Kubelet) -> None:
    kubelet.raw = b""


def flood(kubelet: Kubelet) -> None:
    kubelet.reply = b"x" * 2000


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        pytest.param(refuse, "refused with gRPC status 8: too busy", id="a refusal"),
        pytest.param(mumble, "got no HTTP/2", id="nonsense"),
        pytest.param(hang_up, "was cut off", id="nothing at all"),
        pytest.param(flood, "answered more than", id="too much"),
    ],
)
def test_a_bad_answer_is_an_error_in_words(
    kubelet: Kubelet, path: Path, spoil: Callable[[Kubelet], None], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unary, "MAX_BYTES", 1000)
    spoil(kubelet)
    with pytest.raises(OSError, match=words):
        list_pods(path)


def test_a_silent_kubelet_costs_bounded_time(kubelet: Kubelet, path: Path) -> None:
    kubelet.silent = True
    began = time.monotonic()
    with pytest.raises(TimeoutError):
        unary.call(path, METHOD, b"", 0.2)
    assert time.monotonic() - began < 5


def test_the_machine_tells_allocations_by_uid_and_keeps_them_while_the_kubelet_is_away(
    kubelet: Kubelet, path: Path, tmp_path: Path
) -> None:
    (tmp_path / "var/log/pods/ns_web_uid-1").mkdir(parents=True)
    machine = Machine(tmp_path, lambda: OFF, path)
    expected = {"uid-1": Given((0, 1), (5,), (0, 1))}
    assert machine.allocations(dgx_h100()) == expected
    kubelet.status = "14"
    assert machine.allocations(dgx_h100()) == expected
    kubelet.status, kubelet.reply = "0", b"\x08\x01"
    assert machine.allocations(dgx_h100()) == expected
    kubelet.reply = b""
    assert machine.allocations(dgx_h100()) == {}


def test_without_a_socket_nothing_is_told(tmp_path: Path) -> None:
    assert Machine(tmp_path, lambda: OFF, tmp_path / "none").allocations(dgx_h100()) is None


@pytest.mark.usefixtures("kubelet")
def test_the_agent_publishes_what_the_kubelet_gave(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "configure", lambda *_: None)
    write_machine(SMALL_DGX, tmp_path / "machine")
    words = ["--once", "--root", str(tmp_path / "machine"), "--node-name", "n1", "--pod-resources-socket", str(path)]
    with Sandbox() as box:
        box.registry.create(NODES, None, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}})
        kubeconfig = box.write_kubeconfig(tmp_path / "kubeconfig")
        assert cli.main(["agent", *words, "--kubeconfig", str(kubeconfig)]) == 0
        notes = box.registry.get(NODES, None, "n1")["metadata"]["annotations"]
    assert json.loads(notes[ALLOCATIONS]) == {"ns/web": {"cpus": "0-1", "gpus": [], "numa": [0]}}
