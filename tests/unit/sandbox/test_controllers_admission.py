"""Built-in admission and the cutting of warnings, without any webhook."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubenexus.common.sandbox.admission import cut_warnings
from kubenexus.common.sandbox.admission_builtin import admit_new_pod, admit_pod_update, check_priority_class
from kubenexus.common.sandbox.errors import ApiError

Obj = dict[str, Any]

HIGH: Obj = {"metadata": {"name": "high"}, "value": 1000, "preemptionPolicy": "Never"}
NORMAL: Obj = {"metadata": {"name": "normal"}, "value": 5, "globalDefault": True}
LOWER: Obj = {"metadata": {"name": "lower"}, "value": 3, "globalDefault": True}


def pod(**spec: Any) -> Obj:
    return {"metadata": {"generateName": "p-"}, "spec": {"containers": []} | spec}


PRIORITIES = [
    pytest.param({}, [], {"priority": 0, "preemptionPolicy": "PreemptLowerPriority"}, id="no class, no default"),
    pytest.param(
        {"priorityClassName": "high"},
        [HIGH],
        {"priority": 1000, "preemptionPolicy": "Never", "priorityClassName": "high"},
        id="named class",
    ),
    pytest.param({}, [HIGH, NORMAL], {"priority": 5, "priorityClassName": "normal"}, id="global default"),
    pytest.param({}, [NORMAL, LOWER], {"priority": 3, "priorityClassName": "lower"}, id="lowest of two defaults"),
    pytest.param({"priorityClassName": "high", "priority": 1000}, [HIGH], {"priority": 1000}, id="right number given"),
    pytest.param(
        {"priorityClassName": "system-node-critical"},
        [],
        {"priority": 2_000_001_000, "preemptionPolicy": "PreemptLowerPriority"},
        id="system class",
    ),
]


@pytest.mark.parametrize(("spec", "classes", "expected"), PRIORITIES)
def test_priority(spec: Obj, classes: list[Obj], expected: Obj) -> None:
    admitted = admit_new_pod(pod(**spec), classes)["spec"]
    assert {key: admitted.get(key) for key in expected} == expected


REFUSALS = [
    pytest.param(
        {"priorityClassName": "x"}, 'pods "p-" is forbidden: no PriorityClass with name x was found', id="unknown"
    ),
    pytest.param(
        {"priorityClassName": "high", "priority": 7},
        'pods "p-" is forbidden: the integer value of priority (7) must not be provided in pod spec; '
        "priority admission controller computed 1000 from the given PriorityClass name",
        id="other number",
    ),
    pytest.param(
        {"priorityClassName": "high", "preemptionPolicy": "PreemptLowerPriority"},
        'pods "p-" is forbidden: the string value of PreemptionPolicy (PreemptLowerPriority) must not be provided in '
        "pod spec; priority admission controller computed Never from the given PriorityClass name",
        id="other policy",
    ),
]


@pytest.mark.parametrize(("spec", "message"), REFUSALS)
def test_priority_refused(spec: Obj, message: str) -> None:
    with pytest.raises(ApiError) as refused:
        admit_new_pod(pod(**spec), [HIGH])
    assert (refused.value.code, refused.value.message) == (403, message)


def test_update_keeps_the_priority() -> None:
    old = admit_new_pod(pod(priorityClassName="high"), [HIGH])
    assert admit_pod_update(pod(priorityClassName="high"), old)["spec"]["priority"] == 1000


NOT_READY = {
    "key": "node.kubernetes.io/not-ready",
    "operator": "Exists",
    "effect": "NoExecute",
    "tolerationSeconds": 300,
}
UNREACHABLE = NOT_READY | {"key": "node.kubernetes.io/unreachable"}
TOLERATIONS = [
    pytest.param([], [NOT_READY, UNREACHABLE], id="none given"),
    pytest.param([{"operator": "Exists"}], [], id="tolerates everything"),
    pytest.param([{"operator": "Exists", "effect": "NoSchedule"}], [NOT_READY, UNREACHABLE], id="other effect"),
    pytest.param([NOT_READY | {"tolerationSeconds": 5}], [UNREACHABLE], id="one given"),
]


@pytest.mark.parametrize(("given_ones", "added"), TOLERATIONS)
def test_tolerations(given_ones: list[Obj], added: list[Obj]) -> None:
    assert admit_new_pod(pod(tolerations=given_ones), [])["spec"]["tolerations"] == given_ones + added


@pytest.mark.parametrize(
    ("name", "creating", "refused"), [("other", True, True), ("other", False, True), ("normal", False, False)]
)
def test_second_global_default(name: str, creating: bool, refused: bool) -> None:
    second = {"metadata": {"name": name}, "globalDefault": True}
    if not refused:
        check_priority_class(second, [NORMAL], creating=creating)
        return
    with pytest.raises(ApiError, match="PriorityClass normal is already marked as default"):
        check_priority_class(second, [NORMAL], creating=creating)


CUTS = [
    pytest.param(["a", "b", "a", ""], ["a", "b"], id="each once"),
    pytest.param(["line\nbreak", "b"], ["b"], id="control characters cannot be sent"),
    pytest.param(["x" * 4096], ["x" * 4096], id="just fits"),
    pytest.param(["x" * 4096, "b"], ["x" * 256, "b"], id="one too many cuts all"),
    pytest.param(
        [f"{i:03}" * 100 for i in range(20)], [(f"{i:03}" * 100)[:256] for i in range(16)], id="rest left out"
    ),
]


@pytest.mark.parametrize(("texts", "kept"), CUTS)
def test_cut_warnings(texts: list[str], kept: list[str]) -> None:
    assert cut_warnings(texts) == kept


@given(st.lists(st.text(max_size=600), max_size=60))
def test_warnings_stay_within_bounds(texts: list[str]) -> None:
    assert sum(map(len, cut_warnings(texts))) < 4096 + 256
