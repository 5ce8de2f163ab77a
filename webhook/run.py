"""Runs the admission webhook: completes pods of namespaces that ask for it, and refuses what cannot be meant.

examples:
  kubenexus webhook                                          in a pod; certificates are its own business
  kubenexus webhook --certificates mounted --certificate-dir /certs
  kubenexus webhook --check pod.yaml                         what it would do with these pods, without a cluster
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import socket
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from kubenexus.common import logs
from kubenexus.common.cli import CommandError
from kubenexus.common.kube import auth
from kubenexus.common.kube.client import Client
from kubenexus.common.kube.clocks import wall_clock
from kubenexus.common.kube.errors import ApiError
from kubenexus.common.vocabulary import SCHEDULER_NAME, SYSTEM_NAMESPACE
from kubenexus.webhook import check, rights
from kubenexus.webhook.certs import Holdings, Step, renewed
from kubenexus.webhook.process import Webhook
from kubenexus.webhook.rotation import Keeper, Place
from kubenexus.webhook.server import Server
from kubenexus.webhook.tls import Files, Tls

log = logs.get(__name__)

SERVICE = "kubenexus-webhook"
MANAGED, MOUNTED = "managed", "mounted"
OWN_NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
CONNECTIONS = 32
BACKLOG = 1024
Address = tuple[str, int]


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--kubeconfig", metavar="FILE", help="default: $KUBECONFIG, or the pod's service account")
    parser.add_argument("--address", type=_address, default=("0.0.0.0", 8443), metavar="HOST:PORT", help=_ADDRESS_HELP)
    parser.add_argument("--health", type=_address, metavar="HOST:PORT", help=_HEALTH_HELP)
    parser.add_argument("--certificates", choices=(MANAGED, MOUNTED), default=MANAGED, help=_CERTIFICATES_HELP)
    parser.add_argument("--certificate-dir", type=Path, metavar="DIR", help=_DIR_HELP)
    parser.add_argument("--namespace", default=_own_namespace(), help="of Secret and Service (default: the pod's own)")
    parser.add_argument("--secret", default=rights.SECRET, metavar="NAME", help=f"default: {rights.SECRET}")
    parser.add_argument("--service", default=SERVICE, metavar="NAME", help=f"default: {SERVICE}")
    parser.add_argument(
        "--webhook-configuration", default=rights.CONFIGURATION, metavar="NAME", help=_CONFIGURATION_HELP
    )
    parser.add_argument(
        "--scheduler-name",
        dest="schedulers",
        type=_names,
        default=(SCHEDULER_NAME,),
        metavar="NAME[,NAME…]",
        help=_SCHEDULER_HELP,
    )
    check.configure(parser)


_ADDRESS_HELP = "where to serve reviews with TLS (default: 0.0.0.0:8443)"
_HEALTH_HELP = "where to serve health and metrics without TLS (default: nowhere)"
_CERTIFICATES_HELP = "managed: made, renewed and made known by us, in --secret; mounted: files that others renew"
_DIR_HELP = "holds tls.crt and tls.key; needed with mounted (default: a temporary folder)"
_CONFIGURATION_HELP = f"whose caBundle is kept, mutating and validating alike (default: {rights.CONFIGURATION})"
_SCHEDULER_HELP = f"what pods get as schedulerName, and others of ours that they may name (default: {SCHEDULER_NAME})"


def run(args: argparse.Namespace) -> int:
    if args.check:
        return check.main(args)
    logs.configure("text" if sys.stderr.isatty() else "json")
    client = _connect(args.kubeconfig)
    with _certificate_folder(args) as folder:
        files = Files.of(folder)
        tls = Tls(files)
        place = Place(args.namespace, args.secret, args.service, args.webhook_configuration)
        keeper = Keeper(client, place, files) if args.certificates == MANAGED else None
        if args.health:
            _listen(args.health, "--health").close()  # the worker will; here somebody reads what is wrong
        listening = _listen(args.address, "--address")
        log.info("serving admission reviews", address="{}:{}".format(*listening.getsockname()[:2]))
        Server(lambda: Webhook(client, tls, args.schedulers, keeper, args.health), listening, files, tls).run()
    raise AssertionError("gunicorn ends the process")


def _connect(kubeconfig: str | None) -> Client:
    try:
        access = auth.Access(lambda: auth.find(kubeconfig), connections=CONNECTIONS)
    except ApiError as error:
        raise CommandError(f"{str(error).rstrip('.')}.") from error
    return Client(access, agent="kubenexus-webhook")


@contextlib.contextmanager
def _certificate_folder(args: argparse.Namespace) -> Iterator[Path]:
    """A folder with a certificate to begin with. One that we made goes with us, though not with a worker."""
    if args.certificates == MOUNTED:
        yield _mounted(args.certificate_dir)
        return
    given: Path | None = args.certificate_dir
    folder = given or Path(tempfile.mkdtemp(prefix="kubenexus-webhook-"))
    # Nobody trusts this one; it lets us serve health until the Secret has been read.
    first = renewed(Step.BOTH, Holdings(), (args.service,), wall_clock())
    try:
        Files.of(folder).write(first.leaf, first.leaf_key)
    except OSError as error:
        raise CommandError(f"{folder} cannot be written: {error}; choose another --certificate-dir.") from error
    parent = os.getpid()
    try:
        yield folder
    finally:
        if given is None and os.getpid() == parent:
            shutil.rmtree(folder, ignore_errors=True)


def _mounted(folder: Path | None) -> Path:
    """The folder, if it can be served from. An expired certificate is no obstacle: it will be replaced."""
    if folder is None:
        raise CommandError("with --certificates mounted, say where the files are with --certificate-dir.")
    try:
        Tls(Files.of(folder)).context()
    except (OSError, ValueError) as error:
        raise CommandError(f"tls.crt and tls.key in {folder} cannot be used: {error}; mount a TLS Secret.") from error
    return folder


def _listen(address: Address, flag: str) -> socket.socket:
    host, port = address
    six = ":" in host
    try:
        return socket.create_server(
            address, family=socket.AF_INET6 if six else socket.AF_INET, backlog=BACKLOG, dualstack_ipv6=six
        )
    except OSError as error:
        raise CommandError(f"{host}:{port} cannot be served: {error}; choose another {flag}.") from error


def _address(text: str) -> Address:
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not HOST:PORT, such as 0.0.0.0:8443")
    return host.strip("[]") or "0.0.0.0", int(port)


def _names(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(","))
    if not all(names):
        raise argparse.ArgumentTypeError(f"{text!r} has an empty name in it: write names with commas between them")
    return names


def _own_namespace() -> str:
    try:
        return OWN_NAMESPACE.read_text(encoding="utf-8").strip() or SYSTEM_NAMESPACE
    except OSError:
        return SYSTEM_NAMESPACE
