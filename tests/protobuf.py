"""A writer of the kubelet's PodResources messages, for tests."""

from __future__ import annotations

from collections.abc import Sequence


def answer(*pods: bytes) -> bytes:
    return b"".join(message(1, each) for each in pods)


def pod(name: str, namespace: str, *containers: bytes) -> bytes:
    return text(1, name) + text(2, namespace) + b"".join(message(3, each) for each in containers)


def container(*devices: bytes, cpus: Sequence[int] = (), memory: Sequence[bytes] = (), packed: bool = True) -> bytes:
    numbers = b"".join(map(varint, cpus))
    listed = message(3, numbers) if packed else b"".join(varint(3 << 3) + varint(cpu) for cpu in cpus)
    parts = [text(1, "main"), *(message(2, each) for each in devices), listed if cpus else b""]
    return b"".join([*parts, *(message(4, each) for each in memory)])


def device(resource: str, *ids: str, numa: Sequence[int] = ()) -> bytes:
    return text(1, resource) + b"".join(text(2, each) for each in ids) + message(3, topology(*numa))


def memory(*numa: int) -> bytes:
    return text(1, "memory") + varint(2 << 3) + varint(1 << 30) + message(3, topology(*numa))


def topology(*numa: int) -> bytes:
    """Zero is not written, as protobuf has it."""
    return b"".join(message(1, varint(1 << 3) + varint(id_) if id_ else b"") for id_ in numa)


def text(number: int, value: str) -> bytes:
    return message(number, value.encode())


def message(number: int, body: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(body)) + body


def varint(number: int) -> bytes:
    low = bytes([number & 0x7F | (0x80 if number > 0x7F else 0)])
    return low + varint(number >> 7) if number > 0x7F else low
