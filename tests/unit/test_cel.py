"""Device selectors: the language, Kubernetes' types, and what is refused. Outcomes are those of Kubernetes 1.36."""

from __future__ import annotations

import tracemalloc
from fractions import Fraction
from typing import Any

import pytest

from kubenexus.common.cel import MAX_BYTES, MAX_COST, CelError, CelRuntimeError, Facts, Purse, compile_selector, regex
from kubenexus.common.objects.devices import CapacityView, Version, project_resource_slice
from tests.devices import device_view
from tests.shared import conformance


def device(driver: str, obj: dict[str, Any]) -> Facts:
    raw = {"metadata": {"name": "slice"}, "spec": {"driver": driver, "pool": {"name": "pool"}, "devices": [obj]}}
    return Facts.of(driver, project_resource_slice(raw).devices[0])


GPU = device(
    "gpu.example.com",
    {
        "name": "gpu-0",
        "attributes": {
            "model": {"string": "A100"},
            "index": {"int": 7},
            "healthy": {"bool": True},
            "driverVersion": {"version": "550.54.15"},
            "other.example.com/rack": {"string": "r1"},
        },
        "capacity": {"memory": {"value": "40Gi"}, "half": {"value": "500m"}},
    },
)

TRUE = {
    "literals": [
        "1 == 0x1 && 1u == 0x1u && 1.5 == 15e-1 && .5 == 0.5 && null == null && true",
        r"'\x41\u0042\U00000043\104\n' == 'ABCD\u000a' && r'\n' == '\\n'",
        r"b'\xff\101' == b'\377A' && b'ä' == bytes('ä') && br'\x' == b'\\x'",
        "[1, 2,] == [1, 2] && {'a': 1,}.a == 1 && [] == [] && {} == {}",
        "-9223372036854775808 < 0 && 18446744073709551615u > 0u && --1 == 1 && !!true",
        "1 == // a comment\n 1 && ['''a'b''', \"\"\"c\"d\"\"\"] == [\"a'b\", 'c\"d']",
    ],
    "precedence": [
        "1 + 2 * 3 == 7 && (1 + 2) * 3 == 9 && 10 - 2 - 3 == 5 && -2 * 3 == -6 && !false && true",
        "true || false && false",
        "false ? false : true ? true : false",
        "1 < 2 == true && 2 in [1, 2] == true",
        "7 / 2 == 3 && -7 / 2 == -3 && -7 % 3 == -1 && 7 % -3 == 1 && 7u / 2u == 3u && 1.0 / 0.0 > 1e308",
    ],
    "equality across types": [
        "dyn(1) == dyn(1u) && dyn(1) == dyn(1.0) && dyn('1') != dyn(1) && dyn(true) != dyn(1)",
        "[1, 2] != [2, 1] && {'a': [1]} == {'a': [1]} && dyn([1]) == dyn([1.0]) && dyn(null) != dyn(0)",
        "1 < 1.5 && 2u > 1 && 1.0 <= 1 && -1 < 1u && 'a' < 'b' && b'a' < b'b' && false < true",
        "double('NaN') != double('NaN') && 0.0 / 0.0 != 0.0 / 0.0",
        "optional.of(dyn(1)) == optional.of(dyn(1.0)) && optional.of(dyn(true)) != optional.of(dyn(1))",
    ],
    "errors are absorbed": [
        "device.attributes['x'].y || true",
        "true || device.attributes['x'].y",
        "!(device.attributes['x'].y && false) && !(false && 1 / 0 > 1)",
        "[1, 0, 2].exists(x, 2 / x == 1) && ![1, 0, 2].all(x, 2 / x == 2)",
        "cel.bind(x, 1 / 0, true)",
        "true ? true : 1 / 0 > 0",
    ],
    "selection": [
        "device.driver == 'gpu.example.com' && !device.allowMultipleAllocations",
        "device.attributes['gpu.example.com'].model == 'A100' && device.attributes['other.example.com'].rack == 'r1'",
        "has(device.driver) && has(device.attributes['gpu.example.com'].model) && !has(device.attributes['x'].y)",
        "!has(device.attributes['gpu.example.com'].model.x)",
        "device.?attributes['gpu.example.com'].?model.orValue('') == 'A100' && dyn(device).driver == device.driver",
        "optional.of(device).driver.value() == device.driver && !has(dyn(device).nothing)",
        "device.attributes['gpu.example.com'].driverVersion != '550.54.15'",
        "'model' in device.attributes['gpu.example.com'] && !('x' in device.attributes)",
        "size(device.attributes['nobody.example.com']) == 0 && device.attributes.size() == 2",
        "{'a': {'b': [1, 2]}}.a['b'][1] == 2 && {1: 'x'}[1] == 'x' && {true: 1}[true] == 1 && dyn({1: 2})[1u] == 2",
        "device.attributes['gpu.example.com'].healthy",
        "cel.bind(gpu, device.attributes['gpu.example.com'], gpu.index > 6 && gpu.index < 8)",
    ],
    "macros": [
        "[1, 2, 3].all(x, x > 0) && [1, 2, 3].exists(x, x == 2) && [1, 2].exists_one(x, x == 2)",
        "[1, 2, 3].map(x, x * 2) == [2, 4, 6] && [1, 2, 3].filter(x, x > 1) == [2, 3]",
        "[1, 2, 3].map(x, x > 1, x * 2) == [4, 6] && {'a': 1}.map(k, k) == ['a'] && {'a': 1}.all(k, k == 'a')",
        "[[], [1], [2, 3]].map(x, x.map(y, y + size(x))) == [[], [2], [4, 5]]",
        "[3, 4].all(i, v, v == i + 3) && {'a': 1}.exists(k, v, k == 'a' && v == 1)",
        "[3, 4].transformList(i, v, i + v) == [3, 5] && {'a': 1}.transformMap(k, v, v + 1) == {'a': 2}",
        "{true: 1}.all(k, k) && [true].map(x, x)[0]",
        "device.attributes.exists(domain, domain.endsWith('.example.com'))",
    ],
    "texts": [
        "'Ab'.lowerAscii() == 'ab' && 'Äb'.upperAscii() == 'ÄB' && ' a '.trim() == 'a' && 'abc'.charAt(1) == 'b'",
        "'a,b,c'.split(',') == ['a', 'b', 'c'] && 'a,b,c'.split(',', 2) == ['a', 'b,c']",
        "'ab'.split('') == ['a', 'b']",
        "'aXbX'.replace('X', '-') == 'a-b-' && 'aXbX'.replace('X', '-', 1) == 'a-bX'",
        "'ab'.replace('', '.') == '.a.b.'",
        "'hello'.substring(1) == 'ello' && 'hello'.substring(1, 3) == 'el' && ['a', 'b'].join('-') == 'a-b'",
        "'hello'.indexOf('l') == 2 && 'hello'.lastIndexOf('l') == 3",
        "'abab'.lastIndexOf('b', 4) == -1 && 'abab'.lastIndexOf('b', 3) == 3 && 'abab'.indexOf('', 9) == 9",
        "'hello'.indexOf('l', 3) == 3 && 'a'.indexOf('b') == -1",
        "'hello'.contains('ell') && 'hello'.startsWith('he') && 'hello'.endsWith('lo') && 'ä'.size() == 1",
        "'%s is %d, %.1f, %x, %b'.format(['a', 2, 1.25, 255, 5]) == 'a is 2, 1.2, ff, 101'",
        "'%s'.format([[1, true, null]]) == '[1, true, null]' && '100%%'.format([]) == '100%'",
    ],
    "patterns": [
        "'A100-SXM4'.matches('^A[0-9]+') && 'abc'.matches('b') && !'abc'.matches('^b') && matches('a.c', r'a\\.c')",
        r"'v1.2'.matches(r'^v\d+\.\d+$') && 'a\nb'.matches('(?m)^b$')",
        r"'ABC'.matches('(?i)abc') && 'é'.matches(r'^\pL$')",
        r"'foo bar'.matches(r'\bbar\b') && 'aaa'.matches('^a{2,3}$')",
        r"!'a'.matches('^a{2,}$') && 'x-1'.matches('[[:alpha:]-]')",
        "'a1b22'.find('[0-9]+') == '1' && 'a1b22'.findAll('[0-9]+') == ['1', '22'] && 'abc'.find('x') == ''",
        "'aab'.find('a+?') == 'a' && 'ab'.find('a|ab') == 'a' && 'abc'.findAll('', 2) == ['', '']",
    ],
    "conversions": [
        "int('42') == 42 && int(4.9) == 4 && int(-4.9) == -4",
        "int(7u) == 7 && uint(3) == 3u && double('1e3') == 1000.0",
        "string(1) == '1' && string(1.0) == '1' && string(1e6) == '1e+06'",
        "string(1.25) == '1.25' && string(true) == 'true'",
        "bool('true') && !bool('F') && string(b'abc') == 'abc' && bytes('a') == b'a'",
        "type(1) == int && type('') == string && type(null) == null_type && type([]) == list && type(int) == type",
        "type(device.attributes['gpu.example.com'].index) == int && type(1.0) != type(1)",
    ],
    "quantities": [
        "device.capacity['gpu.example.com'].memory.compareTo(quantity('40Gi')) == 0",
        "device.capacity['gpu.example.com'].memory == quantity('40960Mi') && quantity('1k') != quantity('1Ki')",
        "quantity('1Ki').isGreaterThan(quantity('1k')) && quantity('0.5').isLessThan(quantity('1'))",
        "quantity('1').add(quantity('500m')).sub(1) == quantity('0.5') && sign(quantity('-1')) == -1",
        "quantity('2k').asInteger() == 2000 && !quantity('1500m').isInteger()",
        "quantity('1.5').asApproximateFloat() == 1.5",
        "quantity('1e600').asApproximateFloat() > 1e308 && quantity('-1e600').asApproximateFloat() < -1e308",
        "isQuantity('10Mi') && !isQuantity('10 apples') && device.capacity['gpu.example.com'].half == quantity('0.5')",
        "type(quantity('1')) != type(1)",
    ],
    "versions": [
        "device.attributes['gpu.example.com'].driverVersion.isGreaterThan(semver('535.0.0'))",
        "device.attributes['gpu.example.com'].driverVersion == semver('550.54.15')",
        "semver('1.0.0-alpha').isLessThan(semver('1.0.0')) && semver('1.0.0-2').isLessThan(semver('1.0.0-10'))",
        "semver('1.0.0-9').isLessThan(semver('1.0.0-a')) && semver('1.0.0+x') == semver('1.0.0+y')",
        "semver('1.2.3').major() == 1 && semver('1.2.3').minor() == 2 && semver('1.2.3').patch() == 3",
        "semver('v1.02', true) == semver('1.2.0') && isSemver('1.2.3') && !isSemver('1.2') && isSemver('1.2', true)",
        "semver('1.2.3').compareTo(semver('1.10.0')) == -1",
    ],
    "lists": [
        "[1, 2].sum() == 3 && [1.5].sum() == 1.5 && [2, 1].min() == 1 && ['a', 'b'].max() == 'b' && [1, 1].isSorted()",
        "[1, 2, 1].indexOf(1) == 0 && [1, 2, 1].lastIndexOf(1) == 2 && [1].indexOf(3) == -1 && !([2, 1].isSorted())",
        "[1, 2, 3].slice(1, 2) == [2] && [[1], [2]].flatten() == [1, 2] && [1, 2].reverse() == [2, 1]",
        "[1, 1, 2].distinct() == [1, 2] && [2, 1].sort() == [1, 2]",
        "lists.range(3) == [0, 1, 2] && [1] + [2] == [1, 2]",
        "device.attributes['gpu.example.com'].model.includes('A100') && [1, 2].includes(2) && !'a'.includes(1)",
        "sets.contains([1, 2], [2]) && sets.equivalent([1, 2], [2, 1, 1]) && sets.intersects([1], [2, 1])",
    ],
    "optionals": [
        "device.attributes['gpu.example.com'].?model.orValue('') == 'A100'",
        "device.attributes['x'].?model.orValue('none') == 'none' && !device.attributes['x'].?model.hasValue()",
        "{'a': 1}[?'b'].orValue(2) == 2 && [1][?0].value() == 1",
        "![1][?1].hasValue() && {'a': {'b': 1}}.?a.b.value() == 1",
        "device.attributes['gpu.example.com'].model.orValue('') == 'A100'",
        "optional.of(1).orValue(1 / 0) == 1 && optional.of(1).or(optional.of(1 / 0)).value() == 1",
        "optional.of(1).or(optional.none()).value() == 1 && optional.ofNonZeroValue(0).orValue(5) == 5",
        "optional.of(1).optMap(x, x + 1).value() == 2 && [1, 2].first().value() == 1 && ![].last().hasValue()",
    ],
}  # fmt: skip


