"""When certificates are renewed, and what holds while they are: pure decisions over years, in no time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from hypothesis import given, settings
from hypothesis import strategies as st

from kubenexus.common.certificates import SKEW
from kubenexus.webhook.certs import (
    MOST_AUTHORITIES,
    SETTLING,
    Holdings,
    Step,
    decide,
    read_certificates,
    renewed,
    service_names,
    trusted,
)

NOW = datetime(2026, 5, 4, 12, tzinfo=UTC)
NAMES = service_names("kubenexus-webhook", "kubenexus-system")
DAY = timedelta(days=1)
FRESH = renewed(Step.BOTH, Holdings(), NAMES, NOW)
OTHER = renewed(Step.BOTH, Holdings(), NAMES, NOW)


def change(held: Holdings, **fields: bytes) -> Holdings:
    known = {name: getattr(held, name) for name in ("authorities", "authority_key", "leaf", "leaf_key")}
    return Holdings(**(known | fields))


@pytest.mark.parametrize(
    ("held", "age", "step"),
    [
        pytest.param(Holdings(), timedelta(0), Step.BOTH, id="nothing"),
        pytest.param(FRESH, timedelta(0), Step.KEEP, id="fresh"),
        pytest.param(FRESH, 19 * DAY, Step.KEEP, id="more than a third left"),
        pytest.param(FRESH, 20 * DAY, Step.LEAF, id="a third left"),
        pytest.param(FRESH, 31 * DAY, Step.LEAF, id="expired"),
        pytest.param(FRESH, 250 * DAY, Step.LEAF, id="a leaf long expired comes before an authority that is due"),
        pytest.param(FRESH, 366 * DAY, Step.BOTH, id="everything expired"),
        pytest.param(FRESH, -2 * SKEW, Step.BOTH, id="not yet valid by our clock"),
        pytest.param(FRESH, -SKEW, Step.KEEP, id="a clock that is behind by less than the skew"),
        pytest.param(change(FRESH, leaf=b""), timedelta(0), Step.LEAF, id="no leaf"),
        pytest.param(change(FRESH, leaf=b"junk"), timedelta(0), Step.LEAF, id="a leaf that is none"),
        pytest.param(change(FRESH, leaf_key=b""), timedelta(0), Step.LEAF, id="no key of the leaf"),
        pytest.param(change(FRESH, leaf_key=OTHER.leaf_key), timedelta(0), Step.LEAF, id="another leaf's key"),
        pytest.param(
            change(FRESH, leaf=OTHER.leaf, leaf_key=OTHER.leaf_key), timedelta(0), Step.LEAF, id="a foreign leaf"
        ),
        pytest.param(
            renewed(Step.LEAF, FRESH, ("elsewhere",), NOW), timedelta(0), Step.LEAF, id="a leaf for another service"
        ),
        pytest.param(change(FRESH, authority_key=b"junk"), timedelta(0), Step.BOTH, id="no key of the authority"),
        pytest.param(
            change(FRESH, authority_key=OTHER.authority_key), timedelta(0), Step.BOTH, id="another authority's key"
        ),
        pytest.param(change(FRESH, authorities=b"\xff\x00"), timedelta(0), Step.BOTH, id="an unreadable authority"),
    ],
)
def test_what_to_do(held: Holdings, age: timedelta, step: Step) -> None:
    assert decide(held, NAMES, NOW + age) is step


def test_new_authority_signs_only_once_it_is_known() -> None:
    due = NOW + 245 * DAY
    old = renewed(Step.LEAF, FRESH, NAMES, due - 20 * DAY)
    both = renewed(Step.AUTHORITY, old, NAMES, due)
    assert decide(old, NAMES, due) is Step.AUTHORITY
    assert (both.leaf, both.leaf_key) == (old.leaf, old.leaf_key)
    assert decide(both, NAMES, due + SETTLING - timedelta(seconds=1)) is Step.KEEP
    assert decide(both, NAMES, due + SETTLING) is Step.LEAF


def test_certificates_hold_for_years_without_a_gap() -> None:
    """Looked at every few hours, there is always a valid leaf, signed by an authority that was trusted before."""
    held, bundle, steps = Holdings(), b"", set()
    for hours in range(0, 3 * 365 * 24, 7):
        now = NOW + timedelta(hours=hours)
        before = bundle
        while (step := decide(held, NAMES, now)) is not Step.KEEP:
            steps.add(step)
            held = renewed(step, held, NAMES, now)
        bundle = trusted(held, bundle, now)
        (leaf,) = read_certificates(held.leaf)
        assert leaf.not_valid_before_utc <= now < leaf.not_valid_after_utc
        assert not before or any(issued(leaf, one) for one in read_certificates(before)), "trusted before it was served"
        assert len(read_certificates(bundle)) <= 2
    assert steps == set(Step) - {Step.KEEP}


def issued(leaf: x509.Certificate, authority: x509.Certificate) -> bool:
    identifier = leaf.extensions.get_extension_for_class(x509.AuthorityKeyIdentifier).value.key_identifier
    own = authority.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value.digest
    return identifier == own


def test_bundle_keeps_what_other_replicas_still_serve() -> None:
    bundle = trusted(FRESH, OTHER.authorities, NOW)
    assert read_certificates(bundle) == read_certificates(FRESH.authorities + OTHER.authorities)
    assert trusted(FRESH, bundle, NOW) == bundle, "nothing to write the second time"
    assert trusted(FRESH, FRESH.leaf, NOW) == FRESH.authorities, "what is not an authority of ours is not kept"
    later = NOW + 400 * DAY
    assert trusted(renewed(Step.BOTH, Holdings(), NAMES, later), bundle, later).count(b"BEGIN") == 1


def test_bundle_has_a_bound() -> None:
    held = Holdings()
    for _ in range(2 * MOST_AUTHORITIES):
        held = renewed(Step.AUTHORITY, held, NAMES, NOW)
    assert held.authorities.count(b"BEGIN") == MOST_AUTHORITIES


@given(data=st.dictionaries(st.sampled_from(["ca.crt", "ca.key", "tls.crt", "tls.key"]), st.text() | st.none()))
@settings(max_examples=50, deadline=None)
def test_whatever_a_secret_holds_can_be_renewed(data: dict[str, object]) -> None:
    held = Holdings.from_secret(data)
    step = decide(held, NAMES, NOW)
    made = renewed(step, held, NAMES, NOW)
    assert decide(made, NAMES, NOW) is Step.KEEP
    assert Holdings.from_secret(made.to_secret()) == made
