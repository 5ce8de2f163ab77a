"""A certificate authority for one sandbox, and the server certificate it signs. Both live as long as the sandbox."""

from __future__ import annotations

import ipaddress
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from kubenexus.common.kube.connection import TlsSocket

_NAMES = ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")


def server_context(folder: Path) -> ssl.SSLContext:
    """Make both certificates; `ca.crt` stays in the folder for clients. Returns what the server listens with."""
    authority = ec.generate_private_key(ec.SECP256R1())
    issuer = _name("kubenexus-sandbox-ca")
    root = _builder(issuer, issuer, authority).add_extension(x509.BasicConstraints(ca=True, path_length=0), True)
    root = root.add_extension(_usage(signs_certificates=True), True)  # Python 3.13 trusts no authority without it
    (folder / "ca.crt").write_bytes(_signed(root, authority))
    key = ec.generate_private_key(ec.SECP256R1())
    leaf = _builder(_name("kubenexus-sandbox"), issuer, key)
    leaf = leaf.add_extension(x509.BasicConstraints(ca=False, path_length=None), True)
    leaf = leaf.add_extension(_usage(signs_certificates=False), True)
    leaf = leaf.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), False)
    leaf = leaf.add_extension(_addresses(), False)
    leaf = leaf.add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.public_key()), False)
    (folder / "tls.crt").write_bytes(_signed(leaf, authority))
    (folder / "tls.key").write_bytes(_encoded(key))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.sslsocket_class = TlsSocket
    context.load_cert_chain(folder / "tls.crt", folder / "tls.key")
    (folder / "tls.key").unlink()
    return context


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _addresses() -> x509.SubjectAlternativeName:
    names = [x509.DNSName(name) for name in _NAMES]
    return x509.SubjectAlternativeName([*names, x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder(issuer, subject, key.public_key(), x509.random_serial_number())
    builder = builder.not_valid_before(now - timedelta(hours=1)).not_valid_after(now + timedelta(days=30))
    return builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), False)


def _signed(builder: x509.CertificateBuilder, key: ec.EllipticCurvePrivateKey) -> bytes:
    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def _encoded(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