def facing(text: str) -> object:
    """True, False, or the text of the error that an evaluation raises."""
    try:
        return compile_selector(text).matches(GPU)
    except CelRuntimeError as error:
        return str(error)


@pytest.mark.parametrize(
    "text", [pytest.param(text, id=f"{topic}: {text}") for topic, texts in TRUE.items() for text in texts]
)
def test_holds(text: str) -> None:
    assert facing(text) is True
    assert facing(f"!({text})") is False
    # In a loop every step is counted, which must not change what it does.
    assert facing(f"[1].all(one, {text})") is True


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("device.attributes['gpu.example.com'].nothing", "no such key: nothing"),
        ("device.attributes['x']['y']", "no such key: y"),
        ("device.attributes['gpu.example.com'].model", "no bool"),
        ("device.attributes['gpu.example.com'].model && true", "no such overload"),
        ("device.attributes['gpu.example.com'].model ? true : false", "no such overload"),
        ("device.attributes['gpu.example.com'].model > 1", "no such overload: _>_(string, int)"),
        ("device.attributes['gpu.example.com'].model.isGreaterThan(quantity('1'))", "no such overload"),
        ("device.attributes['gpu.example.com'].index.foo == 1", "no such overload"),
        ("device.attributes['gpu.example.com'].driverVersion == '550.54.15'", "no such overload: _==_"),
        ("9223372036854775807 + 1 > 0", "integer overflow"),
        ("-9223372036854775808 - 1 < 0", "integer overflow"),
        ("-(-9223372036854775808) > 0", "integer overflow"),
        ("-9223372036854775808 / -1 > 0", "integer overflow"),
        ("4611686018427387904 * 2 > 0", "integer overflow"),
        ("0u - 1u > 0u", "unsigned integer overflow"),
        ("1 / 0 == 1", "division by zero"),
        ("1 % 0 == 1", "modulus by zero"),
        ("[1][1] == 1", "index out of bounds: 1"),
        ("{1: 2}[2] == 1", "no such key: 2"),
        ("double('NaN') < 1.0", "NaN values cannot be ordered"),
        ("int(device.attributes['gpu.example.com'].model) == 1", "not a whole number: 'A100'"),
        ("bool(device.attributes['gpu.example.com'].model)", "not a bool: 'A100'"),
        ("quantity('1 apple') == quantity('1')", "is not a quantity"),
        ("quantity('1.5').asInteger() == 1", "cannot convert"),
        ("semver('1.2') == semver('1.2.0')", "is not a semantic version"),
        ("semver('1-x', true) == semver('1.0.0')", "cannot have a pre-release"),
        ("'abc'.substring(2, 1) == ''", "invalid substring range"),
        ("'abc'.charAt(4) == ''", "index out of range"),
        ("[].map(x, 1).min() == 1", "empty list"),
        ("optional.none().value() == 1", "optional.none() dereference"),
        ("(device.driver == 'x' ? quantity('1') : null).isInteger()", "no such overload: isInteger(null_type)"),
        ("(device.driver == 'x' ? device : null).driver == ''", "no such overload: select(null_type, string)"),
        ("optional.of(null).orValue(quantity('1')).isInteger()", "no such overload: isInteger(null_type)"),
        ("dyn(optional.of('a')).orValue(1) + 1 == 2", "no such overload: _+_(string, int)"),
        ("dyn(optional.of('a')).or(optional.of(1)).value() + 1 == 2", "no such overload: _+_(string, int)"),
        ("dyn(optional.of(['a'])).orValue([1])[0] + 1 == 2", "no such overload: _+_(string, int)"),
        ("dyn(1).or(optional.of(1)).hasValue()", "no such overload: hasValue(int)"),
        ("'a'.find(device.driver + '(') == ''", "missing closing ) in the pattern"),
        ("cel.bind(x, 1 / 0, x == 1)", "division by zero"),
        ("[1, 2].all(x, 1 / 0 > x)", "division by zero"),
        ("[1, 0].exists_one(x, 1 / x == 1)", "division by zero"),
        ("[1].map(x, x / 0) == []", "division by zero"),
        ("'%d'.format(['x']) == ''", "could not format"),
        ("'%d'.format([]) == ''", "more verbs than arguments"),
    ],
)
def test_has_no_answer(text: str, why: str) -> None:
    assert why in str(facing(text))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "extraneous input '<EOF>'"),
        ("1 +", "extraneous input '<EOF>'"),
        ("(true", "extraneous input '<EOF>'"),
        ("true true", "extraneous input 'true'"),
        ("true and false", "extraneous input 'and'"),
        ("'abc", "token recognition error"),
        (r"'\q' == ''", "unable to unescape"),
        ("9223372036854775808 > 0", "invalid int literal"),
        ("1e999 > 1.0", "invalid double literal"),
        ("if == 1", "reserved identifier: if"),
        ("noSuchVar", "undeclared reference to 'noSuchVar' (in container '')"),
        ("noSuchFunction(1)", "undeclared reference to 'noSuchFunction'"),
        ("device.attributes.exists(x, y)", "undeclared reference to 'y'"),
        ("{'a-b': 1}.`a-b` == 1", "token recognition error at: '`'"),
        ("int('x') == 1", "program instantiation failed: not a whole number: 'x'"),
        ("int(1e300) == 1", "program instantiation failed: integer overflow"),
        ("uint(-1) == 1u", "unsigned integer overflow"),
        ("bool('yes')", "program instantiation failed: not a bool"),
        (r"string(b'\xff') == ''", "invalid UTF-8"),
        ("device.name == ''", "undefined field 'name'"),
        ("device.driver.x == ''", "type 'string' does not support field selection"),
        ("1", "must evaluate to bool or the unknown type, not int"),
        ("device.driver", "must evaluate to bool or the unknown type, not string"),
        ("[true]", "must evaluate to bool or the unknown type, not list(bool)"),
        ("dyn(true)", "must evaluate to bool or the unknown type, not dyn"),
        ("device.driver == 1", "found no matching overload for '_==_' applied to '(string, int)'"),
        ("1 == 1.0", "found no matching overload for '_==_' applied to '(int, double)'"),
        ("1 + 1.0 > 1.0", "found no matching overload for '_+_' applied to '(int, double)'"),
        ("'a'.size(1) == 1", "found no matching overload for 'size' applied to 'string.(int)'"),
        ("device.capacity['x'].y > quantity('1')", "found no matching overload for '_>_'"),
        ("device.attributes[1].x == 1", "found no matching overload for '_[_]'"),
        ("1 && true", "expected type 'bool' but found 'int'"),
        ("[1, 'a'] == []", "expected type 'int' but found 'string'"),
        ("[device.attributes['a'].b, 3].max() == 3", "expected type 'any' but found 'int'"),
        ("{'a': 1, 2: 2} == {}", "expected type 'string' but found 'int'"),
        ("'abc'.all(x, true)", "expression of type 'string' cannot be range of a comprehension"),
        ("device.attributes['a'].b.exists(x, true)", "expression of type 'any' cannot be range of a comprehension"),
        ("has(device)", "invalid argument to has() macro"),
        ("[1].all(1, true)", "argument must be a simple name"),
        ("'a'.matches('(')", "invalid matches argument"),
        ("'a'.find('(') == ''", "invalid find argument"),
        ("'a'.matches('(?=a)')", "unsupported syntax"),
        (r"'a'.matches(r'(a)\1')", "invalid escape sequence"),
        ("'a'.matches('a**')", "invalid nested repetition"),
        ("'a'.matches('a{1001}')", "invalid repeat count"),
    ],
)
def test_does_not_compile(text: str, why: str) -> None:
    with pytest.raises(CelError) as caught:
        compile_selector(text)
    assert why in str(caught.value)


