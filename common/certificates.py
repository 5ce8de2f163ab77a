"""Certificates of our own: an authority, and what it signs for a server. Strict enough for Python 3.13."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from ipaddress import ip_address
from typing import Final, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

Key = ec.EllipticCurvePrivateKey

SKEW: Final = timedelta(hours=1)
"""how far the clocks of others may be behind ours: certificates begin so long before they are made"""


class Issued(NamedTuple):
    """A certificate and its key."""

    certificate: x509.Certificate
    key: Key


def make_authority(name: str, now: datetime, end: datetime) -> Issued:
    """It signs certificates of servers, and itself."""
    key, subject = ec.generate_private_key(ec.SECP256R1()), named(name)
    builder = (
        _builder(subject, subject, key, now, end)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
    )
    return Issued(builder.sign(key, hashes.SHA256()), key)


def make_leaf(name: str, known_as: Sequence[str], authority: Issued, now: datetime, end: datetime) -> Issued:
    """For a server of these names, also at 127.0.0.1: that is for probes and tests on the machine itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    names = [*(x509.DNSName(one) for one in known_as), x509.IPAddress(ip_address("127.0.0.1"))]
    issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.key.public_key())
    builder = (
        _builder(named(name), authority.certificate.subject, key, now, end)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(issuer, critical=False)
    )
    return Issued(builder.sign(authority.key, hashes.SHA256()), key)


def named(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def certificate_pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def key_pem(key: Key) -> bytes:
    form, plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    return key.private_bytes(serialization.Encoding.PEM, form, plain)


def _builder(subject: x509.Name, issuer: x509.Name, key: Key, now: datetime, end: datetime) -> x509.CertificateBuilder:
    public = key.public_key()
    return (
        x509.CertificateBuilder(issuer, subject, public, x509.random_serial_number())
        .not_valid_before(now - SKEW)
        .not_valid_after(end)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
    )


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
