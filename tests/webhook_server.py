"""A webhook for tests: an HTTPS server with a certificate of its own that answers admission reviews as told."""

from __future__ import annotations

import base64
import json
import ssl
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from kubenexus.common.kube.resources import PODS, Resource
from kubenexus.common.sandbox.admission import Admission
from kubenexus.common.sandbox.registry import Registry
from kubenexus.common.sandbox.writes import Call

Obj = dict[str, Any]

ALLOW: Obj = {"allowed": True}


def certificate(folder: Path, *names: str) -> Path:
    """A file with a key and a certificate that it signed itself, for these names and for 127.0.0.1."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "webhook")])
    now = datetime.now(UTC)
    built = (
        x509.CertificateBuilder(subject, subject, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(hours=1))
        .add_extension(
            x509.SubjectAlternativeName(
                [x509.IPAddress(ip_address("127.0.0.1")), *(x509.DNSName(name) for name in names)]
            ),
            critical=False,
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    path = folder / "tls.pem"
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path.write_bytes(private + built.public_bytes(serialization.Encoding.PEM))
    return path


class Webhook:
    """An HTTPS server that answers every path by the function registered for it and remembers what it was asked."""

    def __init__(self, folder: Path) -> None:
        pem = certificate(folder, "hook.tools.svc")
        self.bundle = base64.b64encode(pem.read_bytes().split(b"-----END PRIVATE KEY-----\n")[1]).decode()
        self.answers: dict[str, Callable[[Obj], Any]] = {}
        self.asked: list[tuple[str, Obj]] = []
        self.queries: list[str] = []
        self.connections = 0
        self._server = self._listen(pem)
        self.port = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    def _listen(self, pem: Path) -> ThreadingHTTPServer:
        hook = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = 65536  # one packet for head and body, or each answer waits 40 ms for an acknowledgement

            def setup(self) -> None:
                hook.connections += 1
                super().setup()

            def do_POST(self) -> None:
                path, _, query = self.path.partition("?")
                review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                hook.asked.append((path, review["request"]))
                hook.queries.append(query)
                status, body = hook.respond(path, review)
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002, ARG002 (as inherited)
                return

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, request: Any, client_address: Any) -> None:
                """A client that hung up or did not trust us is what some tests are about."""

        server = Server(("127.0.0.1", 0), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(pem)
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        return server

    def respond(self, path: str, review: Obj) -> tuple[int, bytes]:
        answer = self.answers[path](review["request"])
        if isinstance(answer, tuple):
            return answer
        review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"} | answer.pop("review", {})
        return 200, json.dumps(review | {"response": {"uid": self.asked[-1][1]["uid"]} | answer}).encode()

    def paths(self) -> list[str]:
        return [path for path, _ in self.asked]

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class Bench:
    """A registry with admission and one webhook server."""

    def __init__(self, hook: Webhook) -> None:
        self.hook = hook
        self.registry = Registry()
        self.admission = Admission(self.registry)
        self.registry.admit_with(self.admission)

    def webhook(self, name: str, answer: Callable[[Obj], Any] | Obj = ALLOW, **settings: Any) -> Obj:
        """A webhook entry that is answered so, at a path of its name."""
        self.hook.answers[f"/{name}"] = answer if callable(answer) else lambda _: dict(answer)
        everything = {"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"]}
        return {
            "name": f"{name}.example.com",
            "rules": [everything],
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            "clientConfig": {"url": f"https://127.0.0.1:{self.hook.port}/{name}", "caBundle": self.hook.bundle},
        } | settings

    def configure(self, res: Resource, *webhooks: Obj, name: str = "config") -> None:
        self.registry.create(res, None, {"metadata": {"name": name}, "webhooks": list(webhooks)})

    def create(self, name: str = "p", call: Call | None = None, **meta: Any) -> Obj:
        return self.registry.create(PODS, "default", pod(name, **meta), call=call)


def pod(name: str = "p", **meta: Any) -> Obj:
    return {"metadata": {"name": name} | meta, "spec": {"containers": [{"name": "c", "image": "i"}]}}
