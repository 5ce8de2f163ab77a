"""The sandbox as a server: its protocol, its doors, its tables, and that nothing of it is left afterwards."""

from __future__ import annotations

import http.client
import json
import socket
import ssl
import struct
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kubenexus.common.kube.resources import CONFIG_MAPS, NODES, PODS
from kubenexus.common.sandbox import Sandbox
from tests.stub_server import until

Obj = dict[str, Any]
MAPS = CONFIG_MAPS.path("default")
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"


@pytest.fixture(scope="module")
def box() -> Iterator[Sandbox]:
    with Sandbox() as made:
        yield made


def connect(box: Sandbox) -> http.client.HTTPSConnection:
    context = ssl.create_default_context(cafile=box.ca_file)
    context.verify_flags |= ssl.VERIFY_X509_STRICT  # as Python 3.13 has it by itself
    return http.client.HTTPSConnection("127.0.0.1", int(box.url.rpartition(":")[2]), timeout=10, context=context)


def ask(
    box: Sandbox, method: str, path: str, body: Any = None, **headers: str
) -> tuple[int, Any, http.client.HTTPMessage]:
    """One request; header names are written with underscores."""
    connection = connect(box)
    standing = {"Authorization": f"Bearer {box.token}"}
    given = {name.replace("_", "-").title(): value for name, value in headers.items()}
    try:
        connection.request(method, path, body, standing | given)
        answer = connection.getresponse()
        return answer.status, _parsed(answer.read()), answer.headers
    finally:
        connection.close()


def _parsed(data: bytes) -> Any:
    try:
        return json.loads(data)
    except ValueError:
        return data


def raw(box: Sandbox, data: bytes) -> bytes:
    """Everything the server says to these bytes until it hangs up or falls silent after an answer."""
    context = ssl.create_default_context(cafile=box.ca_file)
    with (
        socket.create_connection(("127.0.0.1", int(box.url.rpartition(":")[2])), timeout=10) as plain,
        context.wrap_socket(plain, server_hostname="127.0.0.1", suppress_ragged_eofs=True) as secured,
    ):
        secured.sendall(data)
        answer = b""
        while more := secured.recv(65536):
            answer += more
        return answer


def test_it_starts_in_half_a_second_and_leaves_nothing_behind() -> None:
    threads = set(threading.enumerate())
    begun = time.thread_time()  # what it costs, however busy the machine is
    box = Sandbox(controllers=True).start()
    assert time.thread_time() - begun < 0.5
    folder = Path(box.ca_file).parent
    watching = connect(box)
    watching.request("GET", f"{MAPS}?watch=true", headers={"Authorization": f"Bearer {box.token}"})
    answer = watching.getresponse()
    until(lambda: box.faults.open_watches == 1)
    box.stop()
    answer.close()
    watching.close()
    assert set(threading.enumerate()) == threads
    assert not folder.exists()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", int(box.url.rpartition(":")[2])), timeout=1)


@pytest.mark.parametrize("header", ["", "Bearer wrong", "Basic abc", "Bearer"], ids=["none", "wrong", "basic", "empty"])
def test_strangers_stay_outside(box: Sandbox, header: str) -> None:
    status, body, _ = ask(box, "GET", MAPS, authorization=header)
    assert (status, body["reason"]) == (401, "Unauthorized")


def test_health_and_version_are_for_everybody(box: Sandbox) -> None:
    assert ask(box, "GET", "/readyz", authorization="")[:2] == (200, b"ok")
    assert ask(box, "GET", "/version", authorization="")[1]["gitVersion"] == "v1.36.4+kubenexus-sandbox"


def test_a_minted_token_is_a_user_of_its_own(box: Sandbox) -> None:
    token = box.tokens.mint("ann", "team-a")
    assert ask(box, "GET", MAPS, authorization=f"Bearer {token}")[0] == 200


@pytest.mark.parametrize(
    ("method", "path", "headers", "body", "status"),
    [
        ("GET", "/nonsense", {}, None, 404),
        ("GET", "/api/v1/gadgets", {}, None, 404),
        ("GET", "/api/v1/namespaces/default/nodes", {}, None, 404),
        ("GET", f"{MAPS}/a/status", {}, None, 404),
        ("PUT", MAPS, {}, b"{}", 405),
        ("POST", f"{MAPS}/a", {}, b"{}", 405),
        ("POST", CONFIG_MAPS.path(), {}, b"{}", 405),
        ("GET", "/api/v1/namespaces/default/pods/a/binding", {}, None, 405),
        ("GET", MAPS, {"accept": "application/vnd.kubernetes.protobuf"}, None, 406),
        ("POST", MAPS, {"content_type": "application/vnd.kubernetes.protobuf"}, b"k8s\x00", 415),
        ("PATCH", f"{MAPS}/a", {"content_type": "application/json"}, b"{}", 415),
        ("POST", MAPS, {}, b"{not json", 400),
        ("POST", MAPS, {}, b"", 400),
        ("POST", MAPS, {}, b"[]", 400),
    ],
)
def test_refusals_say_what_is_wrong(
    box: Sandbox, method: str, path: str, headers: dict[str, str], body: bytes | None, status: int
) -> None:
    code, answer, _ = ask(box, method, path, body, **headers)
    assert (code, answer["kind"], answer["code"]) == (status, "Status", status)


