"""The webhook's HTTP: reviews in, answers out. What to answer is decided in `review`; here are a server's manners.

A body that is no admission review is an error of the caller and gets a status of 4xx. Everything else gets 200: an
error of ours admits the pod, with a warning for its author and a metric for whoever runs this.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from contextlib import nullcontext
from http import HTTPStatus
from typing import IO, Final, NamedTuple

import orjson
from flask import Flask, Response, request
from werkzeug.exceptions import BadRequest, HTTPException, UnsupportedMediaType

from kubenexus.common import logs, metrics
from kubenexus.common.serve import Check, report
from kubenexus.webhook.cluster import Cluster, Glance
from kubenexus.webhook.quick import JSON, MUTATE, VALIDATE, Review
from kubenexus.webhook.review import Answer, answer

log = logs.get(__name__)

MAX_BODY: Final = 7 * 2**20
"""An API server takes objects of 3 MiB; an update sends the old and the new one, and an envelope."""
LARGE: Final = 2**18
"""Bodies above this are unpacked one at a time: that takes twenty times their size, and there are sixteen threads."""
CHUNK: Final = 2**16


class Hurried(NamedTuple):
    """The cluster for whoever cannot wait, and whether waiting would have helped."""

    cluster: Cluster
    glance: Glance


class App(Flask):
    """Flask, and a way past it: contexts, sessions and routing take as long as deciding about a pod does."""

    def __init__(self, hurried: Hurried | None = None) -> None:
        # No files are served, so none are looked for; where a package lies is more than Flask can find out for ours.
        super().__init__(
            "kubenexus-webhook", static_folder=None, template_folder=None, root_path="/", instance_path="/"
        )
        self._hurried = hurried

    def at_once(self, review: Review) -> bytes | None:
        """The answer; None if it takes the usual way to find one. For one thread only."""
        if self._hurried is None:
            return None
        cluster, glance = self._hurried
        glance.missed = False
        began = time.perf_counter()
        try:
            found = _answer(review.body, cluster, review.path)
        except orjson.JSONDecodeError:
            return None
        return None if glance.missed else _finished(found, review.path, began)


def create_app(
    cluster: Cluster, *, ready: Mapping[str, Check], live: Mapping[str, Check], hurried: Hurried | None = None
) -> App:
    """The WSGI application. It keeps no state of its own and touches nothing but memory."""
    app, turn = App(hurried), threading.Lock()
    app.config["MAX_CONTENT_LENGTH"] = MAX_BODY
    app.register_error_handler(HTTPException, _refuse)
    for path in (MUTATE, VALIDATE):
        app.add_url_rule(path, view_func=lambda: _review(cluster, turn), endpoint=path, methods=["POST"])
        metrics.WEBHOOK_REVIEWS.labels(path.removeprefix("/"), "error")  # 0 from the start: alerts see only what grows
    app.add_url_rule("/healthz", view_func=lambda: _report(live), endpoint="healthz")
    app.add_url_rule("/readyz", view_func=lambda: _report(ready), endpoint="readyz")
    return app


def _review(cluster: Cluster, turn: threading.Lock) -> Response:
    if request.mimetype != JSON:
        raise UnsupportedMediaType(f"the content type is {request.mimetype or 'missing'}; send {JSON}.")
    began, body = time.perf_counter(), request.get_data(cache=False)
    try:
        with turn if len(body) > LARGE else nullcontext():
            found = _answer(body, cluster, request.path)
    except orjson.JSONDecodeError as error:
        raise BadRequest(f"the body is not JSON: {error}.") from None
    return Response(_finished(found, request.path, began), mimetype=JSON)


def _answer(body: bytes, cluster: Cluster, path: str) -> Answer:
    """The answer to a review. Raises JSONDecodeError for what is none."""
    return answer(orjson.loads(body), cluster, mutate=path == MUTATE)


def _finished(found: Answer, path: str, began: float) -> bytes:
    """The answer as it is sent, counted."""
    encoded, name = orjson.dumps(found.body), path.removeprefix("/")
    _count(name, found)
    metrics.WEBHOOK_SECONDS.labels(name).observe(time.perf_counter() - began)
    return encoded


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
