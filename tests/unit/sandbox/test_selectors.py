"""Label and field selectors, as queries and as objects."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubenexus.common.sandbox.errors import ApiError
from kubenexus.common.sandbox.kinds import BUILTIN
from kubenexus.common.sandbox.selectors import FieldSelector, LabelSelector, matches_label_selector

LABELS = {"app": "web", "tier": "gold", "gpus": "8", "example.com/zone": "a", "empty": ""}

MATCHING = [
    "",
    "app=web",
    "app==web",
    "app = web , tier=gold",
    "app!=db",
    "absent!=anything",
    "app",
    "!absent",
    "app in (web,db)",
    "app in ( web )",
    "app notin (db)",
    "absent notin (db)",
    "empty=",
    "empty in (,x)",
    "gpus>7",
    "gpus<9",
    "example.com/zone=a",
    "in=x,notin=y",  # the words of the language are also names
]
OTHER = ["app=db", "app!=web", "absent", "!app", "app in (db)", "app notin (web)", "gpus>8", "tier>1", "app=web,tier=x"]


@pytest.mark.parametrize("text", MATCHING[:-1])
def test_matches(text: str) -> None:
    assert LabelSelector.parse(text).matches(LABELS)


@pytest.mark.parametrize("text", [*OTHER, MATCHING[-1]])
def test_does_not_match(text: str) -> None:
    assert not LabelSelector.parse(text).matches(LABELS)


@pytest.mark.parametrize(
    "text",
    ["=x", "a=b,", ",a", "a in", "a in x", "a in (x", "a=b=c", "a=(b)", "a b", "a=%", "-a=b", "a>x", "a=-b", "!"],
)
def test_nonsense_is_refused(text: str) -> None:
    with pytest.raises(ApiError) as refusal:
        LabelSelector.parse(text)
    assert refusal.value.code == 400


keys = st.from_regex(r"[a-z]([a-z0-9]{0,4}[a-z0-9])?", fullmatch=True)
label_sets = st.dictionaries(keys, keys, max_size=4)


@given(label_sets, keys, st.sets(keys, min_size=1, max_size=3))
def test_query_and_object_say_the_same(labels: dict[str, str], key: str, values: set[str]) -> None:
    listed = ",".join(sorted(values))
    for text, operator, wanted in [
        (f"{key} in ({listed})", "In", values),
        (f"{key} notin ({listed})", "NotIn", values),
        (key, "Exists", ()),
        (f"!{key}", "DoesNotExist", ()),
    ]:
        selector = {"matchExpressions": [{"key": key, "operator": operator, "values": list(wanted)}]}
        assert LabelSelector.parse(text).matches(labels) is matches_label_selector(selector, labels)


def test_an_empty_selector_object_matches_everything_and_an_absent_one_nothing() -> None:
    assert matches_label_selector({}, None)
    assert not matches_label_selector(None, LABELS)
    assert matches_label_selector({"matchLabels": {"app": "web"}}, LABELS)


PODS = next(kind for kind in BUILTIN if kind.name == "Pod")
NODES = next(kind for kind in BUILTIN if kind.name == "Node")
POD: dict[str, Any] = {
    "metadata": {"name": "a", "namespace": "default"},
    "spec": {"nodeName": "n1"},
    "status": {"phase": "Running", "podIPs": [{"ip": "10.0.0.1"}]},
}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", True),
        ("spec.nodeName=n1", True),
        ("spec.nodeName==n1,status.phase!=Failed", True),
        ("spec.nodeName=", False),
        ("metadata.name=a,metadata.namespace=default", True),
        ("status.podIP=10.0.0.1", True),
        ("spec.hostNetwork=false", True),
        ("status.phase!=Running", False),
        (r"metadata.name=a\,b", False),
    ],
)
def test_fields_of_a_pod(text: str, expected: bool) -> None:
    assert FieldSelector.parse(text, PODS.fields).matches(POD) is expected


def test_an_unset_flag_of_a_node_counts_as_false() -> None:
    assert FieldSelector.parse("spec.unschedulable=false", NODES.fields).matches({"spec": {}})


@pytest.mark.parametrize(
    ("text", "message"),
    [("spec.colour=red", "field label not supported: spec.colour"), ("nonsense", "can't understand 'nonsense'")],
)
def test_an_unknown_field_is_refused_by_name(text: str, message: str) -> None:
    with pytest.raises(ApiError, match=message):
        FieldSelector.parse(text, PODS.fields)
