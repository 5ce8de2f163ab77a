"""Why claims cannot be satisfied on a node, for people."""

from __future__ import annotations

from typing import Final

from kubenexus.scheduler.dra.ask import Ask, Option
from kubenexus.scheduler.dra.in_use import InUse
from kubenexus.scheduler.dra.inventory import Reachable
from kubenexus.scheduler.dra.suits import seen

NONE_AT_ALL: Final = "the node has none that it may have"


def shortage(ask: Ask, reachable: Reachable, in_use: InUse) -> str:
    """The first request that the node cannot satisfy even alone, and what it has for it; empty if there is none."""
    for claim in ask.claims:
        for options in claim.requests:
            lacks = [_lack(ask, option, reachable, in_use) for option in options]
            if all(lacks):
                return "; ".join(lacks)
    return ""


def _lack(ask: Ask, option: Option, reachable: Reachable, in_use: InUse) -> str:
    """What an option lacks on a node; empty if it could be had."""
    meant = [device for device in reachable.devices if seen(ask, device).meant >> option.number & 1]
    admin, count = option.request.admin, option.request.count
    free = meant if admin else [one for one in meant if one.view.shareable or one.id not in in_use.taken]
    if len(free) >= (count or 1):
        return ""
    what = "all devices" if count is None else "1 device" if count == 1 else f"{count} devices"
    asked = f"the request {option.name} asks for {what} of the class {option.request.device_class}"
    if not meant:
        return f"{asked}, and {NONE_AT_ALL}"
    return f"{asked}, and of {len(meant)} on the node {len(free)} {'is' if len(free) == 1 else 'are'} free"