def test_an_error_says_where() -> None:
    with pytest.raises(CelError) as caught:
        compile_selector("true &&\n  nobody")
    assert str(caught.value) == "undeclared reference to 'nobody' (in container ''), at line 2, column 3"
    where = "compilation failed: ERROR: <input>:2:3: undeclared reference to 'nobody' (in container '')"
    assert caught.value.report == f"{where}\n |   nobody\n | ..^"


@pytest.mark.parametrize(
    "text",
    [
        "(" * 500 + "true" + ")" * 500,
        "!" * 501 + "(" * 400 + "true" + ")" * 400,
        "[" * 500 + "]" * 500 + " == []",
        "1" + " + 1" * 2000 + " > 0",
        "device.attributes['a']" + ".b" * 2000,
        "true ? true : " * 600 + "true",
        "'a'.matches('" + "(" * 400 + ")" * 400 + "')",
        "'a'.matches('((a{1000}){1000}){1000}')",
        "'a'.matches('((((){1000}){1000}){1000}){1000}" + "b{900}" * 3 + "')",
        "optional.of(1)" + ".optMap(x, x)" * 100 + ".hasValue()",
        "true" + " " * MAX_BYTES,
        "cel.bind(a, {1: 1}, " + "cel.bind(a, {a: a}, " * 40 + "a == a" + ")" * 41,
        "cel.bind(a, {1: 1}, " + "cel.bind(a, {a: a}, " * 40 + "a + 1 == 1" + ")" * 41,
    ],
    ids=lambda text: text[:20],
)
def test_what_is_too_large_does_not_compile(text: str) -> None:
    with pytest.raises(CelError, match=r"too|more than"):
        compile_selector(text)


