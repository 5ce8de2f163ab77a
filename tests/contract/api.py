"""A small HTTP client of its own for the contract suite, so that the suite also judges what `common.kube` assumes."""

from __future__ import annotations

import http.client
import json
import ssl
import time
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from kubenexus.common.kube.resources import Resource
from tests.servers import Server

Obj = dict[str, Any]

PATCHES = {
    "json": "application/json-patch+json",
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "apply": "application/apply-patch+yaml",
}


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back; `body` is parsed JSON, or text where it is not JSON."""

    status: int
    body: Any
    headers: Mapping[str, str]

    def expect(self, *statuses: int) -> Any:
        """The body, provided the status is one of these."""
        assert self.status in statuses, f"{self.status}, expected {statuses}: {json.dumps(self.body)[:1500]}"
        return self.body

    def refused(self, status: int, reason: str) -> Obj:
        """The Status object of a refusal, provided it is whole and says this."""
        body: Obj = self.expect(status)
        assert (body["kind"], body["apiVersion"], body["status"]) == ("Status", "v1", "Failure")
        assert (body["code"], body["reason"]) == (status, reason), body
        assert body["message"]
        return body

    @property
    def causes(self) -> set[tuple[str, str]]:
        """(field, reason) of every cause of a refusal."""
        return {(cause.get("field", ""), cause["reason"]) for cause in self.body["details"]["causes"]}


@dataclass(slots=True)
class Api:
    """Requests to one server, in the test's namespace. Cluster-wide objects made here are deleted at the end."""

    server: Server
    token: str = ""
    made: list[str] = field(default_factory=list)

    @property
    def namespace(self) -> str:
        return self.server.namespace

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        content_type: str = "application/json",
        query: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """One request on a connection of its own. A body that is no string is sent as JSON."""
        connection = self._connect()
        try:
            self._send(connection, method, path, body, content_type, query, headers)
            response = connection.getresponse()
            return Answer(response.status, _parse(response.read()), dict(response.headers))
        finally:
            connection.close()

    def create(self, res: Resource, obj: Obj, sub: str = "", name: str = "", **query: Any) -> Answer:
        answer = self.request("POST", self.path(res, name, sub), obj, query=query)
        if answer.status == 201 and not res.namespaced and not sub and not query:
            self.made.append(res.path(name=answer.body["metadata"]["name"]))
        return answer

    def get(self, res: Resource, name: str, sub: str = "", **query: Any) -> Answer:
        return self.request("GET", self.path(res, name, sub), query=query)

    def list(self, res: Resource, **query: Any) -> Answer:
        return self.request("GET", self.path(res), query=query)

    def update(self, res: Resource, obj: Obj, sub: str = "", **query: Any) -> Answer:
        return self.request("PUT", self.path(res, obj["metadata"]["name"], sub), obj, query=query)

    def patch(self, res: Resource, name: str, patch: Any, kind: str = "merge", sub: str = "", **query: Any) -> Answer:
        answer = self.request("PATCH", self.path(res, name, sub), patch, PATCHES[kind], query)
        if answer.status == 201 and not res.namespaced:
            self.made.append(res.path(name=name))
        return answer

    def apply(self, res: Resource, obj: Obj, manager: str, sub: str = "", **query: Any) -> Answer:
        body = {"apiVersion": res.api_version, "kind": res.kind, **obj}
        return self.patch(res, obj["metadata"]["name"], body, "apply", sub, fieldManager=manager, **query)

    def delete(self, res: Resource, name: str, **options: Any) -> Answer:
        body = {"apiVersion": "v1", "kind": "DeleteOptions", **options} if options else None
        return self.request("DELETE", self.path(res, name), body)

    def watch(self, res: Resource, seconds: float = 10.0, **query: Any) -> Generator[Obj, None, None]:
        """Events as they come, until the server ends the stream or the deadline passes."""
        end = time.monotonic() + seconds
        connection = self._connect()
        try:
            self._send(connection, "GET", self.path(res), None, "", {"watch": "true", **query}, None)
            response = connection.getresponse()
            if response.status != 200:
                yield {"type": "ERROR", "object": _parse(response.read())}
                return
            while (left := end - time.monotonic()) > 0:
                connection.sock.settimeout(left)
                if not (line := response.readline()):
                    return
                yield json.loads(line)
        except TimeoutError:
            return
        finally:
            connection.close()

    def path(self, res: Resource, name: str = "", sub: str = "") -> str:
        return quote(res.path(self.namespace, name or None, sub or None))

    def clean(self) -> None:
        """Delete the cluster-wide objects made here, the newest first."""
        for path in reversed(self.made):
            if self.request("GET", path).body["metadata"].get("finalizers"):
                self.request("PATCH", path, {"metadata": {"finalizers": None}}, PATCHES["merge"])
            self.request("DELETE", path)

    def _connect(self) -> http.client.HTTPSConnection:
        context = ssl.create_default_context(cafile=str(self.server.ca_file))
        return http.client.HTTPSConnection(urlsplit(self.server.url).netloc, timeout=40, context=context)

    def _send(
        self,
        connection: http.client.HTTPSConnection,
        method: str,
        path: str,
        body: Any,
        content_type: str,
        query: Mapping[str, Any] | None,
        headers: Mapping[str, str] | None,
    ) -> None:
        standing = {"Authorization": f"Bearer {self.token or self.server.token}", "Accept": "application/json"}
        data = body if body is None or isinstance(body, str) else json.dumps(body)
        extra = {"Content-Type": content_type} if data is not None else {}
        url = f"{path}?{urlencode(query)}" if query else path
        connection.request(method, url, data, {**standing, **extra, **(headers or {})})


def eventually(probe: Callable[[], Any], seconds: float = 20.0) -> Any:
    """The first true value of the probe; fails when none comes in time."""
    end = time.monotonic() + seconds
    while not (value := probe()):
        assert time.monotonic() < end, f"nothing after {seconds} s"
        time.sleep(0.1)
    return value


def _parse(raw: bytes) -> Any:
    try:
        return json.loads(raw)
    except ValueError:
        return raw.decode(errors="replace")
