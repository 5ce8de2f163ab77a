"""The webhook's certificates: what its Secret holds, whether that is still good, and what takes its place.

A certificate authority of our own signs the certificate that we serve. When it is renewed, the new one joins the old
one in the bundle that API servers trust, and signs only later: by then everybody has heard of it.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from kubenexus.common.certificates import (
    SKEW,
    Issued,
    Key,
    certificate_pem,
    key_pem,
    make_authority,
    make_leaf,
    named,
)

AUTHORITY_LIFE: Final = timedelta(days=365)
LEAF_LIFE: Final = timedelta(days=30)
SETTLING: Final = timedelta(minutes=10)
"""how long a new authority is made known before it signs"""
MOST_AUTHORITIES: Final = 4
AUTHORITY_NAME: Final = "kubenexus-webhook-ca"
LEAF_NAME: Final = "kubenexus-webhook"


class Step(StrEnum):
    """What to do with what is held."""

    KEEP = "keep"
    LEAF = "leaf"
    """sign a new certificate to serve"""
    AUTHORITY = "authority"
    """make a new authority beside the old; what is served stays"""
    BOTH = "both"
    """there is nothing that could sign: begin anew"""


@dataclass(frozen=True, slots=True)
class Holdings:
    """What the Secret holds, as PEM: all authorities, the newest first, the newest one's key, and what is served."""

    authorities: bytes = b""
    authority_key: bytes = b""
    leaf: bytes = b""
    leaf_key: bytes = b""

    @classmethod
    def from_secret(cls, data: Mapping[str, object]) -> Holdings:
        """From the `data` of a Secret; what is missing or no base64 is empty."""
        return cls(*(_decoded(data.get(key)) for key in _KEYS))

    def to_secret(self) -> dict[str, str]:
        values = (self.authorities, self.authority_key, self.leaf, self.leaf_key)
        return {key: base64.b64encode(value).decode() for key, value in zip(_KEYS, values, strict=True)}


_KEYS: Final = ("ca.crt", "ca.key", "tls.crt", "tls.key")


def service_names(service: str, namespace: str) -> tuple[str, ...]:
    """The names that API servers call a Service by."""
    host = f"{service}.{namespace}"
    return (service, host, f"{host}.svc", f"{host}.svc.cluster.local")


# --- Deciding --------------------------------------------------------------------------------------------------------


def decide(held: Holdings, names: Sequence[str], now: datetime) -> Step:
    """What to do now, from what is held alone: every replica comes to the same answer."""
    authorities = read_certificates(held.authorities)
    if not authorities or not _is_good(authorities[0], held.authority_key, now):
        return Step.BOTH
    leaf = next(iter(read_certificates(held.leaf)), None)
    if leaf is None or not _is_good(leaf, held.leaf_key, now) or not _is_ours(leaf, authorities, names):
        return Step.LEAF
    if _is_due(authorities[0], now):
        return Step.AUTHORITY
    # A certificate begins SKEW before it was made.
    settled = now - authorities[0].not_valid_before_utc - SKEW >= SETTLING
    return Step.LEAF if _is_due(leaf, now) and settled else Step.KEEP


def _is_good(certificate: x509.Certificate, key: bytes, now: datetime) -> bool:
    """Valid at this moment, and the key is its own."""
    private = _read_key(key)
    matches = private is not None and private.public_key() == certificate.public_key()
    return matches and certificate.not_valid_before_utc <= now < certificate.not_valid_after_utc


def _is_due(certificate: x509.Certificate, now: datetime) -> bool:
    """A third of its life is left, or less."""
    life = certificate.not_valid_after_utc - certificate.not_valid_before_utc
    return certificate.not_valid_after_utc - now <= life / 3


def _is_ours(leaf: x509.Certificate, authorities: Sequence[x509.Certificate], names: Sequence[str]) -> bool:
    """An authority in the bundle signed it, for all these names."""
    try:
        alternative = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (x509.ExtensionNotFound, ValueError):
        return False
    named = set(alternative.get_values_for_type(x509.DNSName))
    return named.issuperset(names) and any(_signed(leaf, authority) for authority in authorities)


def _signed(leaf: x509.Certificate, authority: x509.Certificate) -> bool:
    try:
        leaf.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm):
        return False
    return True


def trusted(held: Holdings, present: bytes, now: datetime) -> bytes:
    """The bundle for API servers: the authorities held, and those of ours that they trust now and that still serve.

    Without the latter, a Secret that somebody deleted would make what other replicas serve untrusted at once.
    """
    ours = [one for one in read_certificates(present) if one.subject == named(AUTHORITY_NAME)]
    return _bundle([*read_certificates(held.authorities), *ours], now)


# --- Making ----------------------------------------------------------------------------------------------------------


def renewed(step: Step, held: Holdings, names: Sequence[str], now: datetime) -> Holdings:
    """What is held after the step."""
    if step in (Step.AUTHORITY, Step.BOTH):
        held = _with_authority(held, now)
    return _with_leaf(held, names, now) if step in (Step.LEAF, Step.BOTH) else held


def _with_authority(held: Holdings, now: datetime) -> Holdings:
    made = make_authority(AUTHORITY_NAME, now, now + AUTHORITY_LIFE)
    bundle = _bundle([made.certificate, *read_certificates(held.authorities)], now)
    return replace(held, authorities=bundle, authority_key=key_pem(made.key))


def _with_leaf(held: Holdings, names: Sequence[str], now: datetime) -> Holdings:
    authority, signing = read_certificates(held.authorities)[0], _read_key(held.authority_key)
    assert signing is not None, "decided by `decide`, or just made"
    end = min(now + LEAF_LIFE, authority.not_valid_after_utc)
    made = make_leaf(LEAF_NAME, names, Issued(authority, signing), now, end)
    return replace(held, leaf=certificate_pem(made.certificate), leaf_key=key_pem(made.key))


# --- PEM -------------------------------------------------------------------------------------------------------------


def read_certificates(pem: bytes) -> list[x509.Certificate]:
    """The certificates in a file, in its order; none where it cannot be read."""
    try:
        return x509.load_pem_x509_certificates(pem)
    except ValueError:
        return []


def _read_key(pem: bytes) -> Key | None:
    try:
        key = serialization.load_pem_private_key(pem, None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return None
    return key if isinstance(key, ec.EllipticCurvePrivateKey) else None


def _bundle(certificates: Iterable[x509.Certificate], now: datetime) -> bytes:
    """Each once, the expired left out; not without bound, for it stands in objects of the API."""
    valid = [one for one in dict.fromkeys(certificates) if one.not_valid_after_utc > now]
    return b"".join(map(certificate_pem, valid[:MOST_AUTHORITIES]))


def _decoded(value: object) -> bytes:
    try:
        return base64.b64decode(value, validate=True) if isinstance(value, str) else b""
    except ValueError:
        return b""
