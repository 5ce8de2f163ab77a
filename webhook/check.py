"""`kubenexus webhook --check`: what the webhook would do with the pods of some manifests, without a cluster.

A file may hold the pods' Namespace and their owners as well. Of a Job, Deployment or other workload one pod is checked.
"""

from __future__ import annotations

import argparse
import base64
import json
from collections.abc import Iterator
from typing import Any

from kubenexus.common.cli import NEGATIVE, OK, CommandError
from kubenexus.common.manifests import read_objects
from kubenexus.common.objects import ProjectionError, project_pod
from kubenexus.common.vocabulary import INJECTED
from kubenexus.webhook.cluster import Cluster
from kubenexus.webhook.offline import Offline
from kubenexus.webhook.review import answer

Obj = dict[str, Any]

_HELP = "show what would be set on the pods of this file, and the verdict, without a cluster; - is standard input"
_ASSUMED = "is not in the file: taken as one that has asked for KubeNexus"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--check", nargs="+", metavar="FILE", help=_HELP)
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text", help="format of --check")


def main(args: argparse.Namespace) -> int:
    """Exit code 0 when every pod is admitted, 1 when one is denied; `CommandError` for files that are of no use."""
    place = ", ".join(args.check)
    try:
        offline = Offline(read_objects(args.check))
    except ProjectionError as error:
        raise CommandError(f"{place}: {error}.") from None
    if not offline.pods:
        raise CommandError(f"{place} has no pods, and nothing that makes any: give a Pod, Job or Deployment.")
    results = [_checked(pod, offline, args.schedulers, place) for pod in offline.pods]
    print(json.dumps({"pods": results}, indent=2) if args.output == "json" else "\n".join(_lines(results)))
    return OK if all(one["allowed"] for one in results) else NEGATIVE


def _checked(pod: Obj, offline: Offline, schedulers: tuple[str, ...], place: str) -> Obj:
    """Both webhooks in their order, on the pod as an API server completes it."""
    # Here, for the server, which shares this module's flags, does without them.
    from kubenexus.common.sandbox.patch import json_patch
    from kubenexus.common.sandbox.validation import apply_defaults

    meta = pod["metadata"]
    if problems := project_pod(pod).problems:
        raise CommandError(f"{place}: Pod {meta['namespace']}/{meta['name']}: {problems[0]}.")
    pod, cluster = apply_defaults("Pod", pod), offline.cluster(schedulers)
    first = _ask(pod, cluster, mutate=True)
    patch = json.loads(base64.b64decode(first.get("patch", ""))) if "patch" in first else []
    second = _ask(json_patch(pod, patch), cluster, mutate=False)
    notes = [] if offline.knows(meta["namespace"]) else [f"namespace {meta['namespace']} {_ASSUMED}"]
    return {
        "pod": f"{meta['namespace']}/{meta['name']}",
        "allowed": second["allowed"],
        "message": second.get("status", {}).get("message"),
        "warnings": [*first.get("warnings", ()), *second.get("warnings", ())],
        "patch": patch,
        "notes": notes,
    }


def _ask(pod: Obj, cluster: Cluster, *, mutate: bool) -> Obj:
    request = {
        "uid": "check",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "operation": "CREATE",
        "namespace": pod["metadata"]["namespace"],
        "object": pod,
    }
    response: Obj = answer({"request": request}, cluster, mutate=mutate).body["response"]
    return response


def _lines(results: list[Obj]) -> Iterator[str]:
    for one in results:
        yield f"{one['pod']}: {'admitted' if one['allowed'] else 'denied'}"
        if one["message"]:
            yield f"  denied   {one['message']}"
        yield from (f"  warning  {text}" for text in one["warnings"])
        fields = {_dotted(step["path"]): step["value"] for step in one["patch"] if step["value"] != {}}
        reasons = fields.pop(f"metadata.annotations.{INJECTED}", "")
        yield from (f"  set      {path}: {value}" for path, value in fields.items())
        yield from (f"  because  {reason}" for reason in filter(None, reasons.split("; ")))
        yield from (f"  note     {text}" for text in one["notes"])


def _dotted(pointer: str) -> str:
    return pointer.removeprefix("/").replace("/", ".").replace("~1", "/").replace("~0", "~")