def test_bodies_may_come_in_chunks_and_as_yaml(box: Sandbox) -> None:
    chunks = [b"metadata: {name: chunked}\n", b"data: {date: 2026-01-01}\n"]
    connection = connect(box)
    headers = {"Authorization": f"Bearer {box.token}", "Content-Type": "application/yaml"}
    connection.request("POST", MAPS, iter(chunks), headers)
    made = json.load(connection.getresponse())
    connection.close()
    assert made["data"] == {"date": "2026-01-01"}


def test_one_connection_serves_many_requests(box: Sandbox) -> None:
    request = f"GET {{}} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {box.token}\r\n{{}}\r\n"
    both = request.format("/version", "") + request.format("/readyz", "Connection: close\r\n")
    assert raw(box, both.encode()).count(b"HTTP/1.1 200 OK") == 2


@pytest.mark.parametrize(
    "data",
    [b"\r\n\r\n", b"GET\r\n\r\n", b"POST / HTTP/1.1\r\nContent-Length: x\r\n\r\n", b"x" * 70_000],
    ids=["nothing", "half a line", "no length", "endless head"],
)
def test_who_does_not_speak_http_is_hung_up_on(box: Sandbox, data: bytes) -> None:
    assert raw(box, data) == b""
    assert ask(box, "GET", "/readyz")[0] == 200


def test_warnings_travel_as_headers(box: Sandbox) -> None:
    body = json.dumps({"metadata": {"name": "warned"}, "colour": "red"}).encode()
    _, _, headers = ask(box, "POST", MAPS, body)
    assert headers["Warning"] == '299 - "unknown field \\"colour\\""'


def test_a_table_reads_as_usual(box: Sandbox) -> None:
    registry = box.registry
    registry.create(NODES, None, {"metadata": {"name": "n1"}, "spec": {"unschedulable": True}})
    spec = {"nodeName": "n1", "containers": [{"name": "main", "image": "x"}]}
    registry.create(PODS, "default", {"metadata": {"name": "p"}, "spec": spec})
    status = {"phase": "Running", "podIP": "10.0.0.1", "containerStatuses": [{"name": "main", "ready": True}]}
    registry.patch(PODS, "default", "p", {"status": status}, subresource="status", type="merge")
    rows = ask(box, "GET", PODS.path("default"), accept=TABLE)[1]
    cells = dict(zip((column["name"] for column in rows["columnDefinitions"]), rows["rows"][0]["cells"], strict=True))
    wanted = {"Name": "p", "Ready": "1/1", "Status": "Running", "Restarts": "0", "IP": "10.0.0.1", "Node": "n1"}
    assert wanted.items() <= cells.items()
    node = ask(box, "GET", NODES.path(name="n1"), accept=TABLE)[1]["rows"][0]["cells"]
    assert node[:3] == ["n1", "Unknown,SchedulingDisabled", "<none>"]


def test_every_kind_has_a_table_and_a_place_in_discovery(box: Sandbox) -> None:
    for kind in box.registry.catalogue:
        table = ask(box, "GET", kind.resource.path(), accept=TABLE)[1]
        assert table["kind"] == "Table"
        assert all(len(row["cells"]) == len(table["columnDefinitions"]) for row in table["rows"])
        listed = ask(box, "GET", kind.resource.base_path)[1]["resources"]
        assert kind.resource.plural in [entry["name"] for entry in listed]


def test_the_kubeconfig_is_private_and_says_what_it_is_for(box: Sandbox, tmp_path: Path) -> None:
    file = box.write_kubeconfig(tmp_path / "kubeconfig")
    assert file.stat().st_mode & 0o077 == 0
    assert "not for production" in file.read_text()


def test_clients_that_hang_up_at_once_disturb_nobody(box: Sandbox) -> None:
    at_once = struct.pack("ii", 1, 0)
    for _ in range(50):
        with socket.create_connection(("127.0.0.1", int(box.url.rpartition(":")[2]))) as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, at_once)
    assert ask(box, "GET", MAPS)[0] == 200
