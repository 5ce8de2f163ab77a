"""The client: every verb of the API on plain JSON objects, typed errors, no models.

A request is prepared as a value (`request.py`) and sent here. The client itself tries again only what is harmless: no
connection could be made; the answer of a read was cut off; 429 with a short Retry-After; 401 once the credentials were
read anew. A write that may have been carried out is never repeated: the caller decides, on `error.maybe_applied`.
"""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

import orjson
import urllib3
from urllib3.exceptions import ConnectTimeoutError, HTTPError, NewConnectionError, SSLError

from kubenexus.common import metrics
from kubenexus.common.kube import auth
from kubenexus.common.kube.errors import (
    ApiError,
    Gone,
    MaybeApplied,
    NoAnswer,
    NotReached,
    TooManyRequests,
    Unauthorized,
    answer_error,
)
from kubenexus.common.kube.request import JSON, PatchType, Query, Request, object_name, prepare, raw
from kubenexus.common.kube.resources import Resource
from kubenexus.common.kube.stream import Stream

Obj = dict[str, Any]
T = TypeVar("T")

TIMEOUT = 30.0
CONNECT_TIMEOUT = 5.0
TRIES = 3
LONGEST_RETRY_AFTER = 5.0
PAGE = 500
NO_RETRIES = urllib3.Retry(False)  # Ours are in `retry_delay`.


class ListResult(NamedTuple):
    """A collection at one moment, or one page of it. Items have no apiVersion and kind, as the server sends them."""

    items: list[Obj]
    resource_version: str


