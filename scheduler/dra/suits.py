"""Whether a device is one that a request means, whoever has it now. Answers are kept with the device."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, Final, NamedTuple

from kubenexus.common.cel import CelError, CelRuntimeError, compile_selector
from kubenexus.common.objects.reading import Amounts
from kubenexus.scheduler.dra.ask import Ask, Option
from kubenexus.scheduler.dra.capacity import portion
from kubenexus.scheduler.dra.pools import Device

Matches = Callable[[str, Device], bool]
"""Whether a device matches an expression; raises `CelError` or `CelRuntimeError` if there is no answer."""

# Of each device; thousands of them are kept.
_MOST_KNOWN: Final = 64
_UNASKED: Final[Any] = object()
_EFFECTS: Final = frozenset(("NoSchedule", "NoExecute"))


def matches_cel(expression: str, device: Device) -> bool:
    """Whether a device matches an expression, as Kubernetes evaluates it."""
    return compile_selector(expression).matches(device.facts)


class Suit(NamedTuple):
    """A device that a request means. With `tainted` it cannot have it, for want of a toleration.

    `portion` is what it takes of a device that can be shared.
    """

    tainted: bool
    portion: Amounts | None = None


class Fault(NamedTuple):
    """A selector went wrong, which stops the search as soon as it comes to that device."""

    reason: str


def suit(option: Option, device: Device, matches: Matches) -> Suit | Fault | None:
    """How a device suits an option of a request; None if it is not meant."""
    found: Suit | Fault | None = device.known.get(option, _UNASKED)
    if found is _UNASKED:
        if len(device.known) >= _MOST_KNOWN:
            device.known.clear()
        found = device.known[option] = _suit(option, device, matches)
    return found


def _suit(option: Option, device: Device, matches: Matches) -> Suit | Fault | None:
    tainted = _tainted(option, device)
    if tainted and option.request.count is not None:
        return None  # only who wants all devices has to know which it cannot have
    if option.selectors and device.view.unreadable:
        return Fault(f"the device {device.id} has attributes of no known kind: {', '.join(device.view.unreadable)}")
    for expression, whose in option.selectors:
        try:
            if not matches(expression, device):
                return None
        except (CelError, CelRuntimeError) as error:
            return Fault(f"a selector of {whose} cannot be evaluated on the device {device.id}: {error}")
    if not (device.view.shareable or option.request.capacity):
        return Suit(tainted)
    taken = portion(option.request.capacity, device.view.capacity.values())
    return None if taken is None else Suit(tainted, taken if device.view.shareable else None)


def _tainted(option: Option, device: Device) -> bool:
    tolerations = option.request.tolerations
    return any(
        not any(one.tolerates(taint) for one in tolerations) for taint in device.view.taints if taint.effect in _EFFECTS
    )


def face(ask: Ask, device: Device, matches: Matches) -> int:
    """All that an ask can tell about a device that cannot be shared: equal for devices that are alike to it.

    Devices that draw on counters are alike only in one pool.
    """
    known: int | None = device.known.get(ask)
    if known is None:
        values = (device.view.attributes.get(name) for name in ask.attributes)
        drawn = tuple((name, tuple(counters.items())) for name, counters in device.view.counters.items())
        seen: Hashable = (
            tuple(suit(option, device, matches) for option in ask.options),
            tuple((type(value), value) for value in values),
            (device.pool, drawn) if drawn else None,
        )
        known = device.known[ask] = ask.faces.setdefault(seen, len(ask.faces))
    return known
