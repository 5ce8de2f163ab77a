"""How much of a device's capacities a claim gets when it asks for some, or for none in particular."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction
from math import ceil

from kubenexus.common.objects import CapacityView
from kubenexus.common.objects.reading import Amounts


def portion(wanted: Amounts, capacities: Iterable[CapacityView]) -> Amounts | None:
    """What is taken of each capacity, by the names of the slice; None if that cannot be had from such a device at all.

    Nothing wanted is the default, or all there is. What is wanted is rounded up to what the device gives out.
    """
    taken = {}
    for one in capacities:
        amount = _rounded(wanted.get(one.spelled), one)
        if amount > one.value or _against_rules(amount, one):
            return None
        taken[one.spelled] = amount
    return taken if taken.keys() >= wanted.keys() else None


def fits(taken: Amounts, capacities: Iterable[CapacityView], *others: Mapping[str, Fraction]) -> bool:
    """Whether a portion can be had besides what others have."""
    return all(
        taken[one.spelled] + sum(other.get(one.spelled, 0) for other in others) <= one.value for one in capacities
    )


def _rounded(wanted: Fraction | None, one: CapacityView) -> Fraction:
    if wanted is None:
        return one.value if one.default is None else one.default
    if one.minimum is not None:
        over = max(wanted - one.minimum, Fraction(0))
        return one.minimum + (ceil(over / one.step) * one.step if one.step else over)
    return min((value for value in one.allowed if value >= wanted), default=wanted)


def _against_rules(amount: Fraction, one: CapacityView) -> bool:
    if amount == one.default:
        return False
    if one.minimum is not None:
        too_much = one.maximum is not None and amount > one.maximum
        return too_much or bool(one.step and (amount - one.minimum) % one.step)
    return bool(one.allowed) and amount not in one.allowed
