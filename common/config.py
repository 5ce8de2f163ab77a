"""Configuration: frozen dataclasses read from YAML and flags, and the scheduler's own.

The loader follows the types of the dataclass. A key of the file is the field's name in camel case; an unknown key, a
missing one and a value of another type are each refused with the path of the place (`profiles[0].plugins.enabledd`)
and, where one is near, the key that was probably meant. Rules that types cannot say stand in `__post_init__` and raise
`ValueError`; they hold for configurations made in code, too.
"""

from __future__ import annotations

import difflib
import types
import typing
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from datetime import timedelta
from enum import Enum
from functools import cache
from typing import Any, Final, TypeVar

import yaml

from kubenexus.common import vocabulary

T = TypeVar("T")

_WORDS: Final = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}


class ConfigError(ValueError):
    """A configuration that cannot be used; one sentence that names the place."""


def load_yaml(kind: type[T], text: str, flags: Mapping[str, object] | None = None) -> T:
    """The configuration in a file. It must say `apiVersion` and `kind`; the kind is the dataclass's name."""
    try:
        document = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ConfigError(f"the configuration is not YAML: {' '.join(str(error).split())}") from None
    for key, wanted in _header(kind).items():
        if not isinstance(document, dict) or key not in document:
            raise ConfigError(f"{key} is missing: write {key}: {wanted}")
    return load(kind, document, flags)


def load(kind: type[T], document: Mapping[str, object], flags: Mapping[str, object] | None = None) -> T:
    """The configuration in a mapping, overruled by flags: dotted paths of keys; a flag that is None was not given."""
    body = dict(document)
    for key, wanted in _header(kind).items():
        given = body.pop(key, wanted)
        if given != wanted:
            raise ConfigError(f"{key} is {given!r}, but only {wanted} can be read here")
    for path, value in (flags or {}).items():
        if value is not None:
            _overrule(body, path.split("."), value)
    return typing.cast(T, _read(kind, body, ""))


def _header(kind: type) -> dict[str, str]:
    return {"apiVersion": vocabulary.CONFIG_API_VERSION, "kind": kind.__name__}


def _overrule(body: dict[str, Any], path: list[str], value: object) -> None:
    *parents, last = path
    for key in parents:
        inner = body.get(key)
        if inner is not None and not isinstance(inner, dict):
            return  # the reader will say what is wrong with it
        body[key] = body = dict(inner or {})
    body[last] = value


def _read(wanted: Any, value: Any, path: str) -> Any:
    """The value as the type wants it."""
    origin, arguments = typing.get_origin(wanted), typing.get_args(wanted)
    if wanted is Any:
        return value
    if is_dataclass(wanted):
        return _read_dataclass(typing.cast(type, wanted), _mapping(value, path), path)
    if origin in (typing.Union, types.UnionType):
        (inner,) = (one for one in arguments if one is not types.NoneType)
        return None if value is None else _read(inner, value, path)
    if origin is tuple:
        if not isinstance(value, list):
            raise _wrong(path, value, "a list")
        return tuple(_read(arguments[0], one, f"{path}[{index}]") for index, one in enumerate(value))
    if origin is Mapping:
        return {key: _read(arguments[1], one, _join(path, key)) for key, one in _mapping(value, path).items()}
    return _read_scalar(wanted, value, path)


def _read_scalar(wanted: type, value: object, path: str) -> object:
    if wanted is timedelta:
        return _duration(value, path)
    if issubclass(wanted, Enum):
        known = [str(member.value) for member in wanted]
        if value not in known:
            raise ConfigError(f"{path} is {value!r}, not one of {', '.join(known)}{_suggest(str(value), known)}")
        return wanted(value)
    if type(value) is wanted or (wanted is float and type(value) is int):
        return value
    raise _wrong(path, value, _WORDS[wanted])


def _duration(value: object, path: str) -> timedelta:
    if not isinstance(value, str):
        raise _wrong(path, value, "a duration such as 90s, 10m or 1h30m")
    try:
        return timedelta(milliseconds=vocabulary.parse_duration(path, value))
    except vocabulary.VocabularyError as error:
        raise ConfigError(str(error)) from None


