"""The kubelet's PodResources API, version 1: the few fields of its list of pods that we read. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

METHOD = "/v1.PodResourcesLister/List"
SOCKET = "var/lib/kubelet/pod-resources/kubelet.sock"

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


class WireError(ValueError):
    """Bytes that are no protobuf message."""


@dataclass(frozen=True, slots=True)
class PodResources:
    """What one pod's containers have: exclusive CPUs, (resource, device id) pairs, NUMA ids that the kubelet names."""

    namespace: str
    name: str
    cpus: tuple[int, ...]
    devices: tuple[tuple[str, str], ...]
    numa: tuple[int, ...]


def decode(message: bytes) -> list[PodResources]:
    """A ListPodResourcesResponse; raises WireError when it is none."""
    try:
        return [_pod(_bytes(value)) for number, value in _fields(message) if number == 1]
    except (IndexError, UnicodeDecodeError) as error:
        raise WireError(f"the kubelet's list of pods cannot be read: {error}") from error


def _pod(message: bytes) -> PodResources:
    name = namespace = ""
    cpus: list[int] = []
    devices: list[tuple[str, str]] = []
    numa: list[int] = []
    for number, value in _fields(message):
        if number == 1:
            name = _text(value)
        elif number == 2:
            namespace = _text(value)
        elif number == 3:
            _container(_bytes(value), cpus, devices, numa)
    return PodResources(namespace, name, tuple(cpus), tuple(devices), tuple(numa))


def _container(message: bytes, cpus: list[int], devices: list[tuple[str, str]], numa: list[int]) -> None:
    for number, value in _fields(message):
        if number == 2:
            resource, ids = "", []
            for inner, part in _fields(_bytes(value)):
                if inner == 1:
                    resource = _text(part)
                elif inner == 2:
                    ids.append(_text(part))
                elif inner == 3:
                    numa.extend(_topology(_bytes(part)))
            devices.extend((resource, id_) for id_ in ids)
        elif number == 3:
            cpus.extend(_integers(value))
        elif number == 4:
            numa.extend(id_ for inner, part in _fields(_bytes(value)) if inner == 3 for id_ in _topology(_bytes(part)))


def _topology(message: bytes) -> Iterator[int]:
    """The ids of a TopologyInfo; a node without an id has the id 0, which protobuf does not write."""
    for number, value in _fields(message):
        if number == 1:
            yield next((id_ for inner, part in _fields(_bytes(value)) if inner == 1 for id_ in _integers(part)), 0)


def _fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """(number, value) of each field: an integer or bytes."""
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        kind = tag & 7
        if kind == _VARINT:
            value, at = _varint(message, at)
            yield tag >> 3, value
            continue
        if kind not in (_BYTES, _FIXED64, _FIXED32):
            raise WireError(f"the kubelet's list of pods has a field of kind {kind}")
        size, at = _varint(message, at) if kind == _BYTES else (8 if kind == _FIXED64 else 4, at)
        if at + size > len(message):
            raise WireError("the kubelet's list of pods is cut off")
        yield tag >> 3, message[at : at + size]
        at += size


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        byte = message[at]
        value |= (byte & 0x7F) << shift
        at += 1
        if byte < 0x80:
            return value & (1 << 64) - 1, at
    raise WireError("the kubelet's list of pods has a number without end")


def _integers(value: int | bytes) -> list[int]:
    """A repeated number, which comes one by one or packed."""
    if isinstance(value, int):
        return [value]
    numbers, at = [], 0
    while at < len(value):
        number, at = _varint(value, at)
        numbers.append(number)
    return numbers


def _bytes(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise WireError("the kubelet's list of pods has a number where a message belongs")
    return value


def _text(value: int | bytes) -> str:
    return _bytes(value).decode()
