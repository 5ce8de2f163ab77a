"""The server's front: authentication, discovery, resources, watches, errors; and the faults that were asked for."""

from __future__ import annotations

import logging
import threading
from functools import partial
from typing import Any, Final

import orjson

from kubenexus.common.sandbox import discovery, openapi
from kubenexus.common.sandbox.auth import Tokens
from kubenexus.common.sandbox.errors import ApiError, internal, method_not_allowed, no_such_path
from kubenexus.common.sandbox.faults import Faults
from kubenexus.common.sandbox.http import Connection, Request
from kubenexus.common.sandbox.registry import Registry
from kubenexus.common.sandbox.routes import route
from kubenexus.common.sandbox.streams import Streamer, Wish
from kubenexus.common.sandbox.verbs import JSON, Answer, Verbs, watch_seconds

Obj = dict[str, Any]

_log = logging.getLogger(__name__)
_HEALTH: Final = ("/healthz", "/livez", "/readyz")
_PUBLIC: Final = (*_HEALTH, "/version")


class Api:
    """Answers every request of one sandbox; called on the connection's thread."""

    def __init__(self, registry: Registry, tokens: Tokens, faults: Faults, bookmark_seconds: float) -> None:
        self._registry = registry
        self._tokens = tokens
        self._faults = faults
        self._verbs = Verbs(registry)
        self._streamer = Streamer(faults, bookmark_seconds)
        self.stopping = threading.Event()

    def __call__(self, request: Request, connection: Connection) -> bool:
        trouble = self._faults.take(request)
        if trouble and trouble.delay:
            self.stopping.wait(trouble.delay)
        try:
            if trouble and trouble.error:
                raise trouble.error
            answer = self._answer(request, connection)
        except ApiError as error:
            answer = _refusal(error)
        except OSError:
            raise
        except Exception as error:  # noqa: BLE001 (a bug here must reach the test as a 500, not as a dead connection)
            _log.exception("%s %s failed", request.method, request.path)
            answer = _refusal(internal(repr(error)))
        if trouble and trouble.lose:
            return False
        if isinstance(answer, bool):
            return answer
        headers = {"Content-Type": answer.media, "Cache-Control": "no-cache, private", **answer.headers}
        connection.send(answer.code, headers, answer.body, answer.warnings)
        return request.headers.get("connection", "").lower() != "close"

    def _answer(self, request: Request, connection: Connection) -> Answer | bool:
        """The answer, or for a watch, once it is over, whether the connection is still good."""
        authorization = request.headers.get("authorization", "")
        if request.path.startswith(_PUBLIC) and not authorization:
            return self._general(request)
        user = self._tokens.user(authorization)
        place = route(self._registry.catalogue, request.path)
        if place is None:
            return self._general(request)
        _check_acceptable(request)
        if request.method == "GET" and request.flag("watch") and not place.subresource:
            wish = Wish(
                timeout=watch_seconds(request),
                bookmarks=request.flag("allowWatchBookmarks"),
                ends_initial=request.flag("sendInitialEvents"),
                encode=partial(self._verbs.encode_event, request, place.kind),
            )
            return self._streamer.serve(connection, lambda: self._verbs.watch(place, request), wish)
        return self._verbs.answer(request, place, user)

    def _general(self, request: Request) -> Answer:
        """Paths that are not about objects."""
        if request.path.startswith(_HEALTH):
            return Answer(200, b"ok", media="text/plain; charset=utf-8")
        if request.path == "/openapi/v2":
            return Answer(200, openapi.old_document(self._registry.catalogue), media=openapi.PROTOBUF)
        aggregate = "g=apidiscovery.k8s.io;v=v2;" in request.headers.get("accept", "").replace(" ", "")
        body = self._document(request.path.strip("/"), aggregate)
        if body is None:
            raise no_such_path()
        if request.method != "GET":
            raise method_not_allowed()
        media = discovery.AGGREGATED if body.get("kind") == "APIGroupDiscoveryList" else JSON
        return Answer(200, orjson.dumps(body), media=media)

    def _document(self, path: str, aggregate: bool) -> Obj | None:
        kinds = list(self._registry.catalogue)
        match path.split("/"):
            case ["version"]:
                return discovery.VERSION
            case ["api" | "apis" as root] if aggregate:
                return discovery.aggregated(kinds, core=root == "api")
            case ["api"]:
                return discovery.core_versions()
            case ["apis"]:
                return discovery.group_list(kinds)
            case ["api", version]:
                return discovery.resource_list(kinds, "", version)
            case ["apis", group]:
                return discovery.group(kinds, group)
            case ["apis", group, version]:
                return discovery.resource_list(kinds, group, version)
            case ["openapi", "v3"]:
                return openapi.index(kinds)
            case ["openapi", "v3", *rest]:
                return openapi.document(kinds, "/".join(rest))
        return None


def _check_acceptable(request: Request) -> None:
    accepted = request.headers.get("accept", "*/*")
    if not any(wanted in accepted for wanted in ("json", "*/*", "application/*")):
        message = "only the following media types are accepted: application/json"
        raise ApiError(406, "NotAcceptable", message)


def _refusal(error: ApiError) -> Answer:
    retry = (error.details or {}).get("retryAfterSeconds")
    headers = {"Retry-After": str(retry)} if retry else {}
    return Answer(error.code, orjson.dumps(error.status()), list(getattr(error, "warnings", ())), headers=headers)
