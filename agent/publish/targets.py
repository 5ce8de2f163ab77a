"""Where the agent writes: the Node's metadata, its ResourceSlices and its NodeResourceTopology, each by itself.

A target reads what is there and yields the writes that are missing; none where all is as wanted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, Final, NamedTuple, Protocol

from kubenexus.agent.publish import ownership, slices
from kubenexus.agent.publish.rights import NODE_RESOURCE_TOPOLOGIES
from kubenexus.agent.publish.slices import Change, Create, Delete, Echo
from kubenexus.agent.publish.wanted import Share, Wanted
from kubenexus.common import logs, metrics
from kubenexus.common.kube.client import Client
from kubenexus.common.kube.errors import Forbidden, NotFound
from kubenexus.common.kube.request import PatchType
from kubenexus.common.kube.resources import NODES, RESOURCE_SLICES
from kubenexus.common.vocabulary import AGENT_NUMA_MANAGER, DRA_DRIVER

log = logs.get(__name__)

Obj = dict[str, Any]
Cache = Callable[[], Iterable[Obj] | None]


class Write(NamedTuple):
    """One write: what it is in metrics and logs, and doing it."""

    what: str
    do: Callable[[], None]


class Target(Protocol):
    def writes(self, node: Obj, want: Wanted) -> Iterator[Write]: ...


class NodeMetadata:
    """The labels and annotations of the Node, by server-side apply."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def writes(self, node: Obj, want: Wanted) -> Iterator[Write]:
        for share in want.shares:
            if not ownership.is_current(node, share):
                yield Write(share.manager, partial(self._apply, node, share))

    def _apply(self, node: Obj, share: Share) -> None:
        name, body = node["metadata"]["name"], ownership.apply_body(node, share)
        self._client.patch(NODES, name, body, kind=PatchType.APPLY, manager=share.manager, force=True)


def own_slices(node_name: str | None) -> str:
    """The field selector of the slices that a node's agent answers for, or the agents of all nodes."""
    ours = f"spec.driver={DRA_DRIVER}"
    return f"{ours},spec.nodeName={node_name}" if node_name else ours


class Slices:
    """The node's ResourceSlices of our driver. `cache` is a copy that is kept true, or None while there is none.

    Without `publish` they are looked for once, to take back what an earlier setting left.
    """

    def __init__(self, client: Client, node_name: str, *, publish: bool, cache: Cache) -> None:
        self._client = client
        self._node_name = node_name
        self._publish = publish
        self._cache = cache
        self._done = False
        self._generations: dict[str, int] = {}
        self._echoes: dict[str, Echo] = {}

    def live(self) -> list[Obj]:
        cached = self._cache()
        if cached is not None:
            return [*cached]
        return self._client.list(RESOURCE_SLICES, field_selector=own_slices(self._node_name)).items

    def writes(self, node: Obj, want: Wanted) -> Iterator[Write]:  # noqa: ARG002 (a target looks at what it needs)
        if self._done:
            return
        try:
            live = self.live()
        except (NotFound, Forbidden) as error:
            self._leave(error)
            return
        for slice_ in live:
            self._note(slice_)
        changes = slices.plan(want.slices, live, self._generations, self._echoes)
        yield from (Write("slices", partial(self._change, change)) for change in changes)
        self._done = not self._publish and not changes

    def _leave(self, error: NotFound | Forbidden) -> None:
        if self._publish and isinstance(error, Forbidden):
            raise error
        self._done = True
        if self._publish:
            log.warning("slices are not published: the server does not serve them", resource=RESOURCE_SLICES)

    def _change(self, change: Change) -> None:
        if isinstance(change, Delete):
            self._client.delete(RESOURCE_SLICES, change.name, uid=change.uid)
            return
        name = change.slice["metadata"]["name"]
        send = self._client.create if isinstance(change, Create) else self._client.update
        echo = Echo(change.slice, send(RESOURCE_SLICES, change.slice))
        if isinstance(change, Create) and slices.pool_name(change.slice) in self._generations:
            metrics.AGENT_SLICES_RECREATED.inc()
            log.info("slice was wiped and is back", slice=name)
        if slices.taints_dropped(echo) and not any(map(slices.taints_dropped, self._echoes.values())):
            log.warning("the server drops device taints: nothing keeps a claim from asking for devices that describe")
        self._echoes[name] = echo
        self._note(echo.kept)

    def _note(self, slice_: Obj) -> None:
        pool = slices.pool_name(slice_)
        self._generations[pool] = max(self._generations.get(pool, 0), slices.generation(slice_))


class Nrt:
    """The NodeResourceTopology of the node, where that API is served and nobody else writes it."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._done = False

    def writes(self, node: Obj, want: Wanted) -> Iterator[Write]:
        if self._done:
            return
        name = node["metadata"]["name"]
        try:
            live = self._get(name)
        except (NotFound, Forbidden) as error:
            self._leave(error, want.nrt)
            return
        others = ownership.managers(live) - {AGENT_NUMA_MANAGER} if live else frozenset()
        if others:
            self._done = True
            log.info("NodeResourceTopology is left to its other writer", writers=sorted(others))
        elif want.nrt is not None:
            if not _same(live, want.nrt):
                yield Write("nrt", partial(self._apply, name, want.nrt))
        elif live:
            yield Write("nrt", partial(self._delete, live))
        else:
            self._done = True

    def _get(self, name: str) -> Obj | None:
        """The object, or None; NotFound where the API itself is not served."""
        try:
            return self._client.get(NODE_RESOURCE_TOPOLOGIES, name)
        except NotFound as error:
            if error.details.get("name") != name:
                raise
            return None

    def _leave(self, error: NotFound | Forbidden, want: Obj | None) -> None:
        if want is not None and isinstance(error, Forbidden):
            raise error
        self._done = True
        if want is not None:
            log.warning("NodeResourceTopology is not published: the server does not serve it")

    def _delete(self, live: Obj) -> None:
        metadata = live["metadata"]
        self._client.delete(NODE_RESOURCE_TOPOLOGIES, metadata["name"], uid=metadata["uid"])

    def _apply(self, name: str, body: Obj) -> None:
        self._client.patch(
            NODE_RESOURCE_TOPOLOGIES, name, body, kind=PatchType.APPLY, manager=AGENT_NUMA_MANAGER, force=True
        )


_TOLD: Final = ("attributes", "zones")


def _same(live: Obj | None, want: Obj) -> bool:
    owners = (live or {}).get("metadata", {}).get("ownerReferences") or ()
    uids = [owner.get("uid") for owner in owners]
    wanted_uids = [owner["uid"] for owner in want["metadata"]["ownerReferences"]]
    return live is not None and uids == wanted_uids and all(live.get(key) == want.get(key) for key in _TOLD)
