"""Quantities as Kubernetes reads and writes them."""

from __future__ import annotations

import time
from fractions import Fraction
from typing import Any

import pytest

from kubenexus.common import quantity
from kubenexus.common.quantity import INT64_MAX, QuantityError
from tests.shared import conformance

# Where Kubernetes' own int64 arithmetic wraps around we answer what is meant: (value, milli).
WRAPPED_UPSTREAM = {
    "-1.025Ti": (-1126999418471, -1126999418470400),
    "12E": (INT64_MAX, INT64_MAX),
    "9223372036854775808": (INT64_MAX, INT64_MAX),
}


@pytest.mark.parametrize("case", conformance("quantity"))
def test_reads_as_kubernetes_does(case: dict[str, Any]) -> None:
    text, want = case["quantity"], case["want"]
    if not want["valid"]:
        with pytest.raises(QuantityError):
            quantity.parse(text)
        return
    expected = WRAPPED_UPSTREAM.get(text, (want["value"], want.get("milliValue", INT64_MAX)))
    assert quantity.parse(text) == Fraction(want["decimal"])
    assert (quantity.value(text), quantity.milli(text)) == expected
    assert quantity.canonical(text) == want["canonical"]


@pytest.mark.parametrize(
    ("number", "exact"),
    [(2, Fraction(2)), (0.5, Fraction(1, 2)), (0.1, Fraction(1, 10)), (1e21, Fraction(10**21)), (-3, Fraction(-3))],
)
def test_numbers_are_read_as_written(number: float, exact: Fraction) -> None:
    assert quantity.parse(number) == exact


@pytest.mark.parametrize(
    "text",
    ["ten", "1e", "1e+", "1Ki5", "5-3", "1Ee3", "1_000", "٣", "0x10", "1..5", "--1", "1\n", "NaN", "inf", "1kk", "1ki"],
)
def test_bad_text_is_named(text: str) -> None:
    with pytest.raises(QuantityError, match="is not a quantity") as caught:
        quantity.value(text)
    assert repr(text) in str(caught.value)


@pytest.mark.parametrize("number", [True, float("nan"), float("inf")], ids=str)
def test_what_is_no_number_is_refused(number: float) -> None:
    with pytest.raises(QuantityError):
        quantity.parse(number)


@pytest.mark.parametrize(
    ("text", "exact"),
    [
        ("1e-999999999", Fraction(1, 10**9)),
        ("-1e-999999999", Fraction(-1, 10**9)),
        ("0e999999999", Fraction(0)),
        ("0." + "3" * 900, Fraction(333333334, 10**9)),
        ("1e999999999", None),
        ("1e" + "9" * 500, None),
        ("9" * 100_000, None),
    ],
    ids=["tiny", "tiny-negative", "zero", "long-fraction", "huge", "huge-exponent", "long"],
)
def test_hostile_sizes_are_quick(text: str, exact: Fraction | None) -> None:
    begin = time.perf_counter()
    if exact is None:
        with pytest.raises(QuantityError):
            quantity.parse(text)
    else:
        assert quantity.parse(text) == exact
    assert time.perf_counter() - begin < 0.5


@pytest.mark.parametrize(
    ("text", "form"), [("1000E", "1000E"), ("1e30", "1e30"), ("-1024Mi", "-1Gi"), ("16Ei", str(INT64_MAX))]
)
def test_canonical_beyond_the_cases(text: str, form: str) -> None:
    assert quantity.canonical(text) == form
