"""`kubenexus webhook` as a program on the sandbox: its manners towards good, bad and slow clients; its certificate."""

from __future__ import annotations

import contextlib
import http.client
import json
import resource
import select
import signal
import socket
import ssl
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import IO, Any

import pytest

from kubenexus.common.cli import FAILURE, main
from kubenexus.common.kube.client import Client
from kubenexus.common.kube.resources import NAMESPACES
from kubenexus.common.vocabulary import INJECT
from kubenexus.webhook.app import MAX_BODY
from kubenexus.webhook.certs import Holdings, Step, renewed
from kubenexus.webhook.server import CONNECTIONS
from kubenexus.webhook.tls import REQUEST_SECONDS, Files
from kubenexus.webhook.watching import PATIENCE
from tests import webhooks
from tests.servers import Server
from tests.stub_server import until
from tests.webhooks import Running

Obj = dict[str, Any]
NOW = datetime.now(UTC)


@pytest.fixture(scope="module")
def program(_sandbox_session: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """The program, which serves a namespace `asks` that asked for it."""
    folder = tmp_path_factory.mktemp("webhook")
    with Client.connect(str(_sandbox_session.kubeconfig)) as client:
        client.create(NAMESPACES, {"metadata": {"name": "asks", "labels": {INJECT: "enabled"}}})
        with webhooks.running(_sandbox_session.kubeconfig, folder, *webhooks.flags_for("asks", "none")) as running:
            yield running
        client.delete(NAMESPACES, "asks")


def review(namespace: str = "asks", **pod: Any) -> bytes:
    made = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}, **pod}
    request = {
        "uid": "the-uid",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "operation": "CREATE",
        "namespace": namespace,
        "object": made,
    }
    return json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}).encode()


def test_review_is_answered(program: Running) -> None:
    status, body = program.post("/mutate", review())
    response = json.loads(body)["response"]
    assert (status, response["uid"], response["allowed"], response["patchType"]) == (200, "the-uid", True, "JSONPatch")
    assert program.post("/validate", review())[0] == 200
    metrics = program.fetch("metrics")
    assert 'kubenexus_webhook_reviews_total{end="patched",path="mutate"}' in metrics
    assert 'kubenexus_webhook_reviews_total{end="allowed",path="validate"}' in metrics


def test_health(program: Running) -> None:
    assert program.fetch("readyz") == "[+] certificate\n[+] watches\n[+] secret\nok\n"
    assert program.fetch("healthz") == "[+] watches\n[+] rotation\nok\n"
    lines = program.fetch("metrics").splitlines()
    (left,) = (line.split()[1] for line in lines if line.startswith("kubenexus_webhook_certificate_expiry_seconds "))
    assert 29 < float(left) / 86400 < 30


@pytest.mark.parametrize(
    ("path", "body", "content_type", "status", "sentence"),
    [
        pytest.param(
            "/mutate", b" " * 8 * 2**20, "application/json", 413, "the body is larger than 7340032", id="8 MiB"
        ),
        pytest.param("/mutate", b"{", "application/json", 400, "the body is not JSON", id="half a body"),
        pytest.param("/mutate", b"", "application/json", 400, "the body is not JSON", id="no body"),
        pytest.param("/mutate", b"\xff\xfe", "application/json", 400, "the body is not JSON", id="no UTF-8"),
        pytest.param("/mutate", b"[" * 50_000, "application/json", 400, "the body is not JSON", id="deep nesting"),
        pytest.param("/mutate", b"a=1", "text/plain", 415, "the content type is text/plain", id="another type"),
        pytest.param("/validate", b"{}", "", 415, "send application/json", id="no content type"),
        pytest.param("/nowhere", b"{}", "application/json", 404, "there are /mutate", id="another path"),
        pytest.param("/healthz", b"{}", "application/json", 405, "not allowed", id="another method"),
    ],
)
def test_bad_request(program: Running, path: str, body: bytes, content_type: str, status: int, sentence: str) -> None:
    found, said = program.post(path, body, content_type)
    assert (found, sentence in said.decode()) == (status, True), said


