"""An admission webhook in a thread: real HTTPS on loopback, answering what the test says."""

from __future__ import annotations

import base64
import datetime
import ipaddress
import json
import ssl
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

Obj = dict[str, Any]
Reply = Callable[[Obj], Obj]


@dataclass(slots=True)
class Hook:
    """A running webhook. `reply` maps a request to the response without its `uid`; `seen` has every request."""

    url: str
    ca_bundle: str
    reply: Reply = lambda _: {"allowed": True}
    seen: list[Obj] = field(default_factory=list)

    def answer(self, review: Obj) -> Obj:
        request = review["request"]
        self.seen.append(request)
        response = {"uid": request["uid"], **self.reply(request)}
        return {"apiVersion": review["apiVersion"], "kind": "AdmissionReview", "response": response}


def patching(*operations: Obj, **more: Any) -> Obj:
    """A response that allows with a JSON patch."""
    encoded = base64.b64encode(json.dumps(operations).encode()).decode()
    return {"allowed": True, "patchType": "JSONPatch", "patch": encoded, **more}


def label(key: str, value: str) -> Obj:
    """The patch operation that sets a label on an object that has some."""
    return {"op": "add", "path": f"/metadata/labels/{key}", "value": value}


@contextmanager
def running() -> Iterator[Hook]:
    """A webhook that allows everything until it is told otherwise."""
    with tempfile.TemporaryDirectory() as folder:
        certificate = _certificate(Path(folder))
        server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
        bundle = base64.b64encode(certificate.read_bytes().split(b"-----BEGIN EC")[0]).decode()
        hook = Hook(f"https://127.0.0.1:{server.server_address[1]}/", bundle)
        _Handler.hooks[server.server_address[1]] = hook
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield hook
        finally:
            server.shutdown()
            thread.join()
            server.server_close()


class _Handler(BaseHTTPRequestHandler):
    hooks: dict[int, Hook] = {}  # noqa: RUF012  by port; a handler knows no more than its server

    def do_POST(self) -> None:
        hook = self.hooks[self.server.server_address[1]]  # type: ignore[index]
        review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        body = json.dumps(hook.answer(review)).encode()
        try:
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
        except OSError:
            return  # The caller lost patience, as the tests of timeouts want it to.

    def log_message(self, *_: object) -> None:
        """Quiet."""


def _certificate(folder: Path) -> Path:
    """A file with a self-signed certificate for 127.0.0.1 and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "webhook")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(hours=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.IPv4Address("127.0.0.1"))]), critical=False
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    plain = serialization.NoEncryption()
    pem = certificate.public_bytes(serialization.Encoding.PEM)
    pem += key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, plain)
    path = folder / "webhook.pem"
    path.write_bytes(pem)
    return path
