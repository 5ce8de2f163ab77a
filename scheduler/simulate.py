"""Places manifests on manifests, offline, with the scheduler's own engine: what would go where, and why not.

Files hold Nodes, Namespaces, PriorityClasses, volumes, running Pods (with a node) and what shall be placed, in this
order: Pods, Jobs, Deployments, ReplicaSets, StatefulSets, JobSets. Exits 0 when every pod is placed, 1 when some stay
pending, 2 on bad input.

examples:
  kubenexus simulate cluster.yaml job.yaml
  kubenexus simulate --explain -o json cluster.yaml pod.yaml
  kubectl get nodes,pods -A -o yaml | kubenexus simulate - job.yaml
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any

from kubenexus.common import cpulist
from kubenexus.common.cli import FAILURE, NEGATIVE, OK, CommandError
from kubenexus.common.config import ConfigError, SchedulerConfiguration, load, load_yaml
from kubenexus.common.manifests import flatten, read_lines, read_objects, read_text
from kubenexus.common.objects import ProjectionError
from kubenexus.scheduler.simulation import Simulation
from kubenexus.scheduler.timeline import run_timeline

Obj = dict[str, Any]


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", nargs="+", metavar="FILE", help="YAML or JSON manifests; - is standard input")
    parser.add_argument("--explain", action="store_true", help="tell for every pod what every node answers")
    parser.add_argument("--config", metavar="FILE", help="a SchedulerConfiguration")
    parser.add_argument("--timeline", action="store_true", help="virtual time: pods arrive, run and end")
    parser.add_argument("--jsonl", action="store_true", help='lines of {"objects": […], "config": {…}}, a result each')
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table", help="format (default: table)")


def run(args: argparse.Namespace) -> int:
    config = _config(args.config)
    if args.jsonl:
        return _run_lines(args, config)
    outcome = _simulate(read_objects(args.files), config, args, ", ".join(args.files))
    print(json.dumps(outcome, indent=2) if args.output == "json" else "\n".join(_table(outcome)))
    return NEGATIVE if outcome["pending"] else OK


def _config(name: str | None) -> SchedulerConfiguration:
    if name is None:
        return SchedulerConfiguration()
    try:
        return load_yaml(SchedulerConfiguration, read_text(name))
    except ConfigError as error:
        raise CommandError(f"{name}: {error}.") from None


def _run_lines(args: argparse.Namespace, config: SchedulerConfiguration) -> int:
    """One output line per input line, also for one that cannot be used."""
    code = OK
    for name in args.files:
        for number, line in enumerate(read_lines(name), 1):
            if line.strip():
                code = max(code, _run_line(f"{name} line {number}", line, config, args))
    return code


def _run_line(place: str, line: str, config: SchedulerConfiguration, args: argparse.Namespace) -> int:
    try:
        outcome = _outcome(place, line, config, args)
        code = NEGATIVE if outcome["pending"] else OK
    except CommandError as error:
        print(f"kubenexus simulate: {error}", file=sys.stderr)
        outcome, code = {"error": str(error)}, FAILURE
    print(json.dumps(outcome, separators=(",", ":")), flush=True)
    return code


def _outcome(place: str, line: str, config: SchedulerConfiguration, args: argparse.Namespace) -> Obj:
    try:
        objects, config = _parse_line(place, line, config)
        return _simulate(objects, config, args, place)
    except RecursionError:
        raise CommandError(f"{place} has lists or mappings in each other too deeply: make them shallower.") from None


def _parse_line(place: str, line: str, config: SchedulerConfiguration) -> tuple[list[Obj], SchedulerConfiguration]:
    try:
        document = json.loads(line)
    except ValueError as error:
        raise CommandError(f"{place} is not JSON: {error}.") from None
    if not isinstance(document, dict) or not isinstance(document.get("objects"), list):
        raise CommandError(f'{place} has no list "objects".')
    for key in document.keys() - {"objects", "config"}:
        raise CommandError(f'{place}: {key} is not known; a line has "objects" and "config".')
    own = document.get("config")
    if own is not None and not isinstance(own, dict):
        raise CommandError(f"{place}: config is not a mapping.")
    try:
        config = load(SchedulerConfiguration, own) if own else config
    except ConfigError as error:
        raise CommandError(f"{place}: {error}.") from None
    return list(flatten(document["objects"], place)), config


def _simulate(objects: Iterable[Obj], config: SchedulerConfiguration, args: argparse.Namespace, place: str) -> Obj:
    try:
        simulation = Simulation(objects, config, explain=args.explain)
    except (ConfigError, ProjectionError) as error:
        raise CommandError(f"{place}: {error}.") from None
    for warning in simulation.warnings:
        print(f"kubenexus simulate: {warning}.", file=sys.stderr)
    return run_timeline(simulation) if args.timeline else simulation.run()


def _table(outcome: Obj) -> Iterator[str]:
    """Lines for people: who went where, why the others did not, what each node said if that was asked for."""
    entries = [*outcome["placements"], *outcome["pending"]]
    keys = ["pod", "node", *(key for key in ("numa", "gpus") if any(entry[key] for entry in entries))]
    keys += [key for key in ("start", "end") if any(key in entry for entry in entries)]
    yield from _columns([[key.upper() for key in keys], *([_cell(one[key]) for key in keys] for one in entries)])
    yield from _reasons(entries)
    for entry in entries:
        if "nodes" in entry:
            yield from ("", f"{entry['pod']}:", *_columns(_explained(entry["nodes"])))
    yield from ("", ", ".join(f"{key} {_short(value)}" for key, value in outcome["summary"].items()))


def _reasons(entries: Iterable[Obj]) -> Iterator[str]:
    """Each reason once for pods in a row that have it in common, as the members of a gang do."""
    told = (entry for entry in entries if entry["reason"])
    for (reason, node), alike in groupby(told, key=lambda entry: (entry["reason"], entry["node"])):
        first, *others = (entry["pod"] for entry in alike)
        pods = f"{first} and {len(others)} more" if others else first
        yield f"{pods}{'' if node else ' stay pending' if others else ' stays pending'}: {reason}"


def _explained(nodes: Obj) -> Iterator[list[str]]:
    for name, said in nodes.items():
        scores = ", ".join(f"{plugin} {score}" for plugin, score in said["scores"].items())
        yield [f"  {name}", said.get("code", "feasible"), scores or "; ".join(said["reasons"])]


def _columns(rows: Iterable[list[str]]) -> Iterator[str]:
    listed = list(rows)
    widths = [max(map(len, column)) for column in zip(*listed, strict=True)]
    for row in listed:
        yield "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()


def _short(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else "-" if value is None else str(value)


def _cell(value: object) -> str:
    if isinstance(value, list):
        return cpulist.format_list(value) or "-"
    return _short(value)
