"""The grammars of Kubernetes names, label keys and values.

Each grammar comes twice: `dns_label(text)` lists what is wrong in the API server's words (an empty list means valid),
and `is_dns_label(text)` only says yes or no. Lengths are counted in bytes of UTF-8, as the server counts them.
"""

from __future__ import annotations

import re
from collections.abc import Callable

Grammar = Callable[[str], list[str]]

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_DNS_1035 = "[a-z]([-a-z0-9]*[a-z0-9])?"
_KEY = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_IDENTIFIER = "[A-Za-z_][A-Za-z0-9_]*"
_REASON = "[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?"
_NUMBER = "(0|[1-9][0-9]*)"
_PRERELEASE = "(0|[1-9][0-9]*|[0-9]*[a-zA-Z-][0-9a-zA-Z-]*)"
_SEMVER = rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}(-{_PRERELEASE}(\.{_PRERELEASE})*)?(\+[0-9a-zA-Z-]+(\.[0-9a-zA-Z-]+)*)?"

_ALNUM_ENDS = "and must start and end with an alphanumeric character"
_LABEL_RULE = f"a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', {_ALNUM_ENDS}"
_SUBDOMAIN_RULE = (
    f"a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', {_ALNUM_ENDS}"
)
_DNS_1035_RULE = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, "
    "and end with an alphanumeric character"
)
_KEY_RULE = f"must consist of alphanumeric characters, '-', '_' or '.', {_ALNUM_ENDS}"
_VALUE_RULE = (
    f"a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', {_ALNUM_ENDS}"
)
_IDENTIFIER_RULE = (
    "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric "
    "characters or '_'"
)
_REASON_RULE = (
    "a condition reason must start with alphabetic character, optionally followed by a string of alphanumeric "
    "characters or '_,:', and must end with an alphanumeric character or '_'"
)


def dns_label(text: str) -> list[str]:
    """RFC 1123 label: pod containers, namespaces, DRA requests and devices."""
    problems = _longer_than(63, text, "characters")
    if not re.fullmatch(_LABEL, text):
        dotted = re.fullmatch(_SUBDOMAIN, text)
        problems.append("must not contain dots" if dotted else _explain(_LABEL_RULE, _LABEL, "my-name", "123-abc"))
    return problems


def dns_subdomain(text: str) -> list[str]:
    """RFC 1123 subdomain: the names of most objects."""
    return _subdomain(text, "characters")


def dns_1035_label(text: str) -> list[str]:
    """RFC 1035 label: a label that starts with a letter (services)."""
    return _longer_than(63, text, "characters") + _mismatch(text, _DNS_1035_RULE, _DNS_1035, "my-name", "abc-123")


def qualified_name(text: str) -> list[str]:
    """Label and annotation keys, taint keys, resource names: `[prefix/]name`."""
    prefix, slash, name = text.rpartition("/")
    rule = _explain(_KEY_RULE, _KEY, "MyName", "my.name", "123-abc")
    if "/" in prefix:
        return [f"a valid label key {rule} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"]
    problems: list[str] = []
    if slash:
        problems += [f"prefix part {why}" for why in (_subdomain(prefix, "bytes") if prefix else ["must be non-empty"])]
    problems += [f"name part {why}" for why in ([] if name else ["must be non-empty"]) + _longer_than(63, name)]
    return problems + ([] if re.fullmatch(_KEY, name) else [f"name part {rule}"])


def label_value(text: str) -> list[str]:
    """Values of labels, node selectors and taints."""
    return _longer_than(63, text) + _mismatch(text, _VALUE_RULE, f"({_KEY})?", "MyValue", "my_value", "12345")


def c_identifier(text: str) -> list[str]:
    """The name part of DRA attributes and capacities."""
    return _mismatch(text, _IDENTIFIER_RULE, _IDENTIFIER, "my_name", "MY_NAME", "MyName")


def condition_reason(text: str) -> list[str]:
    """The `reason` of a metav1 condition."""
    examples = ("my_name", "MY_NAME", "MyName", "ReasonA,ReasonB", "ReasonA:ReasonB")
    return _mismatch(text, _REASON_RULE, _REASON, *examples)


def semver(text: str) -> list[str]:
    """DRA version attributes: semantic version 2.0.0."""
    return [] if re.fullmatch(_SEMVER, text) else ["must be a string compatible with semver.org spec 2.0.0"]


def extended_resource(text: str) -> list[str]:
    """Resource names outside the kubernetes.io domain, such as `nvidia.com/gpu`."""
    foreign = "/" in text and "kubernetes.io/" not in text and not text.startswith("requests.")
    good = foreign and not qualified_name(f"requests.{text}")
    return [] if good else ["must be a valid extended resource name"]


def env_name(text: str) -> list[str]:
    """Names of environment variables: printable ASCII without `=`."""
    if not text:
        return ["environment variable name must be non-empty"]
    if all(" " <= char <= "~" and char != "=" for char in text):
        return []
    return ["a valid environment variable name must consist only of printable ASCII characters other than '='"]


def port_name(text: str) -> list[str]:
    """Names of container and service ports (IANA service names)."""
    rules = (
        (re.fullmatch("[-a-z0-9]+", text), "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)"),
        (re.search("[a-z]", text), "must contain at least one letter (a-z)"),
        ("--" not in text, "must not contain consecutive hyphens"),
        (not text.startswith("-") and not text.endswith("-"), "must not begin or end with a hyphen"),
    )
    return _longer_than(15, text, "characters") + [why for kept, why in rules if not kept]


def port_number(port: int) -> list[str]:
    """TCP and UDP port numbers."""
    return [] if 1 <= port <= 65535 else ["must be between 1 and 65535, inclusive"]


def is_dns_label(text: str) -> bool:
    """Whether `text` is an RFC 1123 label."""
    return not dns_label(text)


def is_dns_subdomain(text: str) -> bool:
    """Whether `text` is an RFC 1123 subdomain."""
    return not dns_subdomain(text)


def is_qualified_name(text: str) -> bool:
    """Whether `text` can be the key of a label."""
    return not qualified_name(text)


def is_label_value(text: str) -> bool:
    """Whether `text` can be the value of a label."""
    return not label_value(text)


def is_c_identifier(text: str) -> bool:
    """Whether `text` is a C identifier."""
    return not c_identifier(text)


def is_semver(text: str) -> bool:
    """Whether `text` is a semantic version."""
    return not semver(text)


def is_extended_resource(text: str) -> bool:
    """Whether `text` names an extended resource."""
    return not extended_resource(text)


def _subdomain(text: str, unit: str) -> list[str]:
    return _longer_than(253, text, unit) + _mismatch(text, _SUBDOMAIN_RULE, _SUBDOMAIN, "example.com")


def _longer_than(limit: int, text: str, unit: str = "bytes") -> list[str]:
    """Bytes are counted whatever the server calls them."""
    return [f"must be no more than {limit} {unit}"] if len(text.encode()) > limit else []


def _mismatch(text: str, rule: str, pattern: str, *examples: str) -> list[str]:
    return [] if re.fullmatch(pattern, text) else [_explain(rule, pattern, *examples)]


def _explain(rule: str, pattern: str, *examples: str) -> str:
    shown = " or ".join(f"'{example}', " for example in examples)
    return f"{rule} (e.g. {shown}regex used for validation is '{pattern}')"
