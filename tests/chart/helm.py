"""Helm as the tests of the chart run it: each of the two, with nothing of the user's own settings."""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from hack import helms
from kubenexus.common.vocabulary import SYSTEM_NAMESPACE

Obj = dict[str, Any]

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "charts" / "kubenexus"
VALUE_SETS = sorted((CHART / "ci").glob("*.yaml"))
VERSIONS = ("1.34", "1.35", "1.36", "1.37")
MAJORS = (3, 4)
INTO = ("--namespace", SYSTEM_NAMESPACE, "--kube-version", "1.36.0")
BOTH = pytest.mark.parametrize("helm", MAJORS, indirect=True, ids=["helm 3", "helm 4"])
EVERY_SET = pytest.mark.parametrize("values", VALUE_SETS, ids=[path.stem for path in VALUE_SETS])


@dataclass(frozen=True, slots=True)
class Helm:
    """One Helm. `home` keeps its caches, so that the user's plugins and repositories play no part."""

    major: int
    program: Path
    home: Path

    def start(self, *words: object, kubeconfig: Path | None = None) -> subprocess.Popen[str]:
        """`helm` with these words, at work."""
        own = {f"HELM_{kind}_HOME": str(self.home / kind.lower()) for kind in ("CACHE", "CONFIG", "DATA")}
        env = {"PATH": os.environ["PATH"], "HOME": str(self.home), **own, "KUBECONFIG": str(kubeconfig or os.devnull)}
        command = [str(self.program), *map(str, words)]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env, cwd=ROOT)

    def run(self, *words: object) -> subprocess.CompletedProcess[str]:
        """`helm` with these words, whatever comes of it."""
        with self.start(*words) as process:
            out, err = process.communicate(timeout=120)
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def do(self, *words: object, kubeconfig: Path | None = None) -> str:
        """`helm` with these words, which must succeed; what it prints."""
        with self.start(*words, kubeconfig=kubeconfig) as process:
            return finished(process)

    def template(self, *words: object, release: str = "kubenexus") -> str:
        """The rendered chart. Helm 3 has to be told the version; without a cluster it thinks of an old one."""
        return _rendered(self, release, words)

    def objects(self, *words: object, release: str = "kubenexus") -> list[Obj]:
        """The rendered objects."""
        return [obj for obj in yaml.load_all(self.template(*words, release=release), yaml.CSafeLoader) if obj]


def finished(process: subprocess.Popen[str]) -> str:
    """What a Helm at work has printed when it ends, which must be a success."""
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    return out


@cache
def _rendered(helm: Helm, release: str, words: tuple[object, ...]) -> str:
    return helm.do("template", release, CHART, *INTO, *words)


def get_helm(major: int) -> Helm:
    """This Helm; skips the test, or fails it if that was asked for, where it is not to be had."""
    program = helms.find(major)
    if program is None:
        reason = f"no Helm {major}: run `python -m hack.helms` once"
        if os.environ.get("KUBENEXUS_E2E") == "required":
            pytest.fail(reason, pytrace=False)
        pytest.skip(reason)
    return Helm(major, program, Path(tempfile.gettempdir()) / f"kubenexus-helm{major}-{os.getuid()}")


def shown(page: str, beginning: str) -> list[str]:
    """The words after `helm` of the command that a page shows and that begins so."""
    text = (ROOT / page).read_text(encoding="utf-8").replace("\\\n", " ")
    [line] = [line for line in text.splitlines() if line.startswith(f"helm {beginning}")]
    return shlex.split(line)[1:]


def of_kind(objects: list[Obj], *kinds: str) -> list[Obj]:
    return [obj for obj in objects if obj["kind"] in kinds]


def one(objects: list[Obj], kind: str, name: str) -> Obj:
    """The object of this kind and name, of which there must be one."""
    [found] = [obj for obj in of_kind(objects, kind) if obj["metadata"]["name"] == name]
    return found


def pod_templates(objects: list[Obj]) -> dict[str, Obj]:
    """The pods that the chart brings about, by the kind and name of what makes them."""
    made = of_kind(objects, "Deployment", "DaemonSet", "Job")
    found = {f"{obj['kind']}/{obj['metadata']['name']}": obj["spec"]["template"]["spec"] for obj in made}
    return found | {f"Pod/{obj['metadata']['name']}": obj["spec"] for obj in of_kind(objects, "Pod")}