def _read_dataclass(kind: type, given: dict[str, Any], path: str) -> Any:
    known = _keys(kind)
    for key in given:
        if key not in known:
            raise ConfigError(f"{_join(path, key)} is not known{_suggest(key, list(known))}")
    read = {}
    for key, (name, wanted, required) in known.items():
        if key in given:
            read[name] = _read(wanted, given[key], _join(path, key))
        elif required:
            raise ConfigError(f"{_join(path, key)} is missing")
    try:
        return kind(**read)
    except ValueError as error:
        raise ConfigError(f"{path}: {error}" if path else str(error)) from None


@cache
def _keys(kind: type) -> dict[str, tuple[str, Any, bool]]:
    """Of each key in a file: the field it fills, its type, and whether it must be there."""
    hints = typing.get_type_hints(kind)
    return {
        key_of(one.name): (one.name, hints[one.name], one.default is MISSING and one.default_factory is MISSING)
        for one in fields(kind)
    }


def key_of(name: str) -> str:
    """The key in a file of a field: `leader_elect` is `leaderElect`."""
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def _mapping(value: object, path: str) -> dict[str, Any]:
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return value
    raise _wrong(path, value, "a mapping with text as keys")


def _join(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


def _suggest(word: str, known: list[str]) -> str:
    near = difflib.get_close_matches(word, known, n=1)
    return f" (did you mean {near[0]}?)" if near else ""


def _wrong(path: str, value: object, wanted: str) -> ConfigError:
    return ConfigError(f"{path or 'the configuration'} is {value!r:.60}, which is not {wanted}")


# --- The scheduler's configuration -----------------------------------------------------------------------------------


def _once(where: str, names: list[str]) -> None:
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"{where} has {name} more than once")


@dataclass(frozen=True, slots=True)
class EnabledPlugin:
    """A plugin to run; without a weight it has its own."""

    name: str
    weight: int | None = None

    def __post_init__(self) -> None:
        if self.weight is not None and self.weight < 1:
            raise ValueError(f"the weight of {self.name} is {self.weight}, which is less than 1")


@dataclass(frozen=True, slots=True)
class DisabledPlugin:
    """A plugin not to run; `*` is all of the default ones."""

    name: str


@dataclass(frozen=True, slots=True)
class Plugins:
    """One flat list for all extension points, as kube-scheduler's multiPoint."""

    enabled: tuple[EnabledPlugin, ...] = ()
    disabled: tuple[DisabledPlugin, ...] = ()

    def __post_init__(self) -> None:
        _once("enabled", [plugin.name for plugin in self.enabled])


@dataclass(frozen=True, slots=True)
class PluginConfig:
    """Arguments of one plugin; the plugin itself says which it takes."""

    name: str
    args: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Profile:
    """How to schedule the pods that name this scheduler."""

    scheduler_name: str = vocabulary.SCHEDULER_NAME
    plugins: Plugins = Plugins()
    plugin_config: tuple[PluginConfig, ...] = ()

    def __post_init__(self) -> None:
        _once("pluginConfig", [config.name for config in self.plugin_config])


@dataclass(frozen=True, slots=True)
class LeaderElection:
    """Which replica works. The Lease must outlive a renewal, and a renewal several tries."""

    leader_elect: bool = True
    lease_duration: timedelta = timedelta(seconds=15)
    renew_deadline: timedelta = timedelta(seconds=10)
    retry_period: timedelta = timedelta(seconds=2)
    resource_name: str = vocabulary.LEASE_NAME
    resource_namespace: str = vocabulary.SYSTEM_NAMESPACE

    def __post_init__(self) -> None:
        if not self.lease_duration > self.renew_deadline > self.retry_period * 1.2 > timedelta(0):
            raise ValueError("leaseDuration must be longer than renewDeadline, and that longer than 1.2 × retryPeriod")


@dataclass(frozen=True, slots=True)
class SchedulerConfiguration:
    """The scheduler's configuration file, shaped like KubeSchedulerConfiguration."""

    profiles: tuple[Profile, ...] = (Profile(),)
    leader_election: LeaderElection = LeaderElection()

    def __post_init__(self) -> None:
        if not self.profiles:
            raise ValueError("profiles is empty: there is nothing to schedule")
        _once("profiles", [profile.scheduler_name for profile in self.profiles])
