"""Arguments of plugins, read as configuration is: what is unknown or wrong is refused by its name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from kubenexus.common import config

T = TypeVar("T")

_KUBE_SCHEDULER = "kubescheduler.config.k8s.io/v1"


@dataclass(frozen=True, slots=True)
class NoArgs:
    """For plugins that take none."""


def read_args(kind: type[T], args: Mapping[str, Any]) -> T:
    """The arguments, which may be headed as for kube-scheduler; `ConfigError` says what cannot be used."""
    headed = args.get("apiVersion") == _KUBE_SCHEDULER
    return config.load(kind, {key: value for key, value in args.items() if not (headed and key == "apiVersion")})
