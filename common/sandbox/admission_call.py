"""Calling one admission webhook: AdmissionReview v1 over HTTPS, verified as an API server verifies it.

The connection to each webhook is kept alive and reused. Every failure is a `CallError` with the words of the real API
server, as far as a person would look for them.
"""

from __future__ import annotations

import base64
import json
import ssl
import threading
from collections.abc import Callable
from typing import Any, Final
from urllib.parse import urlsplit

import orjson
import urllib3

Obj = dict[str, Any]
Resolver = Callable[[str, str, int], tuple[str, int]]
"""Service namespace, name and port → the address where it really listens; LookupError if there is none."""

DEFAULT_TIMEOUT_SECONDS: Final = 10
_UNVERIFIED: Final = "tls: failed to verify certificate: x509:"
_ANSWERS: Final = {
    400: "the server rejected our request for an unknown reason",
    401: "the server has asked for the client to provide credentials",
    404: "the server could not find the requested resource",
    405: "the server does not allow this method on the requested resource",
    409: "the server reported a conflict",
    422: "the server rejected our request due to an error in our request",
    429: "the server has received too many requests and has asked us to try again later",
    503: "the server is currently unable to handle the request",
    504: "the server was unable to return a response in the time allotted, but may still be processing the request",
}


class CallError(Exception):
    """The webhook gave no usable answer; whether that matters is up to its failurePolicy."""


class Caller:
    """Posts reviews to webhooks; safe to use from several threads."""

    def __init__(self, resolve: Resolver) -> None:
        self._resolve = resolve
        self._lock = threading.Lock()
        self._pools: dict[tuple[str, int, str, str], urllib3.HTTPSConnectionPool] = {}

    def call(self, hook: Obj, review: Obj, *, mutating: bool) -> Obj:
        """The `response` of the webhook to this review, checked; CallError if there is none that may be used."""
        if "v1" not in hook.get("admissionReviewVersions", ["v1"]):
            raise CallError(
                "could not create admission objects: webhook does not accept known AdmissionReview versions (v1)"
            )
        answer = self._post(hook, review)
        return _checked(answer, review["request"]["uid"], mutating=mutating)

    def close(self) -> None:
        for pool in self._pools.values():
            pool.close()
        self._pools.clear()

    def _post(self, hook: Obj, review: Obj) -> Obj:
        seconds = hook.get("timeoutSeconds", DEFAULT_TIMEOUT_SECONDS)
        host, port, server_name, path, shown = self._target(hook["clientConfig"], seconds)
        pool = self._pool(host, port, server_name, hook["clientConfig"].get("caBundle", ""))
        try:
            answer = pool.urlopen(
                "POST",
                f"{path}?timeout={seconds}s",
                body=orjson.dumps(review),
                headers={"Content-Type": "application/json", "Accept": "application/json, */*"},
                timeout=urllib3.Timeout(total=seconds),
                retries=False,
            )
        except (urllib3.exceptions.HTTPError, OSError) as error:
            cause = f'Post "{shown}?timeout={seconds}s": {_in_go(error, f"{host}:{port}", server_name)}'
            raise CallError(f"failed to call webhook: {cause}") from error
        return _decoded(answer.status, answer.data)

    def _target(self, client: Obj, seconds: int) -> tuple[str, int, str, str, str]:
        """Address, certificate name, path and the URL to show."""
        if service := client.get("service"):
            namespace, name, port = service["namespace"], service["name"], service.get("port", 443)
            server_name, path = f"{name}.{namespace}.svc", "/" + service.get("path", "").lstrip("/")
            shown = f"https://{server_name}:{port}{path}"
            try:
                host, port = self._resolve(namespace, name, port)
            except LookupError as error:
                raise CallError(
                    f'failed to call webhook: Post "{shown}?timeout={seconds}s": {error.args[0]}'
                ) from error
            return host, port, server_name, path, shown
        url = urlsplit(client.get("url", ""))
        if not url.hostname:
            raise CallError("could not get REST client: webhook configuration must have either service or URL")
        shown = f"{url.scheme}://{url.netloc}{url.path or '/'}"
        return url.hostname, url.port or 443, url.hostname, url.path or "/", shown

    def _pool(self, host: str, port: int, server_name: str, bundle: str) -> urllib3.HTTPSConnectionPool:
        key = (host, port, server_name, bundle)
        with self._lock:
            if key not in self._pools:
                context = ssl.create_default_context(cadata=base64.b64decode(bundle).decode() if bundle else None)
                self._pools[key] = urllib3.HTTPSConnectionPool(
                    host, port, ssl_context=context, server_hostname=server_name, maxsize=8
                )
            return self._pools[key]


