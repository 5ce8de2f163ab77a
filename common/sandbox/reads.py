"""Reading: one object, a page of a list that stays consistent over all its pages, a watch."""

from __future__ import annotations

import base64
from dataclasses import dataclass

import orjson

from kubenexus.common.sandbox.errors import ApiError, bad_request, expired, not_found, too_old
from kubenexus.common.sandbox.kinds import Kind
from kubenexus.common.sandbox.store import CompactedError, Item, Store
from kubenexus.common.sandbox.watch import Filter, Watch

_INCONSISTENT = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without "
    "the continue parameter, or use the continue token in this response to retrieve the remainder of the results. "
    "Continuing with the provided token results in an inconsistent list - objects that were created, modified, or "
    "deleted between the time the first chunk was returned and now may show up in the list."
)


@dataclass(frozen=True, slots=True)
class Query:
    """What a list or watch asks for, in the words of the query string."""

    labels: str = ""
    fields: str = ""
    limit: int = 0
    token: str = ""
    version: str = ""
    match: str = ""
    initial_events: bool | None = None


@dataclass(frozen=True, slots=True)
class Page:
    """Part of a list, and how to go on. `remaining` is None when it is not known."""

    items: list[Item]
    rv: int
    token: str = ""
    remaining: int | None = None


class Reads:
    """Answers from the store; never changes anything."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def get(self, kind: Kind, namespace: str, name: str) -> Item:
        item = self._store.get(kind.table, (namespace, name))
        if item is None:
            raise not_found(kind.resource, name)
        return item

    def page(self, kind: Kind, namespace: str | None, query: Query = Query()) -> Page:
        wanted = Filter(namespace, query.labels, query.fields, kind)
        rv, start = self._position(query)
        try:
            found, rv = self._store.items(kind.table, namespace, rv)
        except CompactedError as error:
            raise self._gone(query, start, error) from None
        chosen = [item for item in found if wanted.selects(item) and (not start or _place(item) > start)]
        if not query.limit or len(chosen) <= query.limit:
            return Page(chosen, rv)
        remaining = None if wanted.narrow else len(chosen) - query.limit
        chosen = chosen[: query.limit]
        return Page(chosen, rv, _token(rv, _place(chosen[-1])), remaining)

    def _position(self, query: Query) -> tuple[int | None, str]:
        """The version to read (None: now) and the object after which to begin."""
        if query.token:
            if query.version not in ("", "0"):
                raise bad_request("specifying resource version is not allowed when using continue")
            return _decode(query.token)
        rv = _version(query.version)
        self._check_future(rv)
        exact = query.match == "Exact" or (query.limit and rv and not query.match)
        return (rv if exact else None), ""

    def _check_future(self, rv: int) -> None:
        if rv > self._store.rv:
            message = f"Timeout: Too large resource version: {rv}, current: {self._store.rv}"
            cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
            raise ApiError(504, "Timeout", message, {"causes": [cause], "retryAfterSeconds": 1})

    def _gone(self, query: Query, start: str, error: CompactedError) -> ApiError:
        if query.token:
            return expired(_INCONSISTENT, {"continue": _token(-1, start)})
        return expired(f"The resourceVersion for the provided list is too old: {error.asked} ({error.oldest})")

    def watch(self, kind: Kind, namespace: str | None, query: Query = Query()) -> Watch:
        """From the version asked for; without one (or with 0), the present state comes first as ADDED events."""
        wanted = Filter(namespace, query.labels, query.fields, kind)
        since = _version(query.version)
        if since and not query.initial_events:
            try:
                self._store.check(since)
            except CompactedError as error:
                raise too_old(error.asked, error.oldest) from None
            return Watch(self._store, kind, wanted, since)
        found, rv = self._store.items(kind.table, namespace)
        if query.initial_events is False:
            return Watch(self._store, kind, wanted, rv)
        return Watch(self._store, kind, wanted, rv, [item for item in found if wanted.selects(item)])


def _version(text: str) -> int:
    if not text:
        return 0
    if not text.isdecimal():
        raise bad_request(f'Invalid value: "{text}": strconv.ParseUint: parsing "{text}": invalid syntax')
    return int(text)


def _place(item: Item) -> str:
    meta = item.obj["metadata"]
    return f"{meta.get('namespace', '')}\0{meta['name']}"


def _token(rv: int, start: str) -> str:
    return base64.urlsafe_b64encode(orjson.dumps({"rv": rv, "start": start})).decode().rstrip("=")


def _decode(token: str) -> tuple[int | None, str]:
    try:
        position = orjson.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
        rv, start = int(position["rv"]), str(position["start"])
    except (ValueError, KeyError, TypeError) as error:
        raise bad_request(f"continue key is not valid: {error}") from None
    return (None if rv < 0 else rv), start
