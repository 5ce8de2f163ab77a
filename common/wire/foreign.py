"""What others say about a node's GPUs: GPU Feature Discovery's labels and the slices of NVIDIA's DRA driver.

They fill what our own agent did not tell, above all where it does not run.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from kubenexus.common.topology import Gpu
from kubenexus.common.wire.facts import GPU, Obj, Reasons, read_facts
from kubenexus.common.wire.labels import MAX_GPUS, LabelReader
from kubenexus.common.wire.slices import SlicePart, device_facts, mapping, pool_of

NVIDIA_DRIVER = "gpu.nvidia.com"
MIB = 1 << 20

_COUNT = "nvidia.com/gpu.count"
_PRODUCT = "nvidia.com/gpu.product"
_MEMORY = "nvidia.com/gpu.memory"
_CLIQUE = "nvidia.com/gpu.clique"
_MIG_PRODUCT = re.compile(r".*-MIG-.*")


def feature_discovery(labels: Mapping[str, str], reasons: Reasons) -> tuple[Gpu, ...] | None:
    """The GPUs that GPU Feature Discovery counts; under MIG its product and memory are of a slice and tell nothing.

    What it counts then are slices, none of which is a whole GPU.
    """
    reader = LabelReader(labels, reasons)
    count = reader.number(_COUNT)
    if count is None or count > MAX_GPUS:
        return None
    product = labels.get(_PRODUCT, "").removesuffix("-SHARED") or None
    mebibytes = reader.number(_MEMORY)
    mig = True if product is not None and _MIG_PRODUCT.fullmatch(product) else None
    if mig:
        product = mebibytes = None
    memory = mebibytes * MIB if mebibytes else None
    clique = labels.get(_CLIQUE) or None
    alike = Gpu(index=0, product=product, memory=memory, fabric_clique=clique, mig=mig)
    return tuple(replace(alike, index=index) for index in range(count))


def decode_nvidia_slice(obj: Any) -> SlicePart | None:
    """The whole GPUs in a slice of NVIDIA's driver, in its order; `None` for anything else."""
    spec = mapping(mapping(obj).get("spec"))
    entries = spec.get("devices")
    if spec.get("driver") != NVIDIA_DRIVER:
        return None
    reasons: Reasons = {}
    whole = [entry for entry in map(mapping, entries if isinstance(entries, list) else ()) if _is_gpu(entry)]
    gpus = tuple(_gpu(index, entry, reasons) for index, entry in enumerate(whole))
    return SlicePart(NVIDIA_DRIVER, *pool_of(spec), GPU, gpus, None, reasons)


def nvidia_gpus(parts: Iterable[SlicePart], reasons: Reasons) -> tuple[Gpu, ...] | None:
    """The GPUs of NVIDIA's slices, numbered as NVML does: by PCI address. `None` where there are no such slices.

    A GPU without an address could have any number, so then none is known.
    """
    parts = [part for part in parts if part.driver == NVIDIA_DRIVER]
    newest = {pool: max(p.generation for p in parts if p.pool == pool) for pool in {part.pool for part in parts}}
    gpus = [gpu for part in parts if part.generation == newest[part.pool] for gpu in part.devices or ()]
    if not parts:
        return None
    if any(gpu.pci_bus_id is None for gpu in gpus):
        reasons["gpu"] = f"a device of {NVIDIA_DRIVER} has no PCI address"
        return None
    gpus.sort(key=lambda gpu: gpu.pci_bus_id)
    return tuple(replace(gpu, index=index) for index, gpu in enumerate(gpus))


def _is_gpu(entry: Obj) -> bool:
    return mapping(entry.get("attributes")).get("type") == {"string": "gpu"}


def _gpu(index: int, entry: Obj, reasons: Reasons) -> Gpu:
    name = str(entry.get("name"))
    minor = re.fullmatch(r"gpu-([0-9]{1,4})", name)
    values = read_facts(GPU.facts[1:], device_facts(GPU, entry, NVIDIA_DRIVER), f"{name}.", reasons)
    return Gpu(index=index, **{"minor": int(minor[1]) if minor else None, **values})
