"""Admission: what stands between a valid request and storage, in the order of a real API server.

Mutating: built-in admission, then the mutating webhooks; if one of these changed the object, all of it once more, where
of the webhooks only those with `reinvocationPolicy: IfNeeded` run again that had run before the last change.
Validating: every webhook is called, then the first refusal counts.

`matchConditions` are CEL, which is not evaluated here: a webhook that has them is called as if they all held, and the
client is told so by a warning, once per webhook. `matchPolicy: Equivalent` makes no difference: the sandbox serves one
version of each kind.
"""

from __future__ import annotations

import base64
import logging
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Final, Protocol

import orjson

from kubenexus.common.kube.resources import (
    MUTATING_WEBHOOKS,
    NAMESPACES,
    PODS,
    PRIORITY_CLASSES,
    VALIDATING_WEBHOOKS,
    Resource,
)
from kubenexus.common.sandbox import admission_builtin as builtin
from kubenexus.common.sandbox.admission_call import Caller, CallError
from kubenexus.common.sandbox.admission_match import AdmissionRequest, Labels, concerns, is_exempt, labels_of
from kubenexus.common.sandbox.errors import ApiError
from kubenexus.common.sandbox.patch import PatchError, json_patch
from kubenexus.common.sandbox.validation import apply_defaults

__all__ = ["Admission", "AdmissionRequest", "DeniedError", "cut_warnings"]

Obj = dict[str, Any]
_log = logging.getLogger(__name__)

_WARNING_LIMIT: Final = 4096
_WARNING_CUT: Final = 256


class Reader(Protocol):
    """What admission reads of the registry."""

    def get(self, res: Resource, namespace: str | None, name: str, /) -> Obj: ...

    def objects(self, res: Resource, /) -> Iterable[Obj]: ...


class DeniedError(ApiError):
    """A refusal by admission, with the warnings that webhooks gave before it; clients get both."""

    def __init__(self, error: ApiError, warnings: list[str]) -> None:
        super().__init__(error.code, error.reason, error.message, error.details)
        self.warnings = warnings


@dataclass(slots=True)
class _Reinvocation:
    """Which webhooks must run again, because the object changed after they had seen it."""

    seen: set[str] = field(default_factory=set)
    again: set[str] = field(default_factory=set)

    def object_changed(self) -> None:
        self.again |= self.seen
        self.seen = set()


@dataclass(frozen=True, slots=True)
class _Hook:
    """One webhook of a configuration object; `key` tells it from every other."""

    key: str
    name: str
    spec: Obj


