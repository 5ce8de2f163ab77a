"""The webhook's HTTP: reviews in, answers out. What to answer is decided in `review`; here are a server's manners.

A body that is no admission review is an error of the caller and gets a status of 4xx. Everything else gets 200: an
error of ours admits the pod, with a warning for its author and a metric for whoever runs this.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import IO, TYPE_CHECKING, Final

import orjson
from flask import Flask, Response, request
from werkzeug.exceptions import BadRequest, HTTPException, UnsupportedMediaType

from kubenexus.common import logs, metrics
from kubenexus.common.serve import Check, report
from kubenexus.webhook.cluster import Cluster
from kubenexus.webhook.review import Answer, answer

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

log = logs.get(__name__)

MAX_BODY: Final = 7 * 2**20
"""An API server takes objects of 3 MiB; an update sends the old and the new one, and an envelope."""
CHUNK: Final = 2**16
JSON: Final = "application/json"
MUTATE: Final = "/mutate"
VALIDATE: Final = "/validate"


class App(Flask):
    """Flask, with a short way for reviews as API servers send them.

    Contexts, sessions and routing take as long as deciding about a pod does. Whatever is odd goes the long way.
    """

    def __init__(self, cluster: Cluster) -> None:
        # No files are served, so none are looked for; where a package lies is more than Flask can find out for ours.
        super().__init__(
            "kubenexus-webhook", static_folder=None, template_folder=None, root_path="/", instance_path="/"
        )
        self._cluster = cluster

    def wsgi_app(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        if not _is_plain(environ):
            return super().wsgi_app(environ, start_response)
        body = environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"]))
        try:
            answered = _answered(body, self._cluster, environ["PATH_INFO"])
        except orjson.JSONDecodeError as error:
            return _refuse(_no_json(error))(environ, start_response)
        start_response("200 OK", [("Content-Type", JSON), ("Content-Length", str(len(answered)))])
        return [answered]


def create_app(cluster: Cluster, *, ready: Mapping[str, Check], live: Mapping[str, Check]) -> Flask:
    """The WSGI application. It keeps no state of its own and touches nothing but memory."""
    app = App(cluster)
    app.config["MAX_CONTENT_LENGTH"] = MAX_BODY
    app.register_error_handler(HTTPException, _refuse)
    for path in (MUTATE, VALIDATE):
        app.add_url_rule(path, view_func=lambda: _review(cluster), endpoint=path, methods=["POST"])
    app.add_url_rule("/healthz", view_func=lambda: _report(live), endpoint="healthz")
    app.add_url_rule("/readyz", view_func=lambda: _report(ready), endpoint="readyz")
    return app


def _is_plain(environ: WSGIEnvironment) -> bool:
    """A review as every API server sends it: its length is told, and not too large."""
    length = environ.get("CONTENT_LENGTH") or ""
    return (
        environ["PATH_INFO"] in (MUTATE, VALIDATE)
        and environ["REQUEST_METHOD"] == "POST"
        and environ.get("CONTENT_TYPE") == JSON
        and length.isdecimal()
        and int(length) <= MAX_BODY
    )


def _review(cluster: Cluster) -> Response:
    if request.mimetype != JSON:
        raise UnsupportedMediaType(f"the content type is {request.mimetype or 'missing'}; send {JSON}.")
    try:
        return Response(_answered(request.get_data(cache=False), cluster, request.path), mimetype=JSON)
    except orjson.JSONDecodeError as error:
        raise _no_json(error) from None


def _answered(body: bytes, cluster: Cluster, path: str) -> bytes:
    """The answer to a review. Raises JSONDecodeError for what is none."""
    began = time.perf_counter()
    found = answer(orjson.loads(body), cluster, mutate=path == MUTATE)
    encoded = orjson.dumps(found.body)
    name = path.removeprefix("/")
    _count(name, found)
    metrics.WEBHOOK_SECONDS.labels(name).observe(time.perf_counter() - began)
    return encoded


def _no_json(error: orjson.JSONDecodeError) -> BadRequest:
    return BadRequest(f"the body is not JSON: {error}.")


def _count(path: str, found: Answer) -> None:
    if found.error:
        log.error("a pod was admitted because of an internal error", path=path, error=found.error)
    if found.denied:
        metrics.WEBHOOK_DENIALS.labels(found.rule).inc()
    ends = {"error": bool(found.error), "denied": found.denied, "patched": found.patched}
    end = next((name for name, is_so in ends.items() if is_so), "allowed")
    metrics.WEBHOOK_REVIEWS.labels(path, end).inc()


def _refuse(error: HTTPException) -> Response:
    """One sentence for whoever sent what is no review."""
    status = error.code or HTTPStatus.INTERNAL_SERVER_ERROR
    metrics.WEBHOOK_REFUSED.labels(str(int(status))).inc()
    if status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE:
        _discard(request.environ["wsgi.input"])
    sentence = {
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE: f"the body is larger than {MAX_BODY} bytes; no admission review is.",
        HTTPStatus.NOT_FOUND: "there are /mutate, /validate, /healthz and /readyz.",
    }.get(HTTPStatus(status), error.description or HTTPStatus(status).phrase)
    return Response(f"{sentence}\n", status, mimetype="text/plain")


def _discard(body: IO[bytes]) -> None:
    """Read what will not be used, within reason: who is still sending does not hear the answer."""
    for _ in range(8 * MAX_BODY // CHUNK):
        if not body.read(CHUNK):
            return


def _report(checks: Mapping[str, Check]) -> Response:
    found = report(checks)
    return Response(found.body, found.status, content_type=found.content_type)
