"""Grammars of names, keys and values, at their edges."""

from __future__ import annotations

import pytest

from kubenexus.common.sandbox.validation import grammar

GOOD: dict[str, list[str]] = {
    "is_dns_label": ["a", "0", "a-b", "x" * 63],
    "is_dns_subdomain": ["a.b", "a-1.b-2", "1.2", "x" * 253],
    "is_qualified_name": ["a", "A_b.c-D", "example.com/Name", "x" * 63, "a" * 253 + "/x"],
    "is_label_value": ["", "a", "A_b.c-D", "0-3_8-11", "x" * 63],
    "is_c_identifier": ["a", "_", "numaNode", "x1"],
    "is_semver": ["1.2.3", "0.0.0", "1.2.3-rc.1+build.5", "1.0.0--"],
    "is_extended_resource": ["nvidia.com/gpu", "example.com/Foo"],
}
BAD: dict[str, list[str]] = {
    "is_dns_label": ["", "-a", "a-", "A", "a.b", "a_b", "x" * 64, "a\n", "ä"],
    "is_dns_subdomain": ["", ".a", "a..b", "A.b", "x" * 254, "a\n"],
    "is_qualified_name": ["", "/a", "a/", "a/b/c", "-a", "a-", "A.com/x", "x" * 64, "a" * 254 + "/x", "a b", "a\n"],
    "is_label_value": ["-a", "a-", "a,b", "a b", "x" * 64, "é", "a\n"],
    "is_c_identifier": ["", "1a", "numa-node", "a.b", "ä"],
    "is_semver": ["1", "1.2", "01.2.3", "1.2.3-01", "v1.2.3", "1.2.3 ", "١.2.3"],
    "is_extended_resource": ["gpu", "kubernetes.io/x", "requests.a.io/x", "a b/c", "x/"],
}


@pytest.mark.parametrize(("name", "text"), [(name, text) for name, texts in GOOD.items() for text in texts])
def test_good(name: str, text: str) -> None:
    assert getattr(grammar, name)(text)


@pytest.mark.parametrize(("name", "text"), [(name, text) for name, texts in BAD.items() for text in texts])
def test_bad(name: str, text: str) -> None:
    assert not getattr(grammar, name)(text)


def test_lengths_are_bytes() -> None:
    assert grammar.label_value("é" * 32)[0] == "must be no more than 63 bytes"