class Client:
    """A connection to one API server; safe for many threads. Objects go in and come out as dicts."""

    def __init__(
        self,
        access: auth.Access,
        *,
        agent: str = "kubenexus",
        timeout: float = TIMEOUT,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.access = access
        self.agent = agent
        self._timeout = timeout
        self._clock = clock
        self._sleep = sleep

    @classmethod
    def connect(
        cls,
        kubeconfig: str | None = None,
        context: str | None = None,
        *,
        agent: str = "kubenexus",
        connections: int = 32,
    ) -> Client:
        """A client for the cluster of this kubeconfig, or else the one we are meant to use (see `auth.find`)."""
        return cls(auth.Access(lambda: auth.find(kubeconfig, context), connections=connections), agent=agent)

    def close(self) -> None:
        self.access.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Reading

    def get(self, res: Resource, name: str, namespace: str | None = None, *, subresource: str | None = None) -> Obj:
        return self._object(prepare("GET", res, namespace, name, subresource=subresource))

    def list(
        self,
        res: Resource,
        namespace: str | None = None,
        *,
        label_selector: str | None = None,
        field_selector: str | None = None,
        limit: int | None = PAGE,
    ) -> ListResult:
        """The whole collection, of one namespace or of all, fetched in pages, as it was at its resourceVersion."""
        selectors = {"label_selector": label_selector, "field_selector": field_selector}
        try:
            pages = [*self.pages(res, namespace, **selectors, limit=limit)]
        except Gone:  # The server forgot the snapshot between two pages: ask for everything at once.
            pages = [*self.pages(res, namespace, **selectors, limit=None)]
        return ListResult([item for page in pages for item in page.items], pages[-1].resource_version)

    def pages(
        self,
        res: Resource,
        namespace: str | None = None,
        *,
        label_selector: str | None = None,
        field_selector: str | None = None,
        limit: int | None = PAGE,
    ) -> Iterator[ListResult]:
        """The collection page by page, so that nobody need hold all of it. Gone between pages means: start over."""
        query = {"labelSelector": label_selector, "fieldSelector": field_selector, "limit": limit or None}
        token: str | None = None
        while True:
            page = self._object(prepare("GET", res, namespace, query=query | {"continue": token}))
            meta = page.get("metadata") or {}
            yield ListResult(page.get("items") or [], meta.get("resourceVersion", ""))
            token = meta.get("continue")
            if not token:
                return

    def watch(
        self,
        res: Resource,
        namespace: str | None = None,
        *,
        resource_version: str,
        label_selector: str | None = None,
        field_selector: str | None = None,
        server_timeout: int = 300,
        inactivity: float = 120.0,
    ) -> Stream:
        """Changes after this resourceVersion, with bookmarks, as raw lines; `inactivity` seconds of silence end it."""
        query: Query = {
            "watch": True,
            "allowWatchBookmarks": True,
            "resourceVersion": resource_version,
            "timeoutSeconds": server_timeout,
            "labelSelector": label_selector,
            "fieldSelector": field_selector,
        }
        request = prepare("GET", res, namespace, query=query)
        return self._retrying(
            request, inactivity, lambda *left: Stream(str(request), self._send(request, *left, whole=False))
        )

    # Writing

    def create(
        self,
        res: Resource,
        obj: Obj,
        namespace: str | None = None,
        *,
        subresource: str | None = None,
        dry_run: bool = False,
    ) -> Obj:
        """Create an object, or post to the subresource (`binding`, `eviction`) of the object that `obj` names."""
        meta = obj.get("metadata") or {}
        namespace = namespace or meta.get("namespace")
        if res.namespaced and not namespace:
            raise ValueError(f"{res} live in a namespace: name one for {meta.get('name')!r}")
        name = object_name(obj)[1] if subresource else None
        query = {"dryRun": "All" if dry_run else None}
        return self._object(prepare("POST", res, namespace, name, subresource=subresource, query=query, body=obj))

    def update(self, res: Resource, obj: Obj, *, subresource: str | None = None) -> Obj:
        """Replace an object; Conflict if it has changed since the resourceVersion it carries."""
        return self._object(prepare("PUT", res, *object_name(obj), subresource=subresource, body=obj))

    def patch(
        self,
        res: Resource,
        name: str,
        patch: Obj | Sequence[Obj],
        namespace: str | None = None,
        *,
        kind: PatchType,
        manager: str | None = None,
        force: bool = False,
        subresource: str | None = None,
    ) -> Obj:
        """Change part of an object. APPLY needs a field manager; with `force` it takes over others' fields."""
        if kind is PatchType.APPLY and not manager:
            raise ValueError("server-side apply needs a field manager")
        query = {"fieldManager": manager, "force": True if force else None}
        request = prepare(
            "PATCH", res, namespace, name, subresource=subresource, query=query, body=patch, content_type=kind.value
        )
        return self._object(request)

    def delete(
        self,
        res: Resource,
        name: str,
        namespace: str | None = None,
        *,
        uid: str | None = None,
        grace_seconds: int | None = None,
        propagation: str | None = None,
    ) -> Obj:
        """Delete an object; with `uid`, only that incarnation of it (else Conflict)."""
        options = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "gracePeriodSeconds": grace_seconds,
            "propagationPolicy": propagation,
            "preconditions": {"uid": uid} if uid else None,
        }
        body = {key: value for key, value in options.items() if value is not None}
        return self._object(prepare("DELETE", res, namespace, name, body=body))

    # Anything else

    def request(
        self,
        method: str,
        path: str,
        *,
        query: Query | None = None,
        body: Any = None,
        content_type: str = JSON,
        timeout: float | None = None,
    ) -> Any:
        """Any path: the decoded JSON of the answer, or its text where it is not JSON (`/healthz`)."""
        return self.call(raw(method, path, query=query, body=body, content_type=content_type), timeout)

    def call(self, request: Request, timeout: float | None = None) -> Any:
        """Send a prepared request and decode the answer. `timeout` covers the whole call, further tries included."""
        return self._retrying(request, timeout or self._timeout, lambda *left: self._exchange(request, *left))

    def _object(self, request: Request) -> Obj:
        answer = self.call(request)
        if not isinstance(answer, dict):
            raise no_answer(request, ValueError("what came back is not a JSON object"))
        return answer

    def _retrying(self, request: Request, timeout: float, attempt: Callable[[auth.Session, float], T]) -> T:
        """The outcome of `attempt(session, seconds left)`, made again while `retry_delay` and the time allow."""
        deadline = self._clock() + timeout
        tries = 0
        while True:
            tries += 1
            session = self.access.session
            try:
                return attempt(session, max(deadline - self._clock(), 0.001))
            except ApiError as error:
                delay = retry_delay(request, error, tries)
                if delay is None or self._clock() + delay >= deadline:
                    raise
                if isinstance(error, Unauthorized) and not self.access.renew(session):
                    raise
            self._sleep(delay)

    def _exchange(self, request: Request, session: auth.Session, timeout: float) -> Any:
        response = self._send(request, session, timeout)
        data = response.data or b""  # urllib3 says None for an empty body
        if not response.headers.get("Content-Type", "").startswith(JSON):
            return data.decode("utf-8", "replace")
        try:
            return orjson.loads(data)
        except orjson.JSONDecodeError as error:
            raise no_answer(request, error) from error

    def _send(
        self, request: Request, session: auth.Session, timeout: float, *, whole: bool = True
    ) -> urllib3.BaseHTTPResponse:
        """One exchange: the whole answer, or for a watch its head, with the body left to be read."""
        start = self._clock()
        try:
            response = session.pool.urlopen(
                request.method,
                session.prefix + request.target,
                body=request.body,
                headers=headers_of(request, session, self.agent),
                timeout=urllib3.Timeout(connect=min(timeout, CONNECT_TIMEOUT), read=timeout),
                retries=NO_RETRIES,
                redirect=False,
                preload_content=whole,
                decode_content=False,
            )
        except HTTPError as error:
            metrics.API_REQUESTS.labels(request.method, request.label, "none").inc()
            raise _lost(request, error) from error
        metrics.API_REQUESTS.labels(request.method, request.label, str(response.status)).inc()
        metrics.API_SECONDS.labels(request.method, request.label).observe(self._clock() - start)
        if not 200 <= response.status < 300:
            raise answer_error(str(request), response.status, response.headers, _refusal(response))
        return response


