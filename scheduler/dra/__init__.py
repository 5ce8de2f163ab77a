"""Devices for claims (resource.k8s.io): which of a node's devices a pod's claims get. Pure, and only a finder: whoever
decides holds the devices in `InUse` and writes the `Grant`s.
"""

from kubenexus.scheduler.dra.allocate import BUDGET, Allocator, Found
from kubenexus.scheduler.dra.ask import Ask, NoDevices
from kubenexus.scheduler.dra.in_use import Held, InUse
from kubenexus.scheduler.dra.inventory import Inventory, Reachable
from kubenexus.scheduler.dra.pools import Device, DeviceId, PoolId
from kubenexus.scheduler.dra.result import Grant, Pick, ShareIds
from kubenexus.scheduler.dra.search import UNFINISHED
from kubenexus.scheduler.dra.words import NONE_AT_ALL

__all__ = [
    "BUDGET",
    "NONE_AT_ALL",
    "UNFINISHED",
    "Allocator",
    "Ask",
    "Device",
    "DeviceId",
    "Found",
    "Grant",
    "Held",
    "InUse",
    "Inventory",
    "NoDevices",
    "Pick",
    "PoolId",
    "Reachable",
    "ShareIds",
]
