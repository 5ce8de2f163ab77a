"""The demo, as a user runs it."""

from __future__ import annotations

import re
import signal
import subprocess
import sys

import pytest


@pytest.mark.slow
def test_demo_places_gangs_gpus_and_numa_nodes() -> None:
    command = [sys.executable, "-m", "kubenexus.common.cli", "demo", "--nodes", "6"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    shown = done.stdout
    assert "min-available is 'abc', which is not a whole number" in shown
    first, second = re.findall(r"(?:Who has which GPUs|both of its workers).*?\n\n(.*?\n\n.*?)\n\n", shown, re.S)
    assert re.search(r"train-0-\w+ on dgx-h100-\d; NUMA 0, 1; GPUs 0, 1, 2, 3, 4, 5, 6, 7", first)
    assert len(set(re.findall(r"train-\d-\w+ on (dgx-h100-\d)", first))) == 2
    assert re.search(r"pair on [\w-]+; NUMA \d; GPUs \d, \d", first)
    assert re.search(r"hpc on epyc; NUMA \d", first)
    assert "Gang Job tune needs 2 members at once: 2 exist, room for 1: 0/6 nodes are available" in shown
    assert len(re.findall(r"tune-\d-\w+ on dgx", second)) == 2
    assert "greedy waits: 0/6 nodes are available: 6 Insufficient nvidia.com/gpu." in shown


@pytest.mark.slow
def test_demo_that_is_kept_is_a_sound_installation() -> None:
    """What it prints for a second terminal is enough to look around."""
    command = [sys.executable, "-m", "kubenexus.common.cli"]
    with subprocess.Popen([*command, "demo", "--nodes", "5", "--keep"], stdout=subprocess.PIPE, text=True) as demo:
        assert demo.stdout is not None
        shown = (re.search(r"export KUBECONFIG=(\S+)", line) for line in demo.stdout)
        kubeconfig = next(found[1] for found in shown if found)
        words = ["doctor", "--kubeconfig", kubeconfig, "--try-in", "default"]
        done = subprocess.run([*command, *words], capture_output=True, text=True, timeout=60, check=False)
        demo.send_signal(signal.SIGINT)
        assert demo.wait(60) == 0
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.findall(r"^ok +(\w+)", done.stdout, re.M) == ["server", "nodes", "scheduler", "webhook"]


def test_too_few_nodes_for_the_story_are_refused() -> None:
    command = [sys.executable, "-m", "kubenexus.common.cli", "demo", "--nodes", "2"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == "kubenexus demo: --nodes is 2; the demo takes 5 to 200 nodes.\n"
