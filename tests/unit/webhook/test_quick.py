"""Recognising a review among bytes: as API servers send it, and nothing else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubenexus.webhook.quick import MOST_BYTES, Partly, Review, recognise

BODY = b'{"kind":"AdmissionReview"}'
SENT = (
    b"POST /mutate?timeout=2s HTTP/1.1\r\nHost: kubenexus-webhook.kubenexus-system.svc:443\r\n"
    b"User-Agent: kube-apiserver-admission\r\nContent-Length: 26\r\nAccept: application/json, */*\r\n"
    b"Content-Type: application/json\r\nAccept-Encoding: gzip\r\n\r\n" + BODY
)


def test_as_an_api_server_sends_it() -> None:
    assert recognise(SENT) == Review("/mutate", BODY)
    assert recognise(SENT.replace(b"/mutate?timeout=2s", b"/validate")) == Review("/validate", BODY)


@given(st.integers(min_value=len(b"POST /"), max_value=len(SENT) - 1))
def test_each_beginning_of_it_is_waited_for(length: int) -> None:
    assert recognise(SENT[:length]) is Partly.BEGUN


@given(st.binary(max_size=300))
def test_no_bytes_make_it_fail(data: bytes) -> None:
    found = recognise(data)
    assert isinstance(found, Partly) or data.endswith(found.body)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param(b"POST", b"GET", id="another method"),
        pytest.param(b"/mutate", b"/readyz", id="another path"),
        pytest.param(b"/mutate", b"/mutated", id="a longer path"),
        pytest.param(b"HTTP/1.1", b"HTTP/1.0", id="an old version"),
        pytest.param(b"Accept-Encoding: gzip", b"Transfer-Encoding: chunked", id="chunks"),
        pytest.param(b"Accept-Encoding: gzip", b"Connection: close", id="a last request"),
        pytest.param(b"Accept-Encoding: gzip", b"Expect: 100-continue", id="a question first"),
        pytest.param(b"Accept-Encoding: gzip", b"Content-Encoding: gzip", id="packed"),
        pytest.param(b"Accept-Encoding: gzip", b"Content-Length: 26", id="two lengths"),
        pytest.param(b"Accept-Encoding: gzip", b" folded", id="a folded line"),
        pytest.param(b"Content-Length: 26\r\n", b"", id="no length"),
        pytest.param(b"Content-Length: 26", b"Content-Length: +26", id="a length with a sign"),
        pytest.param(b"Content-Length: 26", b"Content-Length: 25", id="more than one request"),
        pytest.param(b"Content-Length: 26", b"Content-Length: %d" % MOST_BYTES, id="a large one"),
        pytest.param(b"Content-Length: 26", b"Content-Length: " + b"9" * 5000, id="a length without end"),
        pytest.param(b"application/json\r\n", b"text/plain\r\n", id="another type"),
    ],
)
def test_whatever_is_odd_is_left_to_others(old: bytes, new: bytes) -> None:
    assert old in SENT
    assert recognise(SENT.replace(old, new, 1)) is Partly.ODD


def test_a_head_without_end_is_odd() -> None:
    assert recognise(b"POST /" + b"x" * MOST_BYTES) is Partly.ODD
