"""Events, in their two forms: v1, as they are stored, and events.k8s.io/v1."""

from __future__ import annotations

from kubenexus.common.sandbox.validation.field import Field
from kubenexus.common.sandbox.validation.grammar import qualified_name

NOTE_CHARACTERS = 1024
SHORT_CHARACTERS = 128


def event(new: Field, old: Field) -> None:
    """An event. The newer form, and whatever has an eventTime, must say who reports what."""
    modern = new["apiVersion"].text().startswith("events.k8s.io/")
    about = new["regarding" if modern else "involvedObject"]
    shown = Field(about["namespace"].text(), "involvedObject.namespace", new.errors)
    namespace = new["metadata"]["namespace"].text()
    if new["eventTime"].present:
        if not shown.text() and namespace not in ("default", "kube-system"):
            shown.invalid("does not match event.namespace")
        _report(new, modern)
    elif (shown.text() or "default") != namespace and namespace:
        shown.invalid("does not match event.namespace")
    if modern and not old.present:
        _modern(new)


def _report(new: Field, modern: bool) -> None:
    reporter = new["reportingController" if modern else "reportingComponent"]
    if not reporter.text():
        reporter.required()
    reporter.follow(qualified_name)
    for name in ("reportingInstance", "action", "reason"):
        if not new[name].text():
            new[name].required()
        _short(new[name], name, SHORT_CHARACTERS)
    _short(new["note" if modern else "message"], "message", NOTE_CHARACTERS)


def _short(field: Field, name: str, limit: int) -> None:
    if len(field.text().encode()) > limit:
        Field("", name, field.errors).invalid(f"can have at most {limit} characters")


def _modern(new: Field) -> None:
    if not new["eventTime"].present:
        new["eventTime"].required()
    if new["type"].text() not in ("Normal", "Warning"):
        new["type"].invalid(f"has invalid value: {new['type'].text()}", "")
    series = new["series"]
    if series.present and series["count"].integer() < 2:
        series["count"].invalid("should be at least 2", "")
    if series.present and not series["lastObservedTime"].present:
        series["lastObservedTime"].required()
