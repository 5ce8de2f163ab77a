"""CEL expressions of device selectors: what the API server refuses when it compiles them."""

from __future__ import annotations

from kubenexus.common.cel import MAX_BYTES, MAX_COST, CelError, compile_selector
from kubenexus.common.sandbox.validation.field import Field


def expression(field: Field) -> None:
    """A device selector's expression: not too long, compiles, and cannot cost too much."""
    text = field.text()
    if len(text.encode()) > MAX_BYTES:
        field.too_long(MAX_BYTES)
        return
    try:
        selector = compile_selector(text)
    except CelError as error:
        field.invalid(error.report, text)
        return
    if selector.max_cost > MAX_COST:
        field.forbidden("too complex, exceeds cost limit")
