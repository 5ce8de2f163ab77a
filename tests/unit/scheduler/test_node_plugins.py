"""What kube-scheduler's cases leave out: profiles, arguments that are refused, declared features, shared masks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kubenexus.common.config import ConfigError, DisabledPlugin, EnabledPlugin, PluginConfig, Plugins, Profile
from kubenexus.common.objects import project_node, project_pod
from kubenexus.scheduler.engine.evaluate import Board, best, explain, summarize
from kubenexus.scheduler.engine.plugin import Code
from kubenexus.scheduler.engine.shape import compile_shape
from kubenexus.scheduler.engine.state import State
from kubenexus.scheduler.plugins.registry import PLUGINS, build_profile, enabled
from tests.builders import node, pod
from tests.scheduler_conformance import run_filter, run_score

IN_ZONE = {"key": "zone", "operator": "In", "values": ["a"]}


@pytest.mark.parametrize(
    ("plugin", "args", "named"),
    [
        ("NodeName", {"x": 1}, "x is not known"),
        ("NodeResourcesFit", {"ignoredResource": ["a/b"]}, "ignoredResource is not known (did you mean"),
        ("NodeResourcesFit", {"ignoredResourceGroups": ["a/b"]}, "ignoredResourceGroups"),
        ("NodeResourcesFit", {"scoringStrategy": {"type": "Best"}}, "scoringStrategy.type"),
        ("NodeResourcesFit", {"scoringStrategy": {"type": "RequestedToCapacityRatio"}}, "requestedToCapacityRatio"),
        ("NodeResourcesFit", {"scoringStrategy": {"resources": [{"weight": 1}]}}, "resources[0].name is missing"),
        ("NodeResourcesFit", {"kind": "NodeAffinityArgs"}, "kind"),
        ("NodeResourcesBalancedAllocation", {"resources": [{"name": "cpu", "weight": 101}]}, "resources[0]"),
        ("NodeAffinity", {"addedAffinity": 1}, "addedAffinity"),
        (
            "NodeAffinity",
            {"addedAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}},
            "no nodeSelectorTerms",
        ),
        (
            "NodeAffinity",
            {
                "addedAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {
                        "nodeSelectorTerms": [{"matchExpressions": [IN_ZONE | {"operator": "Near"}]}]
                    }
                }
            },
            "operator is 'Near'",
        ),
    ],
)
def test_arguments_are_refused_by_name(plugin: str, args: dict[str, Any], named: str) -> None:
    profile = Profile(plugin_config=(PluginConfig(plugin, args),))
    with pytest.raises(ConfigError, match=f"the arguments of {plugin} cannot be used") as refused:
        build_profile(profile)
    assert named in str(refused.value)


@pytest.mark.parametrize(
    "shape",
    [[], [{"utilization": 50, "score": 1}, {"utilization": 50, "score": 2}], [{"utilization": 101}], [{"score": 11}]],
    ids=["empty", "not rising", "utilization above 100", "score above 10"],
)
def test_shapes_that_are_no_function_are_refused(shape: list[dict[str, int]]) -> None:
    strategy = {"type": "RequestedToCapacityRatio", "requestedToCapacityRatio": {"shape": shape}}
    with pytest.raises(ConfigError, match=r"scoringStrategy\.requestedToCapacityRatio"):
        PLUGINS["NodeResourcesFit"]({"scoringStrategy": strategy})


def test_the_default_profile_is_kube_schedulers_with_ours() -> None:
    weights = enabled(Profile())
    scoring = {name: weight for name, weight in weights.items() if weight}
    ours = {"GPUTopology": 3, "NUMATopology": 3, "NetworkFabric": 1, "ResourceFragmentation": 10}
    assert scoring == ours | {
        "TaintToleration": 3,
        "NodeAffinity": 2,
        "NodeResourcesFit": 1,
        "PodTopologySpread": 2,
        "InterPodAffinity": 2,
        "DynamicResources": 2,
        "NodeResourcesBalancedAllocation": 1,
        "ImageLocality": 1,
    }
    assert list(weights).index("NodeUnschedulable") < list(weights).index("NodeName")


def test_a_default_plugin_enabled_again_keeps_its_place() -> None:
    plugins = Plugins(enabled=(EnabledPlugin("TaintToleration", 7),), disabled=(DisabledPlugin("ImageLocality"),))
    weights = enabled(Profile(plugins=plugins))
    assert weights["TaintToleration"] == 7
    assert list(weights) == [name for name in enabled(Profile()) if name != "ImageLocality"]


def test_all_default_plugins_disabled_leaves_those_enabled() -> None:
    plugins = Plugins(enabled=(EnabledPlugin("NodeName"),), disabled=(DisabledPlugin("*"),))
    assert [one.plugin.name for one in build_profile(Profile(plugins=plugins))] == ["NodeName"]


@pytest.mark.parametrize(
    "profile",
    [
        Profile(plugins=Plugins(enabled=(EnabledPlugin("NodePort"),))),
        Profile(plugins=Plugins(disabled=(DisabledPlugin("NodePort"),))),
        Profile(plugin_config=(PluginConfig("NodePort"),)),
    ],
    ids=["enabled", "disabled", "configured"],
)
def test_unknown_plugins_are_refused(profile: Profile) -> None:
    with pytest.raises(ConfigError, match=r"there is no plugin NodePort \(did you mean NodePorts\?\)"):
        build_profile(profile)


def test_what_the_scheduler_needs_cannot_be_disabled() -> None:
    with pytest.raises(ConfigError, match="DefaultBinder"):
        enabled(Profile(plugins=Plugins(disabled=(DisabledPlugin("DefaultBinder"),))))


def test_declared_features() -> None:
    wanted = pod("p").set("spec.hostNetwork", True).set("spec.hostUsers", False).build()
    declaring = node("new").set("status.declaredFeatures", ["UserNamespacesHostNetworkSupport"]).build()
    found = run_filter(PLUGINS["NodeDeclaredFeatures"], {"pod": wanted, "nodes": [declaring, node("old").build()]})
    reason = "node declared features check failed - unsatisfied requirements: UserNamespacesHostNetworkSupport"
    assert found == {"new": (Code.SUCCESS, []), "old": (Code.UNRESOLVABLE, [reason])}


def test_images_that_more_nodes_have_count_more() -> None:
    case: dict[str, Any] = {
        "pod": pod("p").build(),
        "nodes": [
            node("with").image("registry.example/app:1", 800 << 20).build(),
            node("too").image("registry.example/app:1", 800 << 20).build(),
            node("without").build(),
        ],
    }
    two = run_score(PLUGINS["ImageLocality"], case)
    one = run_score(PLUGINS["ImageLocality"], case | {"nodes": case["nodes"][1:]})
    assert two is not None
    assert one is not None
    assert two["with"] == two["too"] > one["too"] > two["without"] == 0


def test_a_refused_pod_is_explained() -> None:
    state = State()
    for built in (node("small").capacity(cpu=1), node("tainted").capacity(cpu=8).taint("a"), node("off").cordon()):
        state.set_node(project_node(built.build()))
    shape = compile_shape(project_pod(pod("p").cpu(2).build()), build_profile(Profile()), state)
    board = Board(shape, state)
    feasible = board.feasible()
    assert best(board.scores(feasible), feasible, state, 0) is None
    assert summarize(explain(shape, state), 3) == (
        "0/3 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint(s), 1 node(s) were unschedulable."
    )


def test_masks_of_the_label_index_cannot_be_written_to() -> None:
    state = State()
    state.set_node(project_node(node("n").build()))
    with pytest.raises(ValueError, match="read-only"):
        state.labels.any_term(())[0] = True
    assert not np.any(state.labels.any_term(()))
