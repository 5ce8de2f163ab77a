"""One running control plane: how its programs fit together, and the state folder it is known by.

The state folder holds everything of one instance (data, keys, logs, kubeconfig, process ids), so several stand side by
side and any process can end one. Two admission plugins are off because there are no kubelets here:

- TaintNodesByCondition would taint every new Node `not-ready` and nobody would ever take the taint away;
- ServiceAccount would refuse pods until a controller has made the namespace's `default` account.

For the same reason kube-controller-manager runs without the node lifecycle controller, which would mark nodes dead.
"""

from __future__ import annotations

import base64
import json
import secrets
import shutil
import ssl
import urllib.request
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from hack.control_plane import binaries
from hack.control_plane.processes import Process, free_port, running, start, stop, wait_for

OPTIONAL = {"controller-manager": "kube-controller-manager", "scheduler": "kube-scheduler"}
STATE = "state.json"
READY_WITHIN = 60.0
AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {"level": "None", "userGroups": ["system:serviceaccounts:kube-system"]},
        {"level": "Metadata", "userGroups": ["system:serviceaccounts"]},
        {"level": "None"},
    ],
}
"""What service accounts outside of kube-system ask for, and what becomes of it; nothing of the objects themselves."""


class StartError(Exception):
    """A program did not become ready. The text says which, and how its log ends."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """A control plane that was started; may have died since (`alive`)."""

    folder: Path
    url: str
    token: str
    etcd_url: str
    version: str
    programs: dict[str, str]
    processes: tuple[Process, ...]
    owner: Process | None = None

    @property
    def ca_file(self) -> Path:
        return self.folder / "kube-apiserver" / "apiserver.crt"

    @property
    def kubeconfig(self) -> Path:
        return self.folder / "kubeconfig"

    @property
    def audit_log(self) -> Path:
        """With `audit`: what service accounts asked for, an event of audit.k8s.io/v1 to a line."""
        return self.folder / "kube-apiserver" / "audit.jsonl"

    @property
    def alive(self) -> bool:
        return all(process.alive for process in self.processes)

    @property
    def abandoned(self) -> bool:
        """It was started for the lifetime of another process, which is gone."""
        return self.owner is not None and not self.owner.alive


def instances() -> Path:
    """The folder under which instances live that were not given another one."""
    return binaries.cache_root() / "instances"


def load(folder: Path) -> Cluster | None:
    """The instance of a state folder, or None when there is none."""
    try:
        state = json.loads((folder / STATE).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    processes = tuple(Process(**process) for process in state.pop("processes"))
    owner = Process(**state["owner"]) if state["owner"] else None
    return Cluster(**{**state, "folder": folder, "processes": processes, "owner": owner})


def up(
    folder: Path,
    components: Iterable[str] = (),
    *,
    owner: int | None = None,
    audit: bool = False,
    flags: Mapping[str, object] | None = None,
    say: binaries.Say,
) -> Cluster:
    """Start a control plane in a state folder that is new, empty or left over from a dead one.

    `owner` is the id of the process it is for: once that is gone, `sweep` ends it. With `audit` the API server writes
    down what service accounts ask for; `flags` are more of its own. Raises MissingError or StartError, and then nothing
    is left running.
    """
    optional = [OPTIONAL[component] for component in components]
    programs = binaries.ensure(["etcd", "kube-apiserver", *optional], say)
    if load(folder):
        down(folder)
    if folder.exists() and any(folder.iterdir()):
        raise StartError(f"{folder} is not empty and no control plane of ours; name another folder with --state.")
    launch = _Launch(folder, programs, None if owner is None else running("owner", owner))
    try:
        launch.etcd()
        launch.apiserver({**(launch.audit() if audit else {}), **(flags or {})})
        for name in optional:
            launch.component(name)
        return launch.cluster
    except BaseException:
        down(folder)
        raise


def down(folder: Path) -> bool:
    """End what was started in this folder and remove it; False when nothing was."""
    cluster = load(folder)
    if cluster is None:
        return False
    for process in reversed(cluster.processes):
        stop(process)
    shutil.rmtree(folder, ignore_errors=True)
    return True


def sweep() -> None:
    """End the instances whose owner died without doing so."""
    for state in instances().glob(f"*/{STATE}"):
        cluster = load(state.parent)
        if cluster and cluster.abandoned:
            down(state.parent)


class _Launch:
    """Starting one instance, step by step. Every process is on disk before we wait for it."""

    def __init__(self, folder: Path, programs: dict[str, Path], owner: Process | None) -> None:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.folder = folder
        self.programs = programs
        self.tokens = {name: secrets.token_hex(16) for name in ("admin", *OPTIONAL.values())}
        names = {name: str(path) for name, path in programs.items()}
        self.cluster = Cluster(folder, "", self.tokens["admin"], "", binaries.version(), names, (), owner)
        self._save()

    def etcd(self) -> None:
        client, peer = f"http://127.0.0.1:{free_port()}", f"http://127.0.0.1:{free_port()}"
        self._note(etcd_url=client)
        flags = {
            "data-dir": self.folder / "etcd" / "data",
            "listen-client-urls": client,
            "advertise-client-urls": client,
            "listen-peer-urls": peer,
            "initial-advertise-peer-urls": peer,
            "initial-cluster": f"default={peer}",
            "unsafe-no-fsync": "true",
            "log-level": "warn",
        }
        self._start("etcd", flags, lambda: _answers(f"{client}/health"))

    def apiserver(self, more: Mapping[str, object]) -> None:
        port = free_port()
        self._note(url=f"https://127.0.0.1:{port}")
        home = self.folder / "kube-apiserver"
        home.mkdir(exist_ok=True)
        flags = {
            "etcd-servers": self.cluster.etcd_url,
            "bind-address": "127.0.0.1",
            "secure-port": port,
            "cert-dir": home,
            "token-auth-file": _private(home / "tokens.csv", self._token_table()),
            "service-account-issuer": "https://kubernetes.default.svc",
            "service-account-key-file": _private(home / "service-account.key", _ec_private_key()),
            "service-account-signing-key-file": home / "service-account.key",
            "service-cluster-ip-range": "10.96.0.0/16",
            "authorization-mode": "Node,RBAC",
            "enable-aggregator-routing": "true",  # webhooks are reached by their endpoints: no proxy leads to Services
            "disable-admission-plugins": "ServiceAccount,TaintNodesByCondition",
            "allow-privileged": "true",
            "profiling": "false",
            **more,
        }
        ready = lambda: self._api_answers("/readyz") and self._api_answers("/api/v1/namespaces/default")  # noqa: E731
        self._start("kube-apiserver", flags, ready)
        self._write_kubeconfig("admin", self.cluster.kubeconfig)

    def audit(self) -> dict[str, object]:
        """Flags of the API server; the policy is written."""
        self.cluster.audit_log.parent.mkdir()
        policy = _private(self.cluster.audit_log.with_name("audit-policy.json"), json.dumps(AUDIT_POLICY))
        return {"audit-policy-file": policy, "audit-log-path": self.cluster.audit_log}

    def component(self, name: str) -> None:
        port = free_port()
        home = self.folder / name
        home.mkdir()
        flags = {
            "kubeconfig": self._write_kubeconfig(name, home / "kubeconfig"),
            "bind-address": "127.0.0.1",
            "secure-port": port,
            "cert-dir": home,
            "leader-elect": "false",
            "profiling": "false",
            "kube-api-qps": 1000,  # the default of a large cluster's good citizen makes tests wait
            "kube-api-burst": 1000,
            **(self._controllers() if name == "kube-controller-manager" else {}),
        }
        # It is healthy before its controllers run; the account they make in every namespace shows that they do.
        first_deed = "/api/v1/namespaces/default" + ("/serviceaccounts/default" if "controller" in name else "")
        healthy = f"https://127.0.0.1:{port}/healthz"
        self._start(name, flags, lambda: _answers(healthy, ca=home / f"{name}.crt") and self._api_answers(first_deed))

    def _controllers(self) -> dict[str, object]:
        return {
            "controllers": "*,-node-lifecycle-controller,-taint-eviction-controller",
            "use-service-account-credentials": "true",
            "service-account-private-key-file": self.folder / "kube-apiserver" / "service-account.key",
            "root-ca-file": self.cluster.ca_file,
        }

    def _start(self, name: str, flags: dict[str, object], ready: Callable[[], bool]) -> None:
        (self.folder / name).mkdir(exist_ok=True)
        log = self.folder / name / "log"
        command = [str(self.programs[name]), *(f"--{flag}={value}" for flag, value in flags.items())]
        process = start(name, command, log)
        self._note(processes=(*self.cluster.processes, process))
        wait_for(lambda: not process.alive or ready(), READY_WITHIN)
        if not process.alive or not ready():
            what = "was not ready in time" if process.alive else "ended at once"
            tail = "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-15:])
            raise StartError(f"{name} {what}; its log ends with\n{tail}")

    def _api_answers(self, path: str) -> bool:
        return _answers(self.cluster.url + path, ca=self.cluster.ca_file, token=self.cluster.token)

    def _token_table(self) -> str:
        rows = [f'{self.tokens["admin"]},admin,admin,"system:masters"']
        rows += [f"{self.tokens[name]},system:{name},{name}" for name in OPTIONAL.values()]
        return "\n".join(rows) + "\n"

    def _write_kubeconfig(self, user: str, path: Path) -> Path:
        server = {"server": self.cluster.url, "certificate-authority": str(self.cluster.ca_file)}
        context = {"cluster": "control-plane", "user": user}
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "control-plane", "cluster": server}],
            "users": [{"name": user, "user": {"token": self.tokens[user]}}],
            "contexts": [{"name": "control-plane", "context": context}],
            "current-context": "control-plane",
        }
        return _private(path, json.dumps(content, indent=2) + "\n")

    def _note(self, **changes: Any) -> None:
        self.cluster = replace(self.cluster, **changes)
        self._save()

    def _save(self) -> None:
        state = {**asdict(self.cluster), "folder": str(self.folder)}
        _private(self.folder / STATE, json.dumps(state, indent=2) + "\n")


def _answers(url: str, ca: Path | None = None, token: str = "") -> bool:
    """The URL says 200. Certificates are checked against `ca`, which the server makes itself after its start."""
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"} if token else {})
    try:
        https = urllib.request.HTTPSHandler(context=ssl.create_default_context(cafile=str(ca)) if ca else None)
        no_proxy = urllib.request.ProxyHandler({})
        with urllib.request.build_opener(no_proxy, https).open(request, timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:  # urllib's errors are, too
        return False


def _private(path: Path, text: str) -> Path:
    """Write a file for our user's eyes only, whole or not at all: others look at the state while it changes."""
    draft = path.with_name(f".{path.name}")
    draft.touch(mode=0o600)
    draft.write_text(text, encoding="utf-8")
    return draft.replace(path)


def _ec_private_key() -> str:
    """A new P-256 key in PEM. Its format (RFC 5915) may leave the public half to the reader, so a number suffices."""
    number = secrets.randbits(255).to_bytes(32, "big")
    der = bytes.fromhex("30310201010420") + number + bytes.fromhex("a00a06082a8648ce3d030107")
    return f"-----BEGIN EC PRIVATE KEY-----\n{base64.encodebytes(der).decode()}-----END EC PRIVATE KEY-----\n"
