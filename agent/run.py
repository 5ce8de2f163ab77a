"""Runs the node agent: discovers this machine's topology and publishes it as labels, annotation and ResourceSlices.

examples:
  kubenexus agent                                     in a pod; NODE_NAME names the Node
  kubenexus agent --kubeconfig ~/.kube/config --once  publish this host once and exit
  kubenexus agent --root capture --node-name dgx-1    a captured machine, as if it were that Node
"""

from __future__ import annotations

import argparse
import os
import platform
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path

from kubenexus.agent.agenda import Agenda, Timing
from kubenexus.agent.discovery.nvml import OFF, recorded_or_asked
from kubenexus.agent.kubelet import CONFIG
from kubenexus.agent.loop import Event, Loop, SliceWatch
from kubenexus.agent.machine import Machine
from kubenexus.agent.podresources import SOCKET
from kubenexus.agent.publish.publisher import NodeGone, Publisher
from kubenexus.agent.publish.wanted import DEFAULT_PARTS, Part
from kubenexus.common import logs
from kubenexus.common.cli import OK, CommandError
from kubenexus.common.kube import auth
from kubenexus.common.kube.client import Client
from kubenexus.common.kube.errors import AlreadyExists, ApiError, Conflict
from kubenexus.common.serve import Server

log = logs.get(__name__)

CALL_SECONDS = 10.0
TRIES = 3


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--node-name", default=default_node_name(), metavar="NAME", help="default: $NODE_NAME, or host")
    parser.add_argument("--root", type=Path, default=Path("/"), metavar="DIR", help="holds sys and proc (default: /)")
    parser.add_argument("--nvml", choices=("auto", "off"), default="auto", help="ask NVML about GPUs (default: auto)")
    parser.add_argument("--publish", type=_parts, default=DEFAULT_PARTS, metavar="LIST", help=_PUBLISH_HELP)
    parser.add_argument("--pod-resources-socket", metavar="PATH", help=f"the kubelet's (default: ROOT/{SOCKET})")
    parser.add_argument("--kubelet-config", type=Path, metavar="FILE", help=f"the kubelet's (default: ROOT/{CONFIG})")
    parser.add_argument("--kubelet-config-dir", type=Path, metavar="DIR", help="its drop-ins (default: it has none)")
    parser.add_argument("--stale-after", type=_seconds, default=900.0, metavar="S", help=_STALE_HELP)
    parser.add_argument("--interval", type=_seconds, default=300.0, metavar="S", help="between scans (default: 300)")
    parser.add_argument("--metrics-port", type=int, default=0, metavar="PORT", help="health and metrics; 0: off")
    parser.add_argument("--once", action="store_true", help="publish once and exit")
    add_kubeconfig(parser)


_PUBLISH_HELP = f"of {','.join(Part)} (default: {','.join(p for p in Part if p in DEFAULT_PARTS)}); the rest is removed"
_STALE_HELP = "how long GPU facts may be old before they are marked stale (default: 900)"


def add_kubeconfig(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--kubeconfig", metavar="FILE", help="default: $KUBECONFIG, or the pod's service account")


def default_node_name() -> str:
    return os.environ.get("NODE_NAME") or platform.node().lower()


def connect(kubeconfig: str | None) -> Client:
    """A client for one person or agent: few connections, and patience for one call only."""
    try:
        access = auth.Access(lambda: auth.find(kubeconfig), connections=2)
    except ApiError as error:
        raise CommandError(sentence(error)) from error
    return Client(access, agent="kubenexus-agent", timeout=CALL_SECONDS)


def sentence(error: ApiError) -> str:
    return str(error).rstrip(".") + "."


def run(args: argparse.Namespace) -> int:
    if not (args.root / "sys").is_dir():
        raise CommandError(f"there is no folder sys in {args.root}; name the folder that holds sys and proc.")
    logs.configure("text" if sys.stderr.isatty() else "json")
    socket = Path(args.pod_resources_socket) if args.pod_resources_socket else args.root / SOCKET
    nvml = lambda: OFF if args.nvml == "off" else recorded_or_asked(args.root)  # noqa: E731
    machine = Machine(args.root, nvml, socket, args.kubelet_config, args.kubelet_config_dir)
    with connect(args.kubeconfig) as client, logs.context(node=args.node_name):
        try:
            return _once(args, client, machine) if args.once else _forever(args, client, machine)
        except NodeGone as gone:
            if not gone.seen:
                raise CommandError(f"{gone}; name the Node that this machine is with --node-name.") from gone
            log.info("the Node is gone, so there is nothing left to publish")
            return OK


def _once(args: argparse.Namespace, client: Client, machine: Machine) -> int:
    publisher = Publisher(client, args.node_name, args.publish, args.stale_after)
    look = machine.look()
    for attempt in range(1, TRIES + 1):
        try:
            written = publisher.publish(look, time.monotonic())
        except ApiError as error:
            if not isinstance(error, Conflict | AlreadyExists) or attempt == TRIES:
                raise CommandError(sentence(error)) from error
        else:
            log.info("published", writes=written)
            break
    return OK


def _forever(args: argparse.Namespace, client: Client, machine: Machine) -> int:
    clock = time.monotonic
    agenda = Agenda(_timing(args.interval), clock())
    watch = SliceWatch(client, args.node_name, lambda: loop.tell(Event.DISTURBED))
    publisher = Publisher(client, args.node_name, args.publish, args.stale_after, watch.slices)
    started = watch.ensure if Part.SLICES in args.publish else lambda: None
    loop = Loop(machine, publisher, agenda, on_published=started, clock=clock)
    server = _serve(args.metrics_port, agenda) if args.metrics_port else None
    for number, event in ((signal.SIGTERM, Event.STOP), (signal.SIGINT, Event.STOP), (signal.SIGHUP, Event.RESCAN)):
        signal.signal(number, lambda *_, event=event: loop.tell(event))
    try:
        loop.run()
    finally:
        watch.stop()
        if server:
            server.stop()
    return OK


def _timing(interval: float) -> Timing:
    """The scan interval is the pace; everything else is as usual, or as fast where that is faster."""
    usual = Timing()
    return replace(usual, scan=interval, poll=min(usual.poll, interval), check=min(usual.check, interval))


def _serve(port: int, agenda: Agenda) -> Server:
    ready = {"published": lambda: agenda.ready(time.monotonic())}
    live = {"loop": lambda: agenda.alive(time.monotonic())}
    try:
        server = Server(("", port), "agent", ready=ready, live=live)
    except (OSError, OverflowError) as error:
        raise CommandError(f"port {port} cannot be served: {error}; choose another --metrics-port.") from error
    server.start()
    return server


def _parts(text: str) -> frozenset[Part]:
    try:
        return frozenset(Part(word.strip()) for word in text.split(",") if word.strip())
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{error}: use some of {','.join(Part)}") from None


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 0 < seconds < 1e9:
        raise argparse.ArgumentTypeError(f"{text} is not a number of seconds above 0")
    return seconds