def headers_of(request: Request, session: auth.Session, agent: str) -> dict[str, str]:
    headers = {"Accept": JSON, "User-Agent": agent}
    if request.body is not None:
        headers["Content-Type"] = request.content_type
    if authorization := session.authorization():
        headers["Authorization"] = authorization
    return headers


def retry_delay(request: Request, error: ApiError, tries: int) -> float | None:
    """Seconds until the client may send this request again by itself; None: hand the error to the caller."""
    if tries >= TRIES:
        return None
    if isinstance(error, NotReached):
        return 0.1 * (1 << tries)
    if isinstance(error, NoAnswer) and request.is_read:
        return 0.0
    if isinstance(error, Unauthorized) and tries == 1:
        return 0.0
    if (
        isinstance(error, TooManyRequests)
        and error.retry_after is not None
        and error.retry_after <= LONGEST_RETRY_AFTER
    ):
        return error.retry_after
    return None


def _refusal(response: urllib3.BaseHTTPResponse) -> bytes:
    """What a refused watch says, as far as it can be read; then the connection goes back into the pool."""
    try:
        return response.data or b""
    except HTTPError:
        return b""
    finally:
        response.release_conn()


def _lost(request: Request, error: HTTPError) -> ApiError:
    """Sort a failed exchange: was the connection never made, or did the answer get lost?"""
    untrusted = isinstance(error, SSLError) and any(isinstance(arg, ssl.SSLCertVerificationError) for arg in error.args)
    if untrusted or isinstance(error, NewConnectionError | ConnectTimeoutError):
        return not_reached(request, error)
    return no_answer(request, error)


def not_reached(request: Request, error: Exception) -> NotReached:
    return NotReached(f"{request} was not sent, the API server cannot be reached: {error}")


def no_answer(request: Request, error: Exception) -> NoAnswer:
    if request.is_read:
        return NoAnswer(f"{request} got no whole answer: {error}")
    return MaybeApplied(f"{request} got no answer and may or may not have been carried out: {error}")