@pytest.mark.parametrize("body", [b"{}", b"[]", b"null", b"7", b'{"request":{"uid":7,"object":[]}}', b'"text"'])
@pytest.mark.parametrize("path", ["/mutate", "/validate"])
def test_any_json_is_admitted(program: Running, path: str, body: bytes) -> None:
    status, said = program.post(path, body)
    response = json.loads(said)["response"]
    assert (status, response["allowed"], response["uid"]) == (200, True, "")


def test_largest_review_is_taken(program: Running) -> None:
    body = review(metadata={"name": "p", "annotations": {"bulk": "x" * (MAX_BODY - 1000)}})
    assert program.post("/mutate", body)[0] == 200


def trusting() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def test_connection_is_kept(program: Running) -> None:
    connection = http.client.HTTPSConnection("127.0.0.1", program.port, timeout=10, context=trusting())
    sockets = set()
    for _ in range(20):
        connection.request("POST", "/mutate", review(), {"Content-Type": "application/json"})
        assert connection.getresponse().read()
        sockets.add(connection.sock)
    assert len(sockets) == 1
    connection.close()


def sent(body: bytes) -> bytes:
    head = b"POST /mutate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    return head % len(body) + body


@pytest.mark.parametrize(
    "pieces",
    [
        pytest.param([sent(review())], id="whole"),
        pytest.param([sent(review())[:99], sent(review())[99:]], id="in two pieces"),
        pytest.param([bytes([byte]) for byte in sent(review())], id="byte by byte"),
        pytest.param([sent(review()) * 3], id="three at once"),
        pytest.param([sent(review(metadata={"name": "p", "annotations": {"x": "x" * 2**17}}))], id="a large one"),
        pytest.param([sent(b"{}").replace(b"Host: x", b"Host: x\r\nX-Odd: 1")], id="a header of others"),
        pytest.param([b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"], id="another page"),
    ],
)
def test_any_request_is_answered_on_a_kept_connection(program: Running, pieces: list[bytes]) -> None:
    with connect(program.port) as connection, connection.makefile("rb") as answers:
        for _ in range(3):
            connection.sendall(sent(review()))
            assert answered(answers) == 200
            for piece in pieces:
                connection.sendall(piece)
            for _ in range(max(1, pieces[0].count(b"POST"))):
                assert answered(answers) == 200


def heard(connection: socket.socket) -> int:
    """The status of the one answer that is due."""
    with connection.makefile("rb") as answers:
        return answered(answers)


def answered(answers: IO[bytes]) -> int:
    """The status of the next answer."""
    status = int(answers.readline().split()[1])
    head = iter(answers.readline, b"\r\n")
    (length,) = (int(line.split(b":")[1]) for line in head if line.lower().startswith(b"content-length:"))
    assert len(answers.read(length)) == length
    return status


def test_a_kept_connection_that_ends_bothers_nobody(program: Running) -> None:
    connection = connect(program.port)
    with connection.makefile("rb") as answers:
        connection.sendall(sent(review()))
        assert answered(answers) == 200
    connection.sendall(sent(review())[:99])
    connection.close()
    assert program.post("/mutate", review())[0] == 200


def test_who_waits_for_an_owner_keeps_nobody_waiting(program: Running) -> None:
    """The owner never comes, so that answer takes its time, and those that were asked for later come earlier."""
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "late", "uid": "u", "controller": True}
    late = sent(review(metadata={"name": "p", "ownerReferences": [owner]}))

    def overtakes() -> bool:
        with connect(program.port) as waiting, connect(program.port) as other:
            for one in (waiting, other):
                one.sendall(sent(review()))
                assert heard(one) == 200
            began = time.monotonic()
            waiting.sendall(late)
            for _ in range(5):  # after the first of these it surely waits
                other.sendall(sent(review()))
                assert heard(other) == 200
            at_once = time.monotonic() - began
            assert heard(waiting) == 200
            assert time.monotonic() - began >= PATIENCE
            return at_once < PATIENCE

    assert sum(overtakes() for _ in range(5)) >= 3, "a busy machine is slow now and then, not mostly"


@pytest.mark.slow
def test_a_client_that_does_not_listen_is_left(program: Running) -> None:
    """Its answers fill all buffers between us; from then on a thread waits, no longer than for any request."""
    deaf = socket.socket()
    deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    deaf.connect(("127.0.0.1", program.port))
    deaf.settimeout(1)
    with trusting().wrap_socket(deaf) as connection:
        long = sent(review().replace(b"the-uid", b"u" * 60_000))
        with pytest.raises(OSError):
            connection.sendall(long * 1000)
        assert program.post("/mutate", review())[0] == 200
        ended = select.poll()
        ended.register(connection, 0)  # the end of a connection is always told
        assert ended.poll(4000 * REQUEST_SECONDS)


def test_old_tls_is_refused(program: Running) -> None:
    context = trusting()
    context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_2
    with connect(program.port, context) as connection:
        assert connection.version() == "TLSv1.2"
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1
    with pytest.raises((ssl.SSLError, ConnectionError)):
        connect(program.port, context)


def plainly(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), 60)


