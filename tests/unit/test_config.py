"""The configuration loader, through the scheduler's configuration and one that uses every type."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

import pytest

from kubenexus.common import vocabulary
from kubenexus.common.config import (
    ConfigError,
    DisabledPlugin,
    EnabledPlugin,
    LeaderElection,
    PluginConfig,
    SchedulerConfiguration,
    load,
    load_yaml,
)

HEADER = f"apiVersion: {vocabulary.CONFIG_API_VERSION}\nkind: SchedulerConfiguration\n"

FULL = (
    HEADER
    + """
profiles:
- schedulerName: gpu
  plugins:
    enabled: [{name: NodeResourcesFit, weight: 5}, {name: Gang}]
    disabled: [{name: "*"}]
  pluginConfig:
  - name: NodeResourcesFit
    args: {scoringStrategy: {type: MostAllocated}}
- {}
leaderElection: {leaseDuration: 1m30s, resourceNamespace: elsewhere}
"""
)


def test_a_whole_file() -> None:
    config = load_yaml(SchedulerConfiguration, FULL)
    gpu, plain = config.profiles
    assert gpu.scheduler_name == "gpu"
    assert gpu.plugins.enabled == (EnabledPlugin("NodeResourcesFit", 5), EnabledPlugin("Gang", None))
    assert gpu.plugins.disabled == (DisabledPlugin("*"),)
    assert gpu.plugin_config == (PluginConfig("NodeResourcesFit", {"scoringStrategy": {"type": "MostAllocated"}}),)
    assert plain.scheduler_name == vocabulary.SCHEDULER_NAME
    assert config.leader_election.lease_duration == timedelta(seconds=90)
    assert config.leader_election.resource_namespace == "elsewhere"


def test_what_is_not_said_has_its_default() -> None:
    config = load_yaml(SchedulerConfiguration, HEADER)
    assert config == SchedulerConfiguration() == load(SchedulerConfiguration, {})
    election = config.leader_election
    assert (election.leader_elect, election.resource_name) == (True, vocabulary.LEASE_NAME)
    assert [election.lease_duration, election.renew_deadline, election.retry_period] == [
        timedelta(seconds=seconds) for seconds in (15, 10, 2)
    ]


REFUSED: dict[str, tuple[str, str]] = {
    "misspelt key": (
        HEADER + "profiles: [{plugins: {enabledd: []}}]",
        "profiles[0].plugins.enabledd is not known (did you mean enabled?)",
    ),
    "key like no other": (HEADER + "xyz: 1", "xyz is not known"),
    "snake case": (HEADER + "leader_election: {}", "leader_election is not known (did you mean leaderElection?)"),
    "number for text": (HEADER + "profiles: [{schedulerName: 3}]", "profiles[0].schedulerName is 3, which is not text"),
    "text for a number": (
        HEADER + "profiles: [{plugins: {enabled: [{name: a, weight: '2'}]}}]",
        "profiles[0].plugins.enabled[0].weight is '2', which is not a whole number",
    ),
    "true for a number": (
        HEADER + "profiles: [{plugins: {enabled: [{name: a, weight: true}]}}]",
        "profiles[0].plugins.enabled[0].weight is True, which is not a whole number",
    ),
    "mapping for a list": (HEADER + "profiles: {}", "profiles is {}, which is not a list"),
    "list for a mapping": (HEADER + "leaderElection: []", "leaderElection is [], which is not a mapping"),
    "null for a mapping": (HEADER + "leaderElection:", "leaderElection is None, which is not a mapping"),
    "missing key": (HEADER + "profiles: [{pluginConfig: [{args: {}}]}]", "profiles[0].pluginConfig[0].name is missing"),
    "not a duration": (HEADER + "leaderElection: {retryPeriod: soon}", "leaderElection.retryPeriod is 'soon'"),
    "duration without unit": (HEADER + "leaderElection: {retryPeriod: 2}", "leaderElection.retryPeriod is 2, which is"),
    "lease too short": (HEADER + "leaderElection: {leaseDuration: 5s}", "leaderElection: leaseDuration must be longer"),
    "no retry period": (HEADER + "leaderElection: {retryPeriod: 0s}", "leaderElection: leaseDuration must be longer"),
    "no profile": (HEADER + "profiles: []", "profiles is empty"),
    "profile twice": (HEADER + "profiles: [{}, {}]", f"profiles has {vocabulary.SCHEDULER_NAME} more than once"),
    "plugin twice": (
        HEADER + "profiles: [{plugins: {enabled: [{name: a}, {name: a}]}}]",
        "profiles[0].plugins: enabled has a more than once",
    ),
    "arguments twice": (
        HEADER + "profiles: [{pluginConfig: [{name: a}, {name: a}]}]",
        "profiles[0]: pluginConfig has a more than once",
    ),
    "weight below one": (HEADER + "profiles: [{plugins: {enabled: [{name: a, weight: 0}]}}]", "weight of a is 0"),
    "no version": ("kind: SchedulerConfiguration", f"write apiVersion: {vocabulary.CONFIG_API_VERSION}"),
    "other version": (HEADER.replace("v1alpha1", "v9"), "but only"),
    "other kind": (HEADER.replace("Scheduler", "Agent"), "kind is 'AgentConfiguration', but only"),
    "empty file": ("", "apiVersion is missing"),
    "not YAML": ("a: [", "the configuration is not YAML"),
    "a list": ("- a", "apiVersion is missing"),
    "number as a key": (HEADER + "1: 2", "the configuration is"),
}


@pytest.mark.parametrize(("text", "words"), REFUSED.values(), ids=REFUSED)
def test_what_is_wrong_is_said_with_its_place(text: str, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_yaml(SchedulerConfiguration, text)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_flags_overrule_the_file() -> None:
    flags = {"leaderElection.leaderElect": False, "leaderElection.resourceName": None}
    election = load_yaml(SchedulerConfiguration, FULL, flags).leader_election
    assert (election.leader_elect, election.resource_name) == (False, vocabulary.LEASE_NAME)
    assert election.resource_namespace == "elsewhere"


def test_flags_do_not_change_the_document_they_overrule() -> None:
    document: dict[str, object] = {"leaderElection": {"resourceName": "a"}}
    load(SchedulerConfiguration, document, {"leaderElection.resourceName": "b"})
    assert document == {"leaderElection": {"resourceName": "a"}}


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ({"leaderElection.leadrElect": True}, "leaderElection.leadrElect is not known (did you mean leaderElect?)"),
        ({"leaderElection.leaderElect": "no"}, "leaderElection.leaderElect is 'no', which is not true or false"),
    ],
    ids=["unknown", "wrong type"],
)
def test_flags_are_checked_as_the_file_is(flags: dict[str, object], words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(SchedulerConfiguration, {}, flags)
    assert words in str(caught.value)


def test_a_flag_below_something_odd_leaves_the_odd_thing_to_be_named() -> None:
    with pytest.raises(ConfigError, match="leaderElection is 3"):
        load(SchedulerConfiguration, {"leaderElection": 3}, {"leaderElection.leaderElect": True})


def test_rules_hold_in_code_too() -> None:
    with pytest.raises(ValueError, match="leaseDuration"):
        LeaderElection(lease_duration=timedelta(seconds=1))


class Mode(StrEnum):
    AUTO = "auto"
    OFF = "off"


@dataclass(frozen=True)
class AgentConfiguration:
    """A configuration as another component may have it."""

    node_name: str
    mode: Mode = Mode.AUTO
    ratio: float = 0.5
    vram: Mapping[str, int] | None = None


def test_any_dataclass_can_be_loaded() -> None:
    read = load(AgentConfiguration, {"nodeName": "n1", "mode": "off", "ratio": 1, "vram": {"a100": 80}})
    assert read == AgentConfiguration("n1", Mode.OFF, 1.0, {"a100": 80})


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ({}, "nodeName is missing"),
        ({"nodeName": "n", "mode": "of"}, "mode is 'of', not one of auto, off (did you mean off?)"),
        ({"nodeName": "n", "mode": []}, "mode is [], not one of auto, off"),
        ({"nodeName": "n", "ratio": "1"}, "ratio is '1', which is not a number"),
        ({"nodeName": "n", "vram": {"a100": "80Gi"}}, "vram.a100 is '80Gi', which is not a whole number"),
    ],
    ids=["required", "word", "word of another type", "number", "inside a mapping"],
)
def test_every_type_names_its_place(document: dict[str, object], words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(AgentConfiguration, document)
    assert words in str(caught.value)