def _decoded(status: int, body: bytes) -> Obj:
    if not 200 <= status < 300:
        raise CallError(f"failed to call webhook: {_complaint(status, body.decode(errors='replace'))}")
    try:
        answer = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise CallError(f"failed to call webhook: couldn't get version/kind; json parse error: {error}") from error
    return answer if isinstance(answer, dict) else {}


def _complaint(status: int, text: str) -> str:
    if status in (403, 415):
        return text
    broken = f"an error on the server ({json.dumps(text)}) has prevented the request from succeeding"
    vague = f"the server responded with the status code {status} but did not return more information"
    return _ANSWERS.get(status, broken if status >= 500 else vague)


def _checked(answer: Obj, uid: str, *, mutating: bool) -> Obj:
    response = answer.get("response")
    version, kind = answer.get("apiVersion", ""), answer.get("kind", "")
    if not isinstance(response, dict):
        raise CallError("received invalid webhook response: webhook response was absent")
    if response.get("uid") != uid:
        fault = f'expected response.uid="{uid}", got "{response.get("uid", "")}"'
    elif (version, kind) != ("admission.k8s.io/v1", "AdmissionReview"):
        fault = (
            "expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, "
            f"got {version if '/' in version else '/' + version}, Kind={kind}"
        )
    else:
        fault = _patch_fault(response, mutating=mutating)
    if fault:
        raise CallError(f"received invalid webhook response: {fault}")
    return response


def _patch_fault(response: Obj, *, mutating: bool) -> str:
    patch, patch_type = response.get("patch"), response.get("patchType")
    if not mutating:
        given = "patch" if patch else "patchType" if patch_type is not None else ""
        return f"validating webhook may not return response.{given}" if given else ""
    if patch and patch_type is None:
        return "webhook returned response.patch but not response.patchType"
    if not patch and patch_type is not None:
        return "webhook returned response.patchType but not response.patch"
    return ""


def _in_go(error: BaseException, address: str, server_name: str) -> str:
    """What went wrong in the words of the real API server, which people search for."""
    if isinstance(error, urllib3.exceptions.TimeoutError) and not isinstance(
        error, urllib3.exceptions.NewConnectionError
    ):
        return "context deadline exceeded"
    for cause in _causes(error):
        if isinstance(cause, ssl.SSLCertVerificationError):
            return _certificate_fault(cause, server_name)
        if isinstance(cause, ConnectionRefusedError):
            return f"dial tcp {address}: connect: connection refused"
    if isinstance(error, urllib3.exceptions.ProtocolError):
        return "EOF"
    return str(error)


def _causes(error: BaseException | None) -> list[BaseException]:
    """The chain of an exception, through causes, contexts and wrapped arguments."""
    found: list[BaseException] = []
    while error is not None and error not in found:
        found.append(error)
        wrapped = next((each for each in error.args if isinstance(each, BaseException)), None)
        error = wrapped or error.__cause__ or error.__context__
    return found


def _certificate_fault(error: ssl.SSLCertVerificationError, server_name: str) -> str:
    faults = {
        10: "certificate has expired or is not yet valid",
        62: f"certificate is valid for other names, not {server_name}",
        64: f"cannot validate certificate for {server_name} because it doesn't contain any IP SANs",
    }
    return f"{_UNVERIFIED} {faults.get(error.verify_code, 'certificate signed by unknown authority')}"