class Admission:
    """The admission chain of one sandbox. Do not hold the registry's lock while calling: webhooks may call back.

    `service_endpoints` says where a Service (namespace, name) really listens, for webhooks configured by service.
    """

    def __init__(self, registry: Reader) -> None:
        self.service_endpoints: dict[tuple[str, str], tuple[str, int]] = {}
        self._registry = registry
        self._caller = Caller(self._endpoint)
        self._told: set[str] = set()

    def close(self) -> None:
        """Close the connections to the webhooks."""
        self._caller.close()

    def mutate(self, request: AdmissionRequest) -> tuple[Obj, list[str]]:
        """The object to store and warnings for the client; for DELETE the object is the old one, unchanged.

        DeniedError when built-in admission or a webhook refuses.
        """
        warnings: list[str] = []
        try:
            admitted = self._mutated(request, warnings)
        except ApiError as error:
            raise DeniedError(error, cut_warnings(warnings)) from error
        return admitted.obj or admitted.old or {}, cut_warnings(warnings)

    def validate(self, request: AdmissionRequest) -> list[str]:
        """Warnings for the client; DeniedError when built-in admission or a webhook refuses."""
        warnings: list[str] = []
        try:
            self._check_builtin(request)
            self._validate_by_hooks(request, warnings)
        except ApiError as error:
            raise DeniedError(error, cut_warnings(warnings)) from error
        return cut_warnings(warnings)

    def _validate_by_hooks(self, request: AdmissionRequest, warnings: list[str]) -> None:
        """Call them all, so that each sees the request, then raise the first refusal."""
        hooks = [h for h in self._hooks(VALIDATING_WEBHOOKS, request) if self._concerns(h, request, warnings)]
        refusals: list[ApiError] = []
        for hook in hooks:
            try:
                self._ask(hook, request, warnings, mutating=False)
            except ApiError as error:
                refusals.append(error)
        if refusals:
            raise refusals[0]

    def _mutated(self, request: AdmissionRequest, warnings: list[str]) -> AdmissionRequest:
        state = _Reinvocation()
        start = self._builtin(request)
        first = self._mutated_by_hooks(start, state, warnings, again=False)
        if first.obj == start.obj:
            return first
        second = self._builtin(first)
        if second.obj != first.obj:
            state.object_changed()
        return self._mutated_by_hooks(second, state, warnings, again=True)

    def _mutated_by_hooks(
        self, request: AdmissionRequest, state: _Reinvocation, warnings: list[str], *, again: bool
    ) -> AdmissionRequest:
        for hook in self._hooks(MUTATING_WEBHOOKS, request):
            if not self._concerns(hook, request, warnings) or (again and hook.key not in state.again):
                continue
            changed = _patched(hook, request, self._ask(hook, request, warnings, mutating=True))
            if changed.obj != request.obj:
                state.object_changed()
            if hook.spec.get("reinvocationPolicy") == "IfNeeded":
                state.seen.add(hook.key)
            request = changed
        return request

    def _ask(self, hook: _Hook, request: AdmissionRequest, warnings: list[str], *, mutating: bool) -> list[Obj]:
        """The patch operations the webhook answers with; none if it failed and may fail; ApiError if it refuses."""
        if request.dry_run and hook.spec.get("sideEffects") not in ("None", "NoneOnDryRun"):
            raise ApiError(400, "BadRequest", f'admission webhook "{hook.name}" does not support dry run')
        try:
            response = self._caller.call(hook.spec, _review(request), mutating=mutating)
            warnings.extend(response.get("warnings") or ())
            if not response.get("allowed"):
                raise _refusal(hook.name, response.get("status") or {})
            return _operations(response)
        except CallError as failure:
            if hook.spec.get("failurePolicy") == "Ignore":
                _log.warning("Failed calling webhook, failing open %s: %s", hook.name, failure)
                return []
            raise _internal(f'failed calling webhook "{hook.name}": {failure}') from failure

    def _hooks(self, configurations: Resource, request: AdmissionRequest) -> Iterator[_Hook]:
        """Every webhook, configurations by name, webhooks as listed."""
        if is_exempt(request):
            return
        for configuration in sorted(self._registry.objects(configurations), key=_name):
            for index, spec in enumerate(configuration.get("webhooks") or ()):
                yield _Hook(f"{_name(configuration)}/{index}/{spec['name']}", spec["name"], spec)

    def _concerns(self, hook: _Hook, request: AdmissionRequest, warnings: list[str]) -> bool:
        if not concerns(hook.spec, request, self._namespace_labels):
            return False
        if hook.spec.get("matchConditions") and hook.key not in self._told:
            self._told.add(hook.key)
            warnings.append(f"the sandbox does not evaluate matchConditions: {hook.name} is called as if they held")
        return True

    def _endpoint(self, namespace: str, name: str, port: int) -> tuple[str, int]:
        try:
            return self.service_endpoints[namespace, name]
        except KeyError:
            hint = f"the sandbox was not told where {namespace}/{name}:{port} listens"
            raise LookupError(f'service "{name}" not found ({hint})') from None

    def _namespace_labels(self, name: str) -> Labels:
        return labels_of(self._registry.get(NAMESPACES, None, name))

    def _builtin(self, request: AdmissionRequest) -> AdmissionRequest:
        if request.resource != PODS or request.subresource or request.obj is None:
            return request
        if request.operation == "CREATE":
            return replace(request, obj=builtin.admit_new_pod(request.obj, self._registry.objects(PRIORITY_CLASSES)))
        return replace(request, obj=builtin.admit_pod_update(request.obj, request.old or {}))

    def _check_builtin(self, request: AdmissionRequest) -> None:
        if request.resource == PRIORITY_CLASSES and request.obj is not None:
            classes = self._registry.objects(PRIORITY_CLASSES)
            builtin.check_priority_class(request.obj, classes, creating=request.operation == "CREATE")


