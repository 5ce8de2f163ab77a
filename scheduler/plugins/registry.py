"""Which plugins there are, by kube-scheduler's names, and what a profile makes of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import Any, TypeVar

from kubenexus.common.config import ConfigError, Profile
from kubenexus.scheduler.engine.plugin import Plugin
from kubenexus.scheduler.engine.preempt import NAME as PREEMPTION
from kubenexus.scheduler.engine.preempt import PreemptionArgs
from kubenexus.scheduler.engine.shape import Weighted
from kubenexus.scheduler.plugins.arguments import NoArgs, read_args
from kubenexus.scheduler.plugins.balanced import NodeResourcesBalancedAllocation
from kubenexus.scheduler.plugins.dynamic_resources import DynamicResources
from kubenexus.scheduler.plugins.fabric import NetworkFabric
from kubenexus.scheduler.plugins.fragmentation import ResourceFragmentation
from kubenexus.scheduler.plugins.gpu import GPUTopology
from kubenexus.scheduler.plugins.images import ImageLocality
from kubenexus.scheduler.plugins.node_affinity import NodeAffinity
from kubenexus.scheduler.plugins.node_facts import NodeDeclaredFeatures, NodeName, NodeUnschedulable
from kubenexus.scheduler.plugins.node_ports import NodePorts
from kubenexus.scheduler.plugins.numa import NUMATopology
from kubenexus.scheduler.plugins.pod_affinity import InterPodAffinity
from kubenexus.scheduler.plugins.rejections import KubeletRejections
from kubenexus.scheduler.plugins.resources import NodeResourcesFit
from kubenexus.scheduler.plugins.spread import PodTopologySpread
from kubenexus.scheduler.plugins.taints import TaintToleration
from kubenexus.scheduler.plugins.volume_binding import VolumeBinding
from kubenexus.scheduler.plugins.volume_limits import NodeVolumeLimits
from kubenexus.scheduler.plugins.volume_restrictions import VolumeRestrictions
from kubenexus.scheduler.plugins.volume_zone import VolumeZone

T = TypeVar("T")
Factory = Callable[[Mapping[str, Any]], Plugin]


def plain(plugin: Callable[[], Plugin]) -> Factory:
    """The factory of a plugin that takes no arguments."""

    def make(args: Mapping[str, Any]) -> Plugin:
        read_args(NoArgs, args)
        return plugin()

    return make


PLUGINS: Mapping[str, Factory] = {
    "NodeUnschedulable": plain(NodeUnschedulable),
    "NodeName": plain(NodeName),
    "TaintToleration": plain(TaintToleration),
    "NodeAffinity": NodeAffinity,
    "NodePorts": plain(NodePorts),
    "NodeResourcesFit": NodeResourcesFit,
    "NodeResourcesBalancedAllocation": NodeResourcesBalancedAllocation,
    "ImageLocality": plain(ImageLocality),
    "NodeDeclaredFeatures": plain(NodeDeclaredFeatures),
    "KubeletRejections": plain(KubeletRejections),
    "VolumeRestrictions": plain(VolumeRestrictions),
    "NodeVolumeLimits": plain(NodeVolumeLimits),
    "VolumeBinding": VolumeBinding,
    "VolumeZone": plain(VolumeZone),
    "PodTopologySpread": PodTopologySpread,
    "InterPodAffinity": InterPodAffinity,
    "DynamicResources": DynamicResources,
    "NetworkFabric": plain(NetworkFabric),
    "NUMATopology": NUMATopology,
    "GPUTopology": GPUTopology,
    "ResourceFragmentation": ResourceFragmentation,
}

# kube-scheduler's default profile: names in its order, with the weights of their scores; and what we add.
DEFAULTS: Mapping[str, int] = {
    "SchedulingGates": 0,
    "PrioritySort": 0,
    "NodeUnschedulable": 0,
    "NodeName": 0,
    "TaintToleration": 3,
    "NodeAffinity": 2,
    "NodePorts": 0,
    "NodeResourcesFit": 1,
    "VolumeRestrictions": 0,
    "NodeVolumeLimits": 0,
    "VolumeBinding": 0,
    "VolumeZone": 0,
    "PodTopologySpread": 2,
    "InterPodAffinity": 2,
    "DynamicResources": 2,
    "DefaultPreemption": 0,
    "NodeResourcesBalancedAllocation": 1,
    "ImageLocality": 1,
    "DefaultBinder": 0,
    "NodeDeclaredFeatures": 0,
    "KubeletRejections": 0,
    "GPUTopology": 3,
    "NUMATopology": 3,
    "ResourceFragmentation": 10,
    "NetworkFabric": 1,
}
# Parts of the scheduler itself, not plugins of the engine; without those of the second line it would not work.
BUILT_IN = frozenset(("SchedulingGates", "PrioritySort", "DefaultBinder", "DefaultPreemption"))
INDISPENSABLE = BUILT_IN - {"DefaultPreemption"}


def enabled(profile: Profile) -> dict[str, int]:
    """The names that a profile enables, in order, with their weights; `ConfigError` names what there is not.

    A default plugin that is enabled again keeps its place and takes the new weight; others come last.
    """
    off, on = {one.name for one in profile.plugins.disabled}, profile.plugins.enabled
    for name in (*off - {"*"}, *(one.name for one in on), *(one.name for one in profile.plugin_config)):
        _check_known(name)
    for name in sorted(off & INDISPENSABLE):
        raise ConfigError(f"plugins.disabled has {name}, without which the scheduler does not work")
    kept = {name: w for name, w in DEFAULTS.items() if name in INDISPENSABLE or not off & {name, "*"}}
    return kept | {one.name: DEFAULTS.get(one.name, 1) if one.weight is None else one.weight for one in on}


def build_profile(profile: Profile) -> tuple[Weighted, ...]:
    """The profile's plugins, made with their arguments."""
    args = {one.name: one.args for one in profile.plugin_config}
    names = ((name, weight) for name, weight in enabled(profile).items() if name in PLUGINS)
    return tuple(Weighted(_read(name, PLUGINS[name], args.get(name, {})), weight) for name, weight in names)


def preemption(profile: Profile) -> PreemptionArgs | None:
    """How the profile's pods may drive others out; None if they may not."""
    if PREEMPTION not in enabled(profile):
        return None
    args: Mapping[str, Any] = next((one.args for one in profile.plugin_config if one.name == PREEMPTION), {})
    return _read(PREEMPTION, lambda given: read_args(PreemptionArgs, given), args)


def _read(name: str, read: Callable[[Mapping[str, Any]], T], args: Mapping[str, Any]) -> T:
    try:
        return read(args)
    except ConfigError as error:
        raise ConfigError(f"the arguments of {name} cannot be used: {error}") from None


def _check_known(name: str) -> None:
    known = (*PLUGINS, *BUILT_IN)
    if name not in known:
        near = get_close_matches(name, known, n=1)
        raise ConfigError(f"there is no plugin {name}" + (f" (did you mean {near[0]}?)" if near else ""))
