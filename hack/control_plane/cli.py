"""The command `hack/control-plane`: answers on stdout, progress and errors on stderr, exit code 0, 1 or 2."""

from __future__ import annotations

import argparse
import shlex
import sys
import time
from pathlib import Path

from hack.control_plane import binaries, cluster

ABOUT = "A real Kubernetes control plane on loopback, for tests; nothing in it survives `down`."
EXAMPLE = """example:
  hack/control-plane up --with controller-manager
  eval "$(hack/control-plane env)" && kubectl get namespaces
  hack/control-plane down
"""


def main(arguments: list[str] | None = None) -> int:
    """Run one subcommand; an expected failure is one message on stderr and exit code 1."""
    options = _parser().parse_args(arguments)
    try:
        return int(options.run(options))
    except (binaries.MissingError, cluster.StartError) as problem:
        print(problem, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def _parser() -> argparse.ArgumentParser:
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(prog="hack/control-plane", description=ABOUT, epilog=EXAMPLE, formatter_class=raw)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    up = commands.add_parser("up", help="start etcd and kube-apiserver, and write a kubeconfig")
    up.add_argument("--with", dest="components", type=_components, default=[], metavar="A,B",
                    help=f"also start these: {', '.join(cluster.OPTIONAL)}")  # fmt: skip
    up.set_defaults(run=_up)
    down = commands.add_parser("down", help="stop what `up` started, and nothing else")
    down.set_defaults(run=_down)
    env = commands.add_parser("env", help="print shell exports for what is running")
    env.set_defaults(run=_env)
    for command in (up, down, env):
        command.add_argument("--state", type=Path, default=cluster.instances() / "default", metavar="DIR",
                             help="folder of this instance (default: %(default)s)")  # fmt: skip
    build = commands.add_parser("build", help="find, build or download every program; say where they are")
    build.set_defaults(run=_build)
    return parser


def _components(text: str) -> list[str]:
    names = [name for name in text.split(",") if name]
    for name in names:
        if name not in cluster.OPTIONAL:
            raise argparse.ArgumentTypeError(f"{name!r} is none of {', '.join(cluster.OPTIONAL)}")
    return names


def _up(options: argparse.Namespace) -> int:
    running = cluster.load(options.state)
    if running and running.alive and {cluster.OPTIONAL[name] for name in options.components} <= running.programs.keys():
        _say(f"already running at {running.url}")
    else:
        begun = time.monotonic()
        running = cluster.up(options.state.absolute(), options.components, say=_say)
        _say(f"Kubernetes {running.version} is up at {running.url} after {time.monotonic() - begun:.1f} s")
    print(f"export KUBECONFIG={shlex.quote(str(running.kubeconfig))}")
    return 0


def _down(options: argparse.Namespace) -> int:
    _say("stopped" if cluster.down(options.state) else f"nothing is running in {options.state}")
    return 0


def _env(options: argparse.Namespace) -> int:
    running = cluster.load(options.state)
    if running is None or not running.alive:
        _say(f"No control plane is running in {options.state}; start one with hack/control-plane up.")
        return 1
    kubectl = binaries.find("kubectl")
    exports = {"KUBECONFIG": str(running.kubeconfig), "KUBENEXUS_APISERVER": running.url}
    exports |= {name.upper().replace("-", "_"): path for name, path in running.programs.items()}
    exports |= {"KUBECTL": str(kubectl)} if kubectl else {}
    for name, value in exports.items():
        print(f"export {name}={shlex.quote(value)}")
    return 0


def _build(_: argparse.Namespace) -> int:
    for name, path in binaries.ensure(binaries.ALL, _say).items():
        print(f"{name}\t{path}")
    return 0


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
