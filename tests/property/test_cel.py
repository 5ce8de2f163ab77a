"""Invariants of device selectors: no text crashes them, and arithmetic is exact within 64 bits."""

from __future__ import annotations

import re

from hypothesis import assume, example, given
from hypothesis import strategies as st

from kubenexus.common.cel import CelError, CelRuntimeError, Facts, compile_selector
from kubenexus.common.objects.devices import Attribute, Version
from tests.devices import device_view

TEXT = """
device driver attributes capacity allowMultipleAllocations size quantity semver int string matches all exists
map filter cel bind has true false null in x y optional of orValue ( ) [ ] { } . , ? : ! - + * / % < > == !=
&& || 0 1 -1 9223372036854775807 1u 1.5 'a' 'x.io' r'(a|b)*' b'x' '1Gi' '1.2.3' [1,2] ['a'] {'a':1} .? [?
"""
WORDS = st.sampled_from(TEXT.split())
NAMES = st.sampled_from(["x.io/a", "x.io/b", "y.io/a"])
ATTRIBUTES = st.one_of(st.text(max_size=8), st.integers(-(2**63), 2**63 - 1), st.booleans(), st.just(Version("1.2.3")))
INT64 = st.integers(-(2**63), 2**63 - 1)


def facts(attributes: dict[str, Attribute]) -> Facts:
    return Facts.of("x.io", device_view(attributes))


def outcome(text: str, device: Facts) -> bool | None:
    """What a selector says; nothing but its own two errors may come out."""
    try:
        return compile_selector(text).matches(device)
    except (CelError, CelRuntimeError):
        return None


@given(st.text() | st.text("()[]{}?:.!-+*/%<>=&|'\"\\0123456789abdeinrux \n", max_size=60))
@example("\ud800")
@example("'\ud800' == ''")
def test_any_text_is_a_selector_or_an_error(text: str) -> None:
    assert outcome(text, facts({})) in (True, False, None)


@given(st.lists(WORDS, max_size=14).map(" ".join), st.dictionaries(NAMES, ATTRIBUTES))
def test_any_words_are_a_selector_or_an_error(text: str, attributes: dict[str, Attribute]) -> None:
    assert outcome(text, facts(attributes)) in (True, False, None)


OPERANDS = st.sampled_from(
    [
        "device.attributes['x.io'].a",
        "device.attributes['x.io'].b",
        "dyn(1)",
        "dyn('a')",
        "dyn([1, 'a'.size()])",
        "dyn({'a': 1})",
        "dyn(null)",
        "dyn(true)",
        "dyn(1.5)",
        "dyn(2u)",
        "dyn(b'a')",
        "dyn(quantity('1'))",
        "dyn(int)",
        "dyn(optional.of(1))",
        "dyn(semver('1.2.3'))",
        "device.attributes['x.io']",
        "device",
    ]
)
OPERATIONS = """
{0} == {1}|{0} < {1}|{0} + {1} == {1}|{0} - {1} == {1}|{0} * {1} == {1}|{0} / {1} == {1}|{0} % {1} == {1}|{0} in {1}|
{0}[{1}] == {1}|!{0}|-{0} == {1}|{0}.a == {1}|has({0}.a)|{0}.?a == {1}|{0} ? true : false|{0} && {1}|size({0}) == 1|
int({0}) == 1|uint({0}) == 1u|double({0}) == 1.0|string({0}) == ''|bool({0})|bytes({0}) == b''|type({0}) == type({1})|
{0}.matches({1})|{0}.find({1}) == ''|{0}.contains({1})|{0}.split({1}) == []|{0}.replace({1}, {0}) == ''|
{0}.join() == ''|{0}.substring({1}) == ''|{0}.indexOf({1}) == 1|{0}.sum() == {1}|{0}.min() == {1}|{0}.isSorted()|
{0}.sort() == {1}|{0}.flatten() == {1}|{0}.distinct() == {1}|sets.contains({0}, {1})|{0}.compareTo({1}) == 1|
{0}.add({1}) == {1}|'%s %d'.format([{0}, {1}]) == ''|semver({0}) == {1}|isQuantity({0})|{0}.orValue({1}) == {1}|
{0}.value() == {1}|{{{0}: {1}}} == {1}|[{0}] == [{1}]|dyn({0}).all(x, x == {1})|dyn({0}).map(x, x) == {1}|
{0}.charAt({1}) == ''|{0}.slice({1}, {1}) == {0}|lists.range({0}) == {1}|{0}.first() == {1}|{0}.trim() == {1}|
{0}.lowerAscii() == {1}|{0}.includes({1})|{0}.orValue(1) + 1 == 2|{0}.orValue(device).driver == ''|
{0}.or(optional.of(1)).value() + 1 == 2|(dyn({0}) == 1 ? null : quantity('1')).isInteger()|{0}.?driver == {1}
"""
FORMS = st.sampled_from([form.strip() for form in OPERATIONS.split("|")])


@given(FORMS, OPERANDS, OPERANDS, st.dictionaries(NAMES, ATTRIBUTES))
def test_operations_on_values_of_any_type_have_an_answer_or_an_error(
    form: str, one: str, other: str, attributes: dict[str, Attribute]
) -> None:
    text, device = form.format(one, other), facts(attributes)
    plain = outcome(text, device)
    assert plain in (True, False, None)
    # With every step counted it is the same.
    assert outcome(f"[1].all(one, {text})", device) == plain


@given(INT64, INT64, st.sampled_from("+-*"))
def test_arithmetic_is_exact_or_an_overflow(left: int, right: int, sign: str) -> None:
    want = {"+": left + right, "-": left - right, "*": left * right}[sign]
    fits = -(2**63) <= want < 2**63
    device = facts({"x.io/a": left, "x.io/b": right})
    values = f"device.attributes['x.io'].a {sign} device.attributes['x.io'].b"
    assert outcome(f"{values} == {want if fits else 0}", device) is (True if fits else None)


@given(INT64, INT64)
def test_quotient_and_remainder_belong_together(left: int, right: int) -> None:
    assume(right != 0 and (left, right) != (-(2**63), -1))
    device = facts({"x.io/a": left, "x.io/b": right})
    text = (
        "cel.bind(a, device.attributes['x.io'].a, cel.bind(b, device.attributes['x.io'].b, (a / b) * b + a % b == a))"
    )
    assert outcome(text, device) is True


PATTERNS = st.recursive(
    st.sampled_from(["a", "b", ".", "[ab]", "[^a]", r"\d", r"\w", "^", "$", r"\b", ""]),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map(lambda pair: f"(?:{pair[0]}|{pair[1]})"),
        st.tuples(inner, st.sampled_from(["*", "+", "?", "{1,2}", "*?", "+?"])).map(
            lambda pair: f"(?:{pair[0]}){pair[1]}"
        ),
    ),
    max_leaves=8,
)


@given(PATTERNS, st.text("ab1 ", max_size=8))
def test_patterns_match_as_in_python(pattern: str, text: str) -> None:
    """Where both know a construct they agree; `$` is the very end here."""
    wanted = re.search(pattern.replace("$", r"\Z"), text, re.ASCII)
    device = facts({"x.io/a": text})
    assert outcome(f"device.attributes['x.io'].a.matches(r'{pattern}')", device) is (wanted is not None)
