"""The verbs on resources: a request on its way to the registry, and what comes back on its way to the client."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

import orjson
import yaml

from kubenexus.common.sandbox.auth import User
from kubenexus.common.sandbox.deletion import DeleteOptions
from kubenexus.common.sandbox.discovery import subresources
from kubenexus.common.sandbox.errors import ApiError, bad_request, method_not_allowed, no_such_path, success
from kubenexus.common.sandbox.http import Request
from kubenexus.common.sandbox.kinds import Kind
from kubenexus.common.sandbox.patching import MEDIA, Patch, unsupported_media
from kubenexus.common.sandbox.reads import Page, Query
from kubenexus.common.sandbox.registry import Registry
from kubenexus.common.sandbox.routes import Route
from kubenexus.common.sandbox.store import Item
from kubenexus.common.sandbox.tables import table
from kubenexus.common.sandbox.watch import Event, Watch, face, untyped_face
from kubenexus.common.sandbox.writes import Call, Target

Obj = dict[str, Any]

JSON: Final = "application/json"
_YAML: Final = ("application/yaml", "application/apply-patch+yaml")
_DEFAULT_TIMEOUT: Final = 1800.0


@dataclass(slots=True)
class Answer:
    """What the client gets."""

    code: int
    body: bytes
    warnings: list[str] = field(default_factory=list)
    media: str = JSON
    headers: dict[str, str] = field(default_factory=dict)


class _Loader(yaml.SafeLoader):
    """YAML as Kubernetes reads it: dates stay text."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


class Verbs:
    """Answers requests for resources; every refusal is an `ApiError`."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def answer(self, request: Request, route: Route, user: User) -> Answer:
        """Everything but watches."""
        call = _call(request, user)
        if route.subresource:
            answer = self._below(request, route, call)
        elif route.name is None:
            answer = self._collection(request, route, call)
        else:
            answer = self._object(request, route, route.name, call)
        answer.warnings = list(dict.fromkeys(call.warnings))  # a write that was tried again warns again
        return answer

    def _collection(self, request: Request, route: Route, call: Call) -> Answer:
        match request.method:
            case "GET":
                page = self._registry.reads.page(route.kind, route.namespace, query_of(request))
                return Answer(200, self._shown_list(request, route.kind, page))
            case "POST" if route.namespace is not None or not route.kind.resource.namespaced:
                item = self._registry.writes.create(route.kind, route.namespace or "", body_of(request), call)
                return Answer(201, self._shown(request, route.kind, item))
            case "DELETE" if route.namespace is not None or not route.kind.resource.namespaced:
                return self._delete_all(request, route, call)
        raise method_not_allowed()

    def _object(self, request: Request, route: Route, name: str, call: Call) -> Answer:
        target = Target(route.kind, route.namespace or "", name)
        match request.method:
            case "GET":
                item = self._registry.reads.get(route.kind, target.namespace, name)
                return Answer(200, self._shown(request, route.kind, item))
            case "PUT" | "PATCH":
                return self._write(request, target, call)
            case "DELETE":
                return self._delete(request, target, call)
        raise method_not_allowed()

    def _below(self, request: Request, route: Route, call: Call) -> Answer:
        kind, namespace, name = route.kind, route.namespace or "", route.name or ""
        if route.subresource not in subresources(kind):
            raise no_such_path()
        match route.subresource, request.method:
            case "status", "GET":
                return Answer(200, self._shown(request, kind, self._registry.reads.get(kind, namespace, name)))
            case "status", "PUT" | "PATCH":
                return self._write(request, Target(kind, namespace, name, "status"), call)
            case "binding", "POST":
                self._registry.bind(namespace, name, _object_of(request), call=call)
                return Answer(201, orjson.dumps(success() | {"code": 201}))
            case "eviction", "POST":
                self._registry.evict(namespace, name, _object_of(request), call=call)
                return Answer(201, orjson.dumps(success() | {"code": 201}))
        raise method_not_allowed()

    def _write(self, request: Request, target: Target, call: Call) -> Answer:
        if request.method == "PUT":
            item, created = self._registry.writes.update(target, body_of(request), call)
        else:
            item, created = self._registry.writes.patch(target, _patch_of(request), call)
        return Answer(201 if created else 200, self._shown(request, target.kind, item))

    def _delete(self, request: Request, target: Target, call: Call) -> Answer:
        options = _delete_options(request, call)
        item, gone = self._registry.writes.delete(target, options, call)
        if gone and not target.kind.shows_deleted:
            status = success(target.kind.resource, target.name, item.obj["metadata"]["uid"])
            return Answer(200, orjson.dumps(status))
        return Answer(200, self._shown(request, target.kind, item))

    def _delete_all(self, request: Request, route: Route, call: Call) -> Answer:
        options = _delete_options(request, call)
        page = self._registry.reads.page(route.kind, route.namespace, query_of(request))
        for item in page.items:
            meta = item.obj["metadata"]
            try:
                target = Target(route.kind, meta.get("namespace", ""), meta["name"])
                self._registry.writes.delete(target, options, call)
            except ApiError as error:
                if error.code != 404:
                    raise
        return Answer(200, self._shown_list(request, route.kind, page))

    def _shown(self, request: Request, kind: Kind, item: Item) -> bytes:
        match _form(request):
            case "Table":
                return orjson.dumps(self._table(request, kind, [item], {}))
            case "PartialObjectMetadata":
                return orjson.dumps(_partial(item))
        return face(kind, item)

    def _shown_list(self, request: Request, kind: Kind, page: Page) -> bytes:
        meta: Obj = {"resourceVersion": str(page.rv)}
        if page.token:
            meta["continue"] = page.token
        if page.remaining is not None:
            meta["remainingItemCount"] = page.remaining
        match _form(request):
            case "Table":
                return orjson.dumps(self._table(request, kind, page.items, meta))
            case "PartialObjectMetadataList":
                head = {"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "metadata": meta}
                return orjson.dumps(head | {"items": [_partial(item) for item in page.items]})
        shown = face if kind.custom else untyped_face
        head = {"kind": kind.name + "List", "apiVersion": kind.resource.api_version, "metadata": meta, "items": []}
        return orjson.dumps(head)[:-2] + b",".join(shown(kind, item) for item in page.items) + b"]}"

    def _table(self, request: Request, kind: Kind, items: list[Item], meta: Obj) -> Obj:
        include = request.query.get("includeObject", "Metadata")
        return table(kind, (kind.served(item.obj) for item in items), meta, self._registry.clock(), include)

    def watch(self, route: Route, request: Request) -> Watch:
        """The watch a request asks for; one object's if it names one."""
        return self._registry.reads.watch(route.kind, route.namespace, query_of(request, route.name))

    def encode_event(self, request: Request, kind: Kind, event: Event) -> bytes:
        """An event as the client of this request wants it."""
        match _form(request):
            case "Table":
                shown = self._table(request, kind, [event.item], {})
            case "PartialObjectMetadata":
                shown = _partial(event.item)
            case _:
                return event.line(kind)
        return orjson.dumps({"type": event.type, "object": shown}, option=orjson.OPT_APPEND_NEWLINE)


