"""A certificate authority for one sandbox, and the server certificate it signs. Both live as long as the sandbox."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

from kubenexus.common.certificates import certificate_pem, key_pem, make_authority, make_leaf
from kubenexus.common.kube.connection import TlsSocket

_NAMES = ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")
_LIFE = timedelta(days=30)


def server_context(folder: Path) -> ssl.SSLContext:
    """Make both certificates; `ca.crt` stays in the folder for clients. Returns what the server listens with."""
    now = datetime.now(UTC)
    authority = make_authority("kubenexus-sandbox-ca", now, now + _LIFE)
    leaf = make_leaf("kubenexus-sandbox", _NAMES, authority, now, now + _LIFE)
    (folder / "ca.crt").write_bytes(certificate_pem(authority.certificate))
    (folder / "tls.crt").write_bytes(certificate_pem(leaf.certificate))
    (folder / "tls.key").write_bytes(key_pem(leaf.key))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.sslsocket_class = TlsSocket
    context.load_cert_chain(folder / "tls.crt", folder / "tls.key")
    (folder / "tls.key").unlink()
    return context
