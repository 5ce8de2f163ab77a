"""From a configuration to the cycles that decide, one for each schedulerName."""

from __future__ import annotations

from kubenexus.common.config import SchedulerConfiguration
from kubenexus.scheduler.engine.cycle import Cycle
from kubenexus.scheduler.engine.nominated import Nominations
from kubenexus.scheduler.engine.state import State
from kubenexus.scheduler.plugins.registry import build_profile, preemption


def build_cycles(config: SchedulerConfiguration, state: State, nominations: Nominations) -> dict[str, Cycle]:
    """`ConfigError` when a profile names what there is not."""
    return {
        profile.scheduler_name: Cycle(state, build_profile(profile), preemption(profile), nominations)
        for profile in config.profiles
    }
