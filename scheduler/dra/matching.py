"""Whether a device matches a CEL expression."""

from __future__ import annotations

from kubenexus.common.cel import CelError, CelRuntimeError, Facts, compile_selector
from kubenexus.scheduler.dra.pools import Device
from kubenexus.scheduler.dra.suits import SelectorError


def matches(expression: str, device: Device) -> bool:
    """By the device's own facts. Raises SelectorError."""
    facts = device.known.get(Facts)
    if facts is None:
        facts = device.known[Facts] = Facts.of(device.pool.driver, device.view)
    try:
        return compile_selector(expression).matches(facts)
    except (CelError, CelRuntimeError) as error:
        raise SelectorError(str(error)) from None
