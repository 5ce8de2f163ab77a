"""Whether a device is one that a request means, whoever has it now. Answers are kept with the device."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final, NamedTuple

from kubenexus.common.cel import CelError, CelRuntimeError, compile_selector
from kubenexus.common.objects.reading import Amounts
from kubenexus.scheduler.dra.ask import Ask, Option
from kubenexus.scheduler.dra.capacity import portion
from kubenexus.scheduler.dra.pools import Device

# Answers of each device, unless one ask has more; thousands of devices are kept.
_MOST_KNOWN: Final = 64
_EFFECTS: Final = frozenset(("NoSchedule", "NoExecute"))


class Suit(NamedTuple):
    """A device that a request means. With `tainted` it cannot have it, for want of a toleration.

    `portion` is what it takes of a device that can be shared.
    """

    tainted: bool
    portion: Amounts | None = None


class Fault(NamedTuple):
    """A selector went wrong, which stops the search as soon as it comes to that device."""

    reason: str


SPENT: Final = Fault("its selectors cost too much to be evaluated on more devices now")


class Seen(NamedTuple):
    """What an ask sees of a device: how it suits each option, None if it is not meant.

    `meant` has a bit for each option that means it. `face` is equal for devices that cannot be shared and are alike in
    all that the ask can tell. Devices that draw on counters are alike only in one pool.
    """

    suits: tuple[Suit | Fault | None, ...]
    meant: int
    face: int


def suit(ask: Ask, option: Option, device: Device) -> Suit | Fault | None:
    """How a device suits an option of a request."""
    return seen(ask, device).suits[option.number]


def face(ask: Ask, device: Device) -> int:
    """The face of a device that cannot be shared."""
    return seen(ask, device).face


def seen(ask: Ask, device: Device) -> Seen:
    """What an ask sees of a device."""
    found: Seen | None = device.known.get(ask)
    if found is None:
        found = _look(ask, device)
        if found.suits[:1] != (SPENT,):
            if sum(len(one.suits) for one in device.known.values()) >= _MOST_KNOWN:
                device.known.clear()
            device.known[ask] = found
    return found


def _look(ask: Ask, device: Device) -> Seen:
    suits = () if ask.purse.spent else tuple(_suit(ask, option, device) for option in ask.options)
    if not suits or SPENT in suits:
        return Seen((SPENT,) * len(ask.options), 0, ask.faces.setdefault(SPENT, len(ask.faces)))
    meant = sum(1 << number for number, one in enumerate(suits) if isinstance(one, Suit))
    if device.view.shareable:
        return Seen(suits, meant, -1)
    values = (device.view.attributes.get(name) for name in ask.attributes)
    drawn = (device.pool, device.drawn) if device.drawn else None
    look: Hashable = (suits, tuple((type(value), value) for value in values), drawn)
    return Seen(suits, meant, ask.faces.setdefault(look, len(ask.faces)))


def _suit(ask: Ask, option: Option, device: Device) -> Suit | Fault | None:
    tainted = _tainted(option, device)
    if tainted and option.request.count is not None:
        return None  # only who wants all devices has to know which it cannot have
    if option.selectors and device.view.unreadable:
        return Fault(f"a device has attributes of no known kind: {', '.join(device.view.unreadable)}")
    for expression, whose in option.selectors:
        try:
            if not compile_selector(expression).matches(device.facts, ask.purse):
                return None
        except (CelError, CelRuntimeError) as error:
            if ask.purse.spent:
                return SPENT
            return Fault(f"a selector of {whose} cannot be evaluated on a device: {error}")
    if not (device.view.shareable or option.request.capacity):
        return Suit(tainted)
    taken = portion(option.request.capacity, device.view.capacity.values())
    return None if taken is None else Suit(tainted, taken if device.view.shareable else None)


def _tainted(option: Option, device: Device) -> bool:
    tolerations = option.request.tolerations
    return any(
        not any(one.tolerates(taint) for one in tolerations) for taint in device.view.taints if taint.effect in _EFFECTS
    )