def connect(port: int, context: ssl.SSLContext | None = None) -> ssl.SSLSocket:
    plain = plainly(port)
    try:
        return (context or trusting()).wrap_socket(plain)
    except OSError:
        plain.close()
        raise


# --- Slow clients


HEAD = b"POST /mutate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n"


@pytest.mark.slow
def test_slow_clients_are_shown_the_door(program: Running) -> None:
    """As many as there are threads: half a handshake, half a head, half a body, a drop now and then; and one silent."""
    plain = [plainly(program.port) for _ in range(11)]
    secure = [connect(program.port) for _ in range(6)]
    for one in plain[1:]:
        one.sendall(b"\x16\x03\x01")
    for one, start in zip(secure, [HEAD, HEAD + b"\r\n{"] * 3, strict=True):
        one.sendall(start)
    assert program.post("/mutate", review())[0] == 200
    until(lambda: hung_up(secure[1]), 4 * REQUEST_SECONDS)
    for one in (*plain, *secure):
        assert ends(one)
        one.close()
    assert program.post("/mutate", review())[0] == 200


def test_silent_clients_cost_nothing(program: Running) -> None:
    silent = [plainly(program.port) for _ in range(40)]
    began = time.monotonic()
    assert program.post("/mutate", review())[0] == 200
    assert time.monotonic() - began < REQUEST_SECONDS, "no thread waits for them"
    for one in silent:
        one.close()


@pytest.mark.slow
def test_more_clients_than_there_is_room_for_wait_in_line(program: Running) -> None:
    (worker,) = Path(f"/proc/{program.process.pid}/task/{program.process.pid}/children").read_text().split()
    limits = resource.prlimit(int(worker), resource.RLIMIT_NOFILE)
    resource.prlimit(int(worker), resource.RLIMIT_NOFILE, (CONNECTIONS + 100, limits[1]))
    with contextlib.ExitStack() as silent:
        for _ in range(CONNECTIONS + 100):
            silent.enter_context(plainly(program.port))
        assert program.post("/mutate", review())[0] == 200
    resource.prlimit(int(worker), resource.RLIMIT_NOFILE, limits)


