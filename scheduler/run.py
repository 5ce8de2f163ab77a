"""Runs the scheduler: gives a node to every pod that asks for `schedulerName: kubenexus-scheduler`.

examples:
  kubenexus scheduler                                            in a pod, one of several replicas
  kubenexus scheduler --kubeconfig ~/.kube/config --no-leader-elect
  kubenexus scheduler --config scheduler.yaml --metrics-port 10259
"""

from __future__ import annotations

import argparse
import platform
import signal
import sys
import uuid
from pathlib import Path

from kubenexus.common import logs
from kubenexus.common.cli import OK, CommandError
from kubenexus.common.config import ConfigError, SchedulerConfiguration, load_yaml
from kubenexus.common.kube import auth
from kubenexus.common.kube.client import Client
from kubenexus.common.kube.errors import ApiError
from kubenexus.common.serve import Server
from kubenexus.scheduler.binder import THREADS
from kubenexus.scheduler.process import Scheduler

log = logs.get(__name__)


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--config", type=Path, metavar="FILE", help="a SchedulerConfiguration")
    parser.add_argument("--kubeconfig", metavar="FILE", help="default: $KUBECONFIG, or the pod's service account")
    parser.add_argument("--metrics-port", type=int, default=0, metavar="PORT", help="health and metrics; 0: off")
    parser.add_argument(
        "--bind-threads", type=int, default=THREADS, metavar="N", help="binds at once (default: %(default)s)"
    )
    parser.add_argument(
        "--no-leader-elect", action="store_true", help="work at once; only if no other replica can be running"
    )


def run(args: argparse.Namespace) -> int:
    if not 1 <= args.bind_threads <= 256:
        raise CommandError(f"--bind-threads is {args.bind_threads}; choose 1 to 256.")
    logs.configure("text" if sys.stderr.isatty() else "json")
    config = read_config(args.config)
    with connect(args.kubeconfig, args.bind_threads) as client:
        identity = f"{platform.node()}_{uuid.uuid4()}"
        try:
            scheduler = Scheduler(
                client, config, identity, elect=not args.no_leader_elect, bind_threads=args.bind_threads
            )
        except ConfigError as error:
            raise CommandError(f"{error}.") from error
        return _serve(scheduler, args.metrics_port)


def read_config(path: Path | None) -> SchedulerConfiguration:
    """The configuration in a file, or the default one."""
    if path is None:
        return SchedulerConfiguration()
    try:
        return load_yaml(SchedulerConfiguration, path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}.") from error
    except ConfigError as error:
        raise CommandError(f"{path}: {error}.") from error


def connect(kubeconfig: str | None, bind_threads: int) -> Client:
    """A client with a connection for each thread that may need one: watches, binds, reports, events, election."""
    try:
        access = auth.Access(lambda: auth.find(kubeconfig), connections=32 + bind_threads)
    except ApiError as error:
        raise CommandError(f"{error}.") from error
    return Client(access, agent="kubenexus-scheduler")


def _serve(scheduler: Scheduler, port: int) -> int:
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: scheduler.stop())
    server = _server(scheduler, port) if port else None
    try:
        scheduler.run()
    finally:
        if server:
            server.stop()
    if scheduler.deposed:
        raise CommandError("the Lease is lost, so this process ends and leaves the work to the new leader.")
    return OK


def _server(scheduler: Scheduler, port: int) -> Server:
    try:
        server = Server(("", port), "scheduler", ready={"watches": scheduler.ready}, live={"loop": scheduler.alive})
    except (OSError, OverflowError) as error:
        raise CommandError(f"port {port} cannot be served: {error}; choose another --metrics-port.") from error
    server.start()
    return server