@pytest.mark.parametrize("text", ["1" * 5000, "0x" + "1" * 5000, "1" * 5000 + "u"], ids=["int", "hex", "uint"])
def test_numbers_of_any_length_are_read(text: str) -> None:
    with pytest.raises(CelError, match=r"invalid u?int literal"):
        compile_selector(f"{text} == {text}")
    assert facing(f"{'0' * 5000}7 == 7") is True


def test_how_deep_an_expression_may_be_does_not_depend_on_who_compiles_it() -> None:
    def called_from(depth: int) -> bool:
        text = "(" * 70 + f"{depth} > 0" + ")" * 70
        return compile_selector(text).matches(GPU) if depth == 1 else called_from(depth - 1)

    assert called_from(300) is True


def test_long_chains_compile() -> None:
    assert facing(" && ".join(["device.driver == 'gpu.example.com'"] * 250)) is True
    assert facing(f"7 in [{', '.join(map(str, range(1500)))}]") is True


@pytest.mark.parametrize(
    "text",
    [
        "[1,2,3,4,5,6,7,8,9].all(a, " * 8 + "true" + ")" * 8,
        "cel.bind(a, 'aaaaaaaaaaaaaaaaaaaa', " + "cel.bind(a, a + a, " * 30 + "a != ''" + ")" * 31,
        "cel.bind(a, [1, 2], " + "cel.bind(a, a + a, " * 30 + "a != []" + ")" * 31,
        "'aaaaaaaa'" + ".replace('', 'aaaaaaaa')" * 30 + " == ''",
        "lists.range(100000).map(a, lists.range(100000)).size() > 0",
        "lists.range(100000).distinct().size() > 0",
        "lists.range(3000).map(i, string(i)).join('').findAll('([0-9]+)+x').size() > 0",
        "lists.range(9999).exists(i, ('a' + string(i)).matches('(a|b|c|[0-9]){1,100}x' + string(i)))",
        "lists.range(99999).exists(i, 'a'.matches('((a{1000}){1000}){1000}' + string(i)) && false)",
        "lists.range(9999).map(i, (i * 7919) % 9973).map(i, lists.range(9999).sort()).size() > 0",
        *(
            "cel.bind(a, [1], " + "cel.bind(a, [a, a], " * 40 + f"{end}" + ")" * 41
            for end in (
                "a == a",
                "a in [a]",
                "a.distinct() == []",
                "a.flatten().size() == 1",
                "optional.of(a) == optional.of(a)",
                "'%s'.format([a]) == ''",
                "lists.range(9999).all(i, a != [])",
                "sets.contains([a], [a])",
            )
        ),
    ],
    ids=lambda text: text[:20] + text.rstrip(")")[-30:],
)
def test_what_costs_too_much_is_ended(text: str) -> None:
    assert "cost limit exceeded" in str(facing(text)) or "would be longer" in str(facing(text))


