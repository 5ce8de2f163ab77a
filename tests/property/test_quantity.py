"""Invariants of quantities."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from kubenexus.common import quantity
from kubenexus.common.quantity import QuantityError

SUFFIXES = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei", "e3", "E-2", "e+12"]
NUMBERS = st.from_regex(r"[+-]?[0-9]{1,12}(\.[0-9]{0,12})?", fullmatch=True)
QUANTITIES = st.builds("{}{}".format, NUMBERS, st.sampled_from(SUFFIXES))


@given(QUANTITIES)
def test_canonical_form_keeps_the_amount_and_is_final(text: str) -> None:
    form = quantity.canonical(text)
    assert quantity.parse(form) == quantity.parse(text)
    assert quantity.canonical(form) == form


@given(QUANTITIES)
def test_whole_numbers_are_rounded_away_from_zero(text: str) -> None:
    exact = quantity.parse(text)
    for rounded, unit in ((quantity.value(text), 1), (quantity.milli(text), 1000)):
        if abs(rounded) < quantity.INT64_MAX:
            assert 0 <= abs(rounded) - abs(exact * unit) < 1


@given(st.integers(), st.sampled_from([("k", 10**3), ("G", 10**9), ("m", Fraction(1, 1000))]))
def test_a_suffix_is_a_factor(number: int, suffix: tuple[str, Fraction]) -> None:
    assert quantity.parse(f"{number}{suffix[0]}") == number * suffix[1]


@given(st.text() | st.text("0123456789.+-eEinumkKMGTP"))
def test_any_text_is_a_quantity_or_the_one_error(text: str) -> None:
    try:
        form = quantity.canonical(text)
    except QuantityError:
        return
    assert quantity.parse(form) == quantity.parse(text)
