"""An HTTP server that misbehaves to order: each request is answered by the next function of its script.

For what a well-behaved API server does not do: odd answers, half answers, silence, a cut at the worst moment.
"""

from __future__ import annotations

import json
import socket
import ssl
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec


class Seen(NamedTuple):
    """A request as it arrived."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: Any


class Handler(BaseHTTPRequestHandler):
    """Passes to each function of a script, which answers with one of the methods below."""

    protocol_version = "HTTP/1.1"
    server: StubServer

    def do_GET(self) -> None:
        data = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        url = urlsplit(self.path)
        query = {key: values[0] for key, values in parse_qs(url.query).items()}
        headers = {key.lower(): value for key, value in self.headers.items()}
        self.server.seen.append(Seen(self.command, url.path, query, headers, json.loads(data) if data else None))
        script = self.server.script
        (script.popleft() if len(script) > 1 else script[0])(self)

    do_POST = do_PUT = do_PATCH = do_DELETE = do_GET  # noqa: N815

    def reply(self, code: int, body: Any, **headers: str) -> None:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(code)
        for key, value in {"Content_Type": "application/json", "Content_Length": str(len(data)), **headers}.items():
            self.send_header(key.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(data)

    def chunks(self, parts: Iterable[bytes], then: Callable[[], None] | None = None, code: int = 200) -> None:
        """A chunked answer, and what follows its last part: `self.end` (the default), `self.cut` or `self.hang`."""
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for part in parts:
            self.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))
        (then or self.end)()

    def end(self) -> None:
        self.wfile.write(b"0\r\n\r\n")

    def cut(self) -> None:
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)

    def hang(self) -> None:
        """No answer until the server stops."""
        self.close_connection = True
        self.server.stopping.wait(30)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Quiet."""


Script = Callable[[Handler], None]


class StubServer(ThreadingHTTPServer):
    """Listens on loopback, with TLS if it is given a context. `seen` holds the requests in order of arrival."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, script: Iterable[Script], tls: ssl.SSLContext | None = None) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.script = deque(script)
        self.seen: list[Seen] = []
        self.stopping = threading.Event()
        self.url = f"{'https' if tls else 'http'}://127.0.0.1:{self.server_address[1]}"
        if tls:
            self.socket = tls.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Cuts are what this server is for."""


@contextmanager
def serving(*script: Script, tls: ssl.SSLContext | None = None) -> Iterator[StubServer]:
    """A stub server with this script; its last function answers all further requests."""
    server = StubServer(script, tls)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.stopping.set()
        server.shutdown()
        server.server_close()
        thread.join()


def until(condition: Callable[[], object], timeout: float = 10.0) -> None:
    """Wait for a condition, with a deadline."""
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, "what was waited for did not happen in time"
        time.sleep(0.005)


@dataclass(frozen=True)
class Pki:
    """Files of a throw-away certificate authority, a server certificate for 127.0.0.1 and a client certificate."""

    ca: Path
    server: Path
    client: Path
    client_key: Path

    def context(self, *, verify_client: bool = False) -> ssl.SSLContext:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(self.server)
        if verify_client:
            context.load_verify_locations(self.ca)
            context.verify_mode = ssl.CERT_REQUIRED
            context.verify_flags &= ~ssl.VERIFY_X509_STRICT  # its certificates say no more than they must
        return context


def make_pki(folder: Path) -> Pki:
    """Keys and certificates for one test session."""
    ca_key, ca = _issue("stub ca", None, None)
    server_key, server = _issue("127.0.0.1", ca, ca_key)
    client_key, client = _issue("alice", ca, ca_key)
    pki = Pki(folder / "ca.pem", folder / "server.pem", folder / "client.pem", folder / "client.key")
    pki.ca.write_bytes(_pem(ca))
    pki.server.write_bytes(_pem(server) + _key_pem(server_key))
    pki.client.write_bytes(_pem(client))
    pki.client_key.write_bytes(_key_pem(client_key))
    return pki


def _issue(
    name: str, issuer: x509.Certificate | None, issuer_key: ec.EllipticCurvePrivateKey | None
) -> tuple[ec.EllipticCurvePrivateKey, x509.Certificate]:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    address = x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))])
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer.subject if issuer else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(hours=1))
        .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), critical=True)
        .add_extension(address, critical=False)
    )
    return key, builder.sign(issuer_key or key, hashes.SHA256())


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    form, none = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    return key.private_bytes(serialization.Encoding.PEM, form, none)
