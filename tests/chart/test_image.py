"""The Dockerfile, as far as it can be looked at without docker."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tests.chart.helm import ROOT, Obj, pod_templates

TEXT = (ROOT / "Dockerfile").read_text(encoding="utf-8")
STAGES = re.split(r"^FROM ", TEXT, flags=re.M)[1:]


def test_the_linter_has_nothing_to_say() -> None:
    linter = Path(sys.executable).with_name("hadolint")
    done = subprocess.run([linter, ROOT / "Dockerfile"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


def test_what_is_copied_is_there_and_not_ignored() -> None:
    copied = [word for line in re.findall(r"^COPY (?!--)(.+)", TEXT, re.M) for word in line.split()[:-1]]
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    assert {"agent", "webhook", "scheduler", "common", "setup.cfg"} <= set(copied)
    assert [name for name in copied if not (ROOT / name).exists() or f"!{name}" not in ignored] == []


def test_the_image_runs_as_the_user_that_pods_ask_for(objects: list[Obj]) -> None:
    [user] = re.findall(r"^USER (\d+):(\d+)$", STAGES[-1], re.M)
    asked = {pod["securityContext"]["runAsUser"] for pod in pod_templates(objects).values()}
    assert asked == {int(user[0])} == {int(user[1])}


def test_arguments_of_pods_are_words_of_the_program(objects: list[Obj]) -> None:
    assert 'ENTRYPOINT ["kubenexus"]' in STAGES[-1]
    assert not any("command" in container for pod in pod_templates(objects).values() for container in pod["containers"])