def _form(request: Request) -> str:
    """What the client would rather see than the object itself: a Table, the metadata alone, or nothing else."""
    first = request.headers.get("accept", "").partition(",")[0]
    return next((part[3:] for part in first.replace(" ", "").split(";") if part.startswith("as=")), "")


def _partial(item: Item) -> Obj:
    return {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": item.obj["metadata"]}


def query_of(request: Request, name: str | None = None) -> Query:
    query = request.query
    initial = query.get("sendInitialEvents")
    if initial is not None and query.get("resourceVersionMatch") != "NotOlderThan":
        raise _bad_list_option("Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan")
    fields = query.get("fieldSelector", "")
    return Query(
        labels=query.get("labelSelector", ""),
        fields=",".join(filter(None, (fields, f"metadata.name={name}" if name else ""))),
        limit=_whole(request, "limit") or 0,
        token=query.get("continue", ""),
        version=query.get("resourceVersion", ""),
        match=query.get("resourceVersionMatch", ""),
        initial_events=None if initial is None else request.flag("sendInitialEvents"),
    )


def _bad_list_option(text: str) -> ApiError:
    message = f'ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: {text}'
    cause = {"reason": "FieldValueForbidden", "message": text, "field": "resourceVersionMatch"}
    return ApiError(422, "Invalid", message, {"group": "meta.k8s.io", "kind": "ListOptions", "causes": [cause]})


def watch_seconds(request: Request) -> float:
    """How long a watch lasts if nothing ends it before."""
    return float(_whole(request, "timeoutSeconds") or _DEFAULT_TIMEOUT)


def _whole(request: Request, name: str) -> int | None:
    text = request.query.get(name)
    if not text:
        return None
    if not text.isdecimal():
        raise bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax ({name})')
    return int(text)


def _call(request: Request, user: User) -> Call:
    dry_run = request.query.get("dryRun")
    if dry_run not in (None, "", "All"):
        raise bad_request(f'Invalid value: "{dry_run}": dryRun')
    manager = request.query.get("fieldManager") or request.headers.get("user-agent", "unknown").partition("/")[0]
    validation = request.query.get("fieldValidation") or "Warn"
    return Call(user.name, user.groups, manager, dry_run == "All", validation)


def body_of(request: Request) -> Any:
    """The decoded body; 415 for what we do not read, 400 for what cannot be read."""
    if request.media not in ("", JSON, *_YAML):
        raise unsupported_media([JSON, "application/yaml"])
    return _decoded(request)


def _decoded(request: Request) -> Any:
    try:
        return orjson.loads(request.body)
    except orjson.JSONDecodeError as error:
        if request.media not in _YAML:
            raise bad_request(f"couldn't get version/kind; json parse error: {error}") from None
    try:
        return yaml.load(request.body, _Loader)
    except yaml.YAMLError as error:
        raise bad_request(f"error decoding YAML: {error}") from None


def _object_of(request: Request) -> Obj:
    body = body_of(request)
    if not isinstance(body, dict):
        raise bad_request("the body is not an object")
    return body


def _patch_of(request: Request) -> Patch:
    if request.media not in MEDIA:
        raise unsupported_media(list(MEDIA))
    return Patch(MEDIA[request.media], _decoded(request), request.query.get("fieldManager", ""), request.flag("force"))


def _delete_options(request: Request, call: Call) -> DeleteOptions:
    body = _object_of(request) if request.body else {}
    from_query = {
        "propagationPolicy": request.query.get("propagationPolicy"),
        "gracePeriodSeconds": _whole(request, "gracePeriodSeconds"),
    }
    call.dry_run = call.dry_run or body.get("dryRun") == ["All"]
    return DeleteOptions.from_object({key: value for key, value in from_query.items() if value is not None} | body)