def test_nothing_absorbs_the_end_of_the_budget() -> None:
    costly = "[1,2,3,4,5,6,7,8,9].all(a, " * 8 + "true" + ")" * 8
    assert "cost limit exceeded" in str(facing(f"{costly} || true"))
    assert "cost limit exceeded" in str(facing(f"[1].exists(x, {costly} || true)"))


def test_many_evaluations_may_be_dear_only_now_and_then() -> None:
    dear = compile_selector("lists.range(1000).all(i, lists.range(150).all(j, i + j >= 0))")
    cheap = compile_selector("device.attributes.all(name, name != '')")
    purse = Purse(200)
    assert all(cheap.matches(GPU, purse) for _ in range(5000))
    with pytest.raises(CelRuntimeError, match="cost limit exceeded"):
        dear.matches(GPU, purse)
    with pytest.raises(CelRuntimeError, match="cost limit exceeded"):
        dear.matches(GPU, purse)
    assert purse.left == 200
    assert all(cheap.matches(GPU, purse) for _ in range(100))
    assert purse.left > 200
    purse.refill(100_000)
    assert purse.left == 100_000


def test_what_is_known_of_a_pattern_costs_little() -> None:
    """A usual pattern is looked for in texts of thousands of devices."""
    selector, purse = compile_selector("device.attributes['gpu.example.com'].model.matches('^A1.*(0|1)$')"), Purse(10)
    assert all(selector.matches(GPU, purse) for _ in range(5000))
    assert purse.left > 900_000


