"""The whole topology as compact JSON for one Node annotation: the only carrier that loses nothing.

    {"hash": "0123456789ab", "topology": {"gpus": […], "numa": […], …}, "unknown": {"gpu-3.numaNode": "…"}}

The hash is that of the topology's canonical JSON, so an edited, cut or mixed-up annotation is noticed as a whole: every
change of a value, of however plausible a look, makes all of it unknown. Reasons are outside the hash: they may change
while the machine does not.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from kubenexus.common.topology import NodeTopology
from kubenexus.common.wire import build
from kubenexus.common.wire.facts import KINDS, MACHINE, Kind, MangledError, Obj, Reasons, read_facts, write_facts

VERSION = 1


def canonical_json(topology: NodeTopology) -> bytes:
    """The topology, without reasons, as bytes that are equal for equal machines."""
    return _compact(_body(topology)).encode()


def topology_hash(topology: NodeTopology) -> str:
    """12 hex digits that labels, annotation and slices of one state have in common."""
    return _digest(_body(topology))


def encode_annotation(topology: NodeTopology) -> str:
    """The value of the annotation."""
    body = _body(topology)
    whole = {"hash": _digest(body), "topology": body}
    return _compact({**whole, "unknown": dict(topology.unknowns)} if topology.unknowns else whole)


def decode_annotation(text: str) -> tuple[NodeTopology, str]:
    """The topology and its hash; raises `MangledError` if the text is not exactly what `encode_annotation` gave."""
    whole = _parse(text)
    body, digest = whole.get("topology"), whole.get("hash")
    if not isinstance(body, dict) or not isinstance(digest, str):
        raise MangledError("there is no topology in it, or no hash")
    if _digest(body) != digest:
        raise MangledError(f"its content does not have its hash {digest[:12]!r}")
    if body.get("version") != VERSION:
        raise MangledError(f"it has version {body.get('version')!r}, and this reader knows {VERSION}")
    reasons = _reasons(whole.get("unknown"))
    machine = read_facts(MACHINE, body, "", reasons)
    parts = {kind.field: _read_kind(kind, body, reasons) for kind in KINDS}
    return build.topology(**parts, **machine, reasons=reasons), digest


def _body(topology: NodeTopology) -> Obj:
    body: Obj = {"version": VERSION, **write_facts(MACHINE, topology)}
    for kind in KINDS:
        devices = kind.of(topology)
        if devices is not None:
            body[kind.field] = [write_facts(kind.facts, device) for device in devices]
    return body


def _read_kind(kind: Kind, body: Obj, reasons: Reasons) -> Any:
    entries = body.get(kind.field)
    if not isinstance(entries, list):
        return None
    values = []
    for entry in entries:
        known = entry if isinstance(entry, dict) else {}
        values.append(read_facts(kind.facts, known, f"{kind.name}-{known.get(kind.key.name)}.", reasons))
    return build.devices(kind, values, reasons)


def _parse(text: str) -> Obj:
    try:
        whole = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise MangledError(f"it is not JSON ({error})") from None
    if isinstance(whole, dict):
        return whole
    raise MangledError("it is not a JSON object")


def _reasons(raw: Any) -> Reasons:
    pairs = raw.items() if isinstance(raw, dict) else ()
    return {fact: reason for fact, reason in pairs if isinstance(reason, str)}


def _compact(value: Obj) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def _digest(body: Obj) -> str:
    return hashlib.sha256(_compact(body).encode()).hexdigest()[:12]