def test_clients_that_hung_up_do_not_make_a_stop_rude(sandbox_server: Server, tmp_path: Path) -> None:
    """Who asks on a kept connection is answered until an answer was called the last."""
    with webhooks.running(sandbox_server.kubeconfig, tmp_path, *webhooks.flags_for("default", "none")) as running:
        for _ in range(20):
            with plainly(running.port) as one:
                one.sendall(b"\x16\x03\x01")
        connection = http.client.HTTPSConnection("127.0.0.1", running.port, timeout=10, context=trusting())

        def is_last() -> bool:
            connection.request("POST", "/mutate", review(), {"Content-Type": "application/json"})
            answer = connection.getresponse()
            return answer.status == 200 and bool(answer.read()) and answer.will_close

        assert not is_last()
        running.process.send_signal(signal.SIGTERM)
        until(is_last, 5)


def hung_up(connection: socket.socket) -> bool:
    """Whether the other side takes no more; a byte goes out with each question."""
    try:
        connection.sendall(b" ")
    except OSError:
        return True
    return False


def ends(connection: socket.socket) -> bool:
    """Waits until the other side hangs up; it may say something before."""
    try:
        while connection.recv(4096):
            pass
    except (ConnectionError, ssl.SSLError):
        return True
    return True


# --- Mounted certificates


def write_pair(folder: Path, made: datetime) -> bytes:
    """A certificate of that time in the folder, as bytes on the wire."""
    held = renewed(Step.BOTH, Holdings(), ("kubenexus-webhook",), made)
    Files.of(folder).write(held.leaf, held.leaf_key)
    return ssl.PEM_cert_to_DER_cert(held.leaf.decode())


def certificate(port: int) -> bytes:
    with connect(port) as connection:
        return connection.getpeercert(binary_form=True) or b""


def test_mounted_certificate_is_followed(sandbox_server: Server, tmp_path: Path) -> None:
    folder = tmp_path / "mounted"
    folder.mkdir()
    first = write_pair(folder, NOW)
    flags = ["--certificates", "mounted", "--certificate-dir", str(folder)]
    with webhooks.running(sandbox_server.kubeconfig, tmp_path, *flags) as running:
        assert certificate(running.port) == first
        second = write_pair(folder, NOW)
        assert certificate(running.port) == second, "no restart, and not even a wait"
        assert running.is_ready()
        expired = write_pair(folder, NOW - timedelta(days=31))
        assert certificate(running.port) == expired
        assert "[-] certificate: the certificate ended at " in running.fetch("readyz")
        Files.of(folder).key.write_bytes(b"junk")
        assert certificate(running.port) == expired, "rather an old one than none"
        assert "is not the one that is served" in running.fetch("readyz")
        write_pair(folder, NOW)
        assert running.is_ready()


# --- What is wrong is said before anything is served


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        pytest.param(["--address", "8443"], "'8443' is not HOST:PORT, such as 0.0.0.0:8443", id="no host"),
        pytest.param(["--address", "x:99999"], "'x:99999' is not HOST:PORT", id="no port"),
        pytest.param(["--address", "192.0.2.1:1"], "choose another --address.", id="an address of others"),
        pytest.param(["--health", "192.0.2.1:1"], "choose another --health.", id="health at an address of others"),
        pytest.param(["--certificates", "mounted"], "say where the files are", id="mounted where"),
        pytest.param(
            ["--certificates", "mounted", "--certificate-dir", "/nowhere"], "mount a TLS Secret.", id="nothing mounted"
        ),
        pytest.param(["--certificate-dir", "/proc"], "choose another --certificate-dir.", id="a folder of others"),
    ],
)
def test_refuses_to_start(
    sandbox_server: Server, flags: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["webhook", "--kubeconfig", str(sandbox_server.kubeconfig), *flags]) == FAILURE
    assert sentence in capsys.readouterr().err


def test_folder_of_its_own_goes_with_it(sandbox_server: Server, tmp_path: Path) -> None:
    pattern = "kubenexus-webhook-*/tls.crt"
    with webhooks.running(sandbox_server.kubeconfig, tmp_path, *webhooks.flags_for("default", "none")) as running:
        assert len(list(tmp_path.glob(pattern))) == 1
        assert running.is_ready()
    assert list(tmp_path.glob("kubenexus-webhook-*")) == []