def test_expressions_are_kept_but_not_all() -> None:
    first = compile_selector("1 == 1")
    assert compile_selector("1 == 1") is first
    for number in range(100):
        compile_selector(f"{number} == {number}" + " " * 10_000)
    assert compile_selector("1 == 1") is not first


def test_patterns_take_bounded_memory() -> None:
    pattern = regex.compiled("(.?){600}y")
    tracemalloc.start()
    try:
        for number in range(100):
            assert not pattern.is_in(f"{number:04d}" * 16)
        assert tracemalloc.get_traced_memory()[1] < 4_000_000
    finally:
        tracemalloc.stop()


def test_patterns_take_linear_time() -> None:
    assert facing("'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa'.matches('^(a+)+$b')") is False


def test_a_device_whose_version_cannot_be_read_is_not_decided_on() -> None:
    view = device_view({"x.io/version": Version("one")})
    with pytest.raises(CelRuntimeError, match=r"attribute x.io/version: 'one' is not a semantic version"):
        compile_selector("true").matches(Facts.of("x.io", view))


def test_shared_devices_and_fine_amounts() -> None:
    nano = CapacityView(Fraction(1, 10**9), None, (), None, None, None, "a")
    view = device_view({}, {"x.io/a": nano}, shareable=True)
    text = "device.allowMultipleAllocations && device.capacity['x.io'].a == quantity('1n')"
    assert compile_selector(text).matches(Facts.of("x.io", view)) is True


