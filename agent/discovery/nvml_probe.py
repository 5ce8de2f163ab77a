"""What NVML knows of this machine's GPUs, as JSON on standard output. A program, run as a short-lived child.

An open NVML handle blocks GPU resets and driver upgrades, a crash of the driver's library must not take the agent
along, and pynvml never reloads its library: three reasons why this is a process of its own and not a function.

Every fact is asked for by itself: one that NVML refuses is null, and one lost GPU hides no other.
"""

from __future__ import annotations

import ctypes
import json
import sys
from typing import Any
from uuid import UUID

import pynvml

Facts = dict[str, Any]

# 16 words hold 1024 NUMA nodes, the most a kernel is built for.
NODE_SET_WORDS = 16
# No driver installed, or no library: a machine without GPUs, which is not an error.
ABSENT = {pynvml.NVML_ERROR_DRIVER_NOT_LOADED, pynvml.NVML_ERROR_LIBRARY_NOT_FOUND}
REMOTE_KINDS = {0: "gpu", 1: "npu", 2: "switch"}
FABRIC_COMPLETED = 3


def probe() -> Facts:
    """`status` is `ok`, `absent` (no driver) or `error`; the rest is there with `ok` only."""
    try:
        pynvml.nvmlInitWithFlags(0)
        count = pynvml.nvmlDeviceGetCount()
    except pynvml.NVMLError as error:
        return {"status": "absent" if error.value in ABSENT else "error", "code": error.value, "reason": str(error)}
    try:
        return {"status": "ok", "driver": _text(_ask("nvmlSystemGetDriverVersion")), **_gpus(count)}
    finally:
        _ask("nvmlShutdown")


def _gpus(count: int) -> Facts:
    gpus: list[Facts] = []
    handles: list[Any] = []
    for index in range(count):
        try:
            handle = pynvml.nvmlDeviceGetHandleByIndex(index)
            gpus.append(_gpu(handle))
        except pynvml.NVMLError as error:
            gpus.append({"error": {"code": error.value, "reason": str(error)}})
            handle = None
        handles.append(handle)
    return {
        "gpus": gpus,
        "ancestors": [[_ancestor(a, b) for b in handles] for a in handles],
        "p2p": [[_reads(a, b) for b in handles] for a in handles],
    }


def _gpu(handle: Any) -> Facts:
    pci = _ask("nvmlDeviceGetPciInfo", handle)
    memory = _ask("nvmlDeviceGetMemoryInfo", handle)
    mig = _ask("nvmlDeviceGetMigMode", handle)
    return {
        "uuid": _text(_ask("nvmlDeviceGetUUID", handle)),
        "minor": _ask("nvmlDeviceGetMinorNumber", handle),
        "name": _text(_ask("nvmlDeviceGetName", handle)),
        "pci": pci and [pci.domain, pci.bus, pci.device],
        "memory": memory and memory.total,
        "capability": _ask("nvmlDeviceGetCudaComputeCapability", handle),
        "architecture": _ask("nvmlDeviceGetArchitecture", handle),
        "memory_affinity": _memory_affinity(handle),
        "gpu_memory_numa": _ask("nvmlDeviceGetNumaNodeId", handle),
        "pcie_gen": _ask("nvmlDeviceGetMaxPcieLinkGeneration", handle),
        "pcie_width": _ask("nvmlDeviceGetMaxPcieLinkWidth", handle),
        "mig": None if mig is None else mig[0] == 1,
        "clique": _clique(handle),
        "links": _links(handle),
        "error": _health(handle),
    }


def _ask(call: str, *args: Any) -> Any:
    """The answer, or None where the GPU, the driver or this version of pynvml does not know the question."""
    try:
        return getattr(pynvml, call)(*args)
    except (pynvml.NVMLError, AttributeError, UnicodeError):
        return None


def _health(handle: Any) -> Facts | None:
    """A GPU that fell off the bus still has a handle; asking for its memory tells."""
    try:
        pynvml.nvmlDeviceGetMemoryInfo(handle)
    except pynvml.NVMLError as error:
        if error.value == pynvml.NVML_ERROR_GPU_IS_LOST:
            return {"code": error.value, "reason": str(error)}
    return None


def _memory_affinity(handle: Any) -> list[int] | None:
    words = _ask("nvmlDeviceGetMemoryAffinity", handle, NODE_SET_WORDS, pynvml.NVML_AFFINITY_SCOPE_NODE)
    if words is None:
        return None
    mask = sum(word << 64 * place for place, word in enumerate(words))
    return [bit for bit in range(mask.bit_length()) if mask >> bit & 1]


def _links(handle: Any) -> list[Facts] | None:
    """Active NVLinks: none where the GPU says it has none, None where it says nothing."""
    links: list[Facts] = []
    for link in range(pynvml.NVML_NVLINK_MAX_LINKS):
        try:
            active = pynvml.nvmlDeviceGetNvLinkState(handle, link)
        except pynvml.NVMLError as error:
            if error.value == pynvml.NVML_ERROR_INVALID_ARGUMENT:
                break
            active = _state_field(handle, link)
            if active is None and link == 0:
                return [] if error.value == pynvml.NVML_ERROR_NOT_SUPPORTED else None
        if active:
            links.append(_link(handle, link))
    return links


def _state_field(handle: Any, link: int) -> int | None:
    """The other way to ask whether a link is up, which newer drivers prefer."""
    values = _ask("nvmlDeviceGetFieldValues", handle, [(pynvml.NVML_FI_DEV_NVLINK_GET_STATE, link)])
    return values[0].value.uiVal if values and values[0].nvmlReturn == pynvml.NVML_SUCCESS else None


def _link(handle: Any, link: int) -> Facts:
    remote = _ask("nvmlDeviceGetNvLinkRemotePciInfo", handle, link)
    return {
        "version": _ask("nvmlDeviceGetNvLinkVersion", handle, link),
        "remote": REMOTE_KINDS.get(_ask("nvmlDeviceGetNvLinkRemoteDeviceType", handle, link)),
        "pci": remote and [remote.domain, remote.bus, remote.device],
    }


def _clique(handle: Any) -> str | None:
    """`<cluster uuid>.<clique id>` of a GPU whose fabric registration is complete."""
    try:
        info = pynvml.c_nvmlGpuFabricInfoV_t()
        pynvml.nvmlDeviceGetGpuFabricInfoV(handle, ctypes.byref(info))
    except (pynvml.NVMLError, AttributeError):
        return None
    cluster = bytes(info.clusterUuid)
    if info.state != FABRIC_COMPLETED or info.status != pynvml.NVML_SUCCESS or not any(cluster):
        return None
    return f"{UUID(bytes=cluster)}.{info.cliqueId}"


def _ancestor(a: Any, b: Any) -> int | None:
    if a is None or b is None or a is b:
        return None
    level: int | None = _ask("nvmlDeviceGetTopologyCommonAncestor", a, b)
    return level


def _reads(a: Any, b: Any) -> int | None:
    """1 if the first GPU reads the second's memory directly, 0 if not."""
    if a is None or b is None or a is b:
        return None
    # 0 is NVML_P2P_CAPS_INDEX_READ, which every version of pynvml has as the tuple (0,) by mistake.
    status = _ask("nvmlDeviceGetP2PStatus", a, b, 0)
    return None if status is None else int(status == 0)


def _text(value: Any) -> str | None:
    # Old pynvml answers bytes.
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


if __name__ == "__main__":
    json.dump(probe(), sys.stdout)
