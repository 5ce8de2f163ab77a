"""How rights that are granted are compared with rights that are used."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.chart.rights import Call, Right, missing, superfluous, used
from tests.contract.objects import rows

GET = Right("get", "", "secrets", "system", "certs")
LIST = Right("list", "", "nodes")


@pytest.mark.parametrize(
    ("grants", "calls", "lacking", "unused"),
    rows(
        [
            ("exact", [GET], [Call(GET, False)], [], []),
            ("never used", [GET, LIST], [Call(GET, False)], [], ["list nodes"]),
            ("never granted", [LIST], [Call(LIST, False), Call(GET, False)], ["get secrets certs"], []),
            ("granted and refused", [GET], [Call(GET, True)], ["get secrets certs"], []),
            ("another name", [GET], [Call(GET._replace(name="x"), False)], ["get secrets x"], ["get secrets certs"]),
            ("another space", [GET], [Call(GET._replace(namespace="x"), False)], [str(GET)], [str(GET)]),
            ("any name", [GET._replace(name="")], [Call(GET, False)], [], []),
        ]
    ),
)
def test_comparison(grants: list[Right], calls: list[Call], lacking: list[str], unused: list[str]) -> None:
    assert missing(grants, calls) == lacking
    assert superfluous(grants, calls) == unused


def test_audit_log_is_read(tmp_path: Path) -> None:
    log, user = tmp_path / "audit.jsonl", {"username": "system:serviceaccount:system:webhook"}
    about = {"resource": "pods", "subresource": "binding", "namespace": "team", "name": "a", "apiVersion": "v1"}
    events = [
        {"user": user, "verb": "create", "objectRef": about, "responseStatus": {"code": 403}},
        {"user": user, "verb": "get", "requestURI": "/version"},
        {"user": {"username": "admin"}, "verb": "delete", "objectRef": about},
    ]
    log.write_text("".join(f"{json.dumps(event)}\n" for event in events))
    assert used(log, ("system", "webhook")) == {Call(Right("create", "", "pods/binding", "team", "a"), True)}