@pytest.mark.parametrize("case", conformance("dra_cel", "cel"))
def test_as_kubernetes(case: dict[str, Any]) -> None:
    want = case["want"]
    if "compileError" in want:
        with pytest.raises(CelError) as caught:
            compile_selector(case["expression"])
        # Where several things are wrong only the first is told, without what else could stand there.
        assert caught.value.report.split("\n")[0] in want["compileError"].replace(" expecting ", "\n")
        return
    selector = compile_selector(case["expression"])
    assert selector.max_cost == want["maxCost"]
    facts = device(case["driver"], case["device"])
    if "matchError" not in want:
        assert selector.matches(facts) is want["match"]
        return
    with pytest.raises(CelRuntimeError) as failed:
        selector.matches(facts)
    # An attribute without a value is not even in the view.
    assert str(failed.value) == want["matchError"] or want["matchError"].endswith("unsupported attribute value")


def _expressions(value: Any) -> set[str]:
    if isinstance(value, list):
        return {text for one in value for text in _expressions(one)}
    if not isinstance(value, dict):
        return set()
    own = {text} if isinstance(text := value.get("expression"), str) else set()
    return own | {text for one in value.values() for text in _expressions(one)}


@pytest.mark.parametrize("case", conformance("dra_allocator") + conformance("dynamicresources"))
def test_selectors_of_allocations_compile_as_there(case: dict[str, Any]) -> None:
    """Those that do not are named in the error that is expected."""
    for text in _expressions({name: value for name, value in case.items() if name != "want"}):
        if "CEL compile error" not in str(case["want"]):
            assert compile_selector(text).max_cost <= MAX_COST
        elif text == "noSuchVar":
            with pytest.raises(CelError) as caught:
                compile_selector(text)
            assert caught.value.report in case["want"]["error"]