def cut_warnings(texts: Iterable[str]) -> list[str]:
    """Each text once; beyond 4096 characters in all, each cut to 256 and the rest left out."""
    distinct = [text for text in dict.fromkeys(texts) if text and text.isprintable()]
    if sum(map(len, distinct)) <= _WARNING_LIMIT:
        return distinct
    kept: list[str] = []
    for text in distinct:
        if sum(map(len, kept)) < _WARNING_LIMIT:
            kept.append(text[:_WARNING_CUT])
    return kept


def _review(request: AdmissionRequest) -> Obj:
    res, content = request.resource, request.obj or request.old or {}
    group, _, version = content.get("apiVersion", res.api_version).rpartition("/")
    kind = {"group": group, "version": version, "kind": content.get("kind", res.kind)}
    resource = {"group": res.group, "version": res.version, "resource": res.plural}
    subresource = {"subResource": request.subresource, "requestSubResource": request.subresource}
    namespace = request.name if res == NAMESPACES else request.namespace
    return {
        "kind": "AdmissionReview",
        "apiVersion": "admission.k8s.io/v1",
        "request": {
            "uid": str(uuid.uuid4()),
            "kind": kind,
            "resource": resource,
            "requestKind": kind,
            "requestResource": resource,
            **(subresource if request.subresource else {}),
            **({"name": request.name} if request.name else {}),
            **({"namespace": namespace} if namespace else {}),
            "operation": request.operation,
            "userInfo": {"username": request.user, "groups": list(request.groups)},
            "object": request.obj,
            "oldObject": request.old,
            "dryRun": request.dry_run,
            "options": {"kind": f"{request.operation.capitalize()}Options", "apiVersion": "meta.k8s.io/v1"},
        },
    }


def _operations(response: Obj) -> list[Obj]:
    if not response.get("patch"):
        return []
    if response["patchType"] != "JSONPatch":
        raise CallError(f'unsupported patch type "{response["patchType"]}"')
    try:
        operations = orjson.loads(base64.b64decode(response["patch"]))
    except ValueError as error:
        raise CallError(f"received undecodable patch in webhook response: {error}") from error
    return list(operations or ())


def _patched(hook: _Hook, request: AdmissionRequest, operations: list[Obj]) -> AdmissionRequest:
    if not operations:
        return request
    if request.obj is None:
        text = f'admission webhook "{hook.name}" attempted to modify the object, which is not supported'
        raise _internal(f"{text} for this operation")
    try:
        patched = json_patch(request.obj, operations)
    except PatchError as error:
        raise _internal(str(error)) from error
    return replace(request, obj=apply_defaults(patched.get("kind", request.resource.kind), patched))


def _refusal(name: str, status: Obj) -> ApiError:
    reason = status.get("reason") or ""
    explanation = status.get("message") or reason
    text = f'admission webhook "{name}" denied the request' + (
        f": {explanation}" if explanation else " without explanation"
    )
    return ApiError(max(status.get("code") or 0, 400), reason, text, status.get("details"))


def _internal(text: str) -> ApiError:
    return ApiError(500, "InternalError", f"Internal error occurred: {text}", {"causes": [{"message": text}]})


def _name(obj: Obj) -> str:
    return str(obj["metadata"]["name"])
