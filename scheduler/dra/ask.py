"""What the claims of a pod ask for, compiled: equal for all pods of one template, and kept with what is found out."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Final, NamedTuple

from kubenexus.common.cel import Purse
from kubenexus.common.objects import Constraint, DeviceClassView, DeviceRequest, RequestChoice, ResourceClaimView
from kubenexus.common.objects.reading import Amounts

MOST_DEVICES: Final = 32
"""of one claim, as the API allows"""
# Of all claims of a pod together. The API allows far more; looking at every device for all of it would take minutes.
_MOST_OPTIONS: Final = 128
_MOST_TEXT: Final = 64 * 1024
# What selectors may cost for one device, as long as nothing is saved.
_EACH: Final = 200


@dataclass(frozen=True, slots=True)
class NoDevices:
    """Why devices cannot be had on a node. With `fatal` something is wrong, and no other node should be tried.

    `where` is an example of what it is about. Others for the same reason are equal: thousands of nodes may be.
    """

    reason: str
    fatal: bool = False
    where: str = field(default="", compare=False)

    def __str__(self) -> str:
        return f"{self.reason} (for instance {self.where})" if self.where else self.reason


@dataclass(frozen=True, slots=True, eq=False)
class Option:
    """One way to satisfy a request. `name` is the request's, or `request/option` where there are several.

    `number` is its place among all options of the ask.
    """

    number: int
    name: str
    choice: str
    request: DeviceRequest
    selectors: tuple[tuple[str, str], ...]
    """what a device must match, and whose word that is, for people"""

    @property
    def everything(self) -> bool:
        return self.request.count is None

    def is_meant(self, requests: Sequence[str]) -> bool:
        """Whether a list of requests is about this one, too; an empty list is about all."""
        return not requests or self.name in requests or self.choice in requests


class Place(NamedTuple):
    """A device (its number among those of the node) for an option of a claim's request, and what it takes of it."""

    claim: int
    option: Option
    device: int
    portion: Amounts | None


class ClaimAsk(NamedTuple):
    """What one claim asks for: of each request one of its options."""

    requests: tuple[tuple[Option, ...], ...]
    constraints: tuple[Constraint, ...]


@dataclass(slots=True, eq=False)
class Ask:
    """What the claims of a pod ask for. Compare it by identity: the same claims compile to the same object."""

    claims: tuple[ClaimAsk, ...]
    options: tuple[Option, ...]
    attributes: tuple[str, ...]
    """what constraints compare"""
    purse: Purse
    """what its selectors may cost"""
    patience: int = 0
    """steps that searches may take besides those that each needs"""
    pods: int = 0
    """how often it was asked for after that; each time there is new patience"""
    faces: dict[Hashable, int] = field(default_factory=dict)
    """numbers of devices that look alike, see `suits.Seen`"""
    outcomes: dict[tuple[int, ...], tuple[Place, ...] | NoDevices] = field(default_factory=dict)
    """what was found on nodes, by the faces of their devices"""
    lacks: dict[tuple[int, ...], str] = field(default_factory=dict)
    """what nodes would lack even if nothing were in use, by the requests that mean their devices"""


def ask_key(claims: Sequence[ResourceClaimView], classes: Mapping[str, DeviceClassView]) -> Hashable:
    """Equal for claims that ask for the same. Claims that could not be read are like no others."""
    if any(claim.problems for claim in claims):
        return object()
    return tuple((tuple(_choice_key(one, classes) for one in claim.requests), claim.constraints) for claim in claims)


def compile_ask(claims: Sequence[ResourceClaimView], classes: Mapping[str, DeviceClassView]) -> Ask | NoDevices:
    """What these claims ask for, or why nobody could satisfy them."""
    for claim in claims:
        if why := next(_wrong(claim, classes), ""):
            return NoDevices(f"the claim {claim.name} cannot be satisfied anywhere: {why}", fatal=True)
    numbers = count()
    made = tuple(
        ClaimAsk(tuple(_options(choice, classes, numbers) for choice in claim.requests), claim.constraints)
        for claim in claims
    )
    options = tuple(option for one in made for choice in one.requests for option in choice)
    if why := _too_much(options):
        return NoDevices(f"the claims of the pod cannot be satisfied anywhere: {why}", fatal=True)
    attributes = sorted({one.same or one.distinct for claim in claims for one in claim.constraints})
    return Ask(made, options, tuple(attributes), Purse(max(1, _EACH // max(1, len(options)))))


def _too_much(options: Sequence[Option]) -> str:
    """What is wrong with the options of all claims together; empty if nothing."""
    if len(options) > _MOST_OPTIONS:
        return (
            f"they have {len(options)} requests and alternatives, and this scheduler looks at {_MOST_OPTIONS} at most"
        )
    length = sum(map(len, {expression for option in options for expression, _ in option.selectors}))
    if length > _MOST_TEXT:
        return f"their selectors have {length} characters, and this scheduler reads {_MOST_TEXT} at most"
    return ""


def _options(
    choice: RequestChoice, classes: Mapping[str, DeviceClassView], numbers: Iterator[int]
) -> tuple[Option, ...]:
    return tuple(
        Option(
            number=next(numbers),
            name=f"{choice.name}/{request.name}" if request.name else choice.name,
            choice=choice.name,
            request=request,
            selectors=(
                *((one, f"the class {request.device_class}") for one in classes[request.device_class].selectors),
                *((one, f"the request {choice.name}") for one in request.selectors),
            ),
        )
        for request in choice.options
    )


def _choice_key(choice: RequestChoice, classes: Mapping[str, DeviceClassView]) -> Hashable:
    return (choice.name, tuple(_request_key(one, classes) for one in choice.options))


def _request_key(one: DeviceRequest, classes: Mapping[str, DeviceClassView]) -> Hashable:
    known = classes.get(one.device_class)
    meant = None if known is None else known.selectors
    devices = (one.name, one.device_class, meant, one.selectors, one.count, one.admin)
    return (*devices, one.tolerations, one.seconds, tuple(sorted(one.capacity.items())))


def _wrong(claim: ResourceClaimView, classes: Mapping[str, DeviceClassView]) -> Iterator[str]:
    yield from claim.problems
    for choice in claim.requests:
        if not choice.options:
            yield f"the request {choice.name} is of a kind that this version does not know"
        for one in choice.options:
            yield from _wrong_request(choice.name, one, classes)
    for constraint in claim.constraints:
        if not (constraint.same or constraint.distinct):
            yield "it has a constraint of a kind that this version does not know"
    fewest = sum(min(one.count or 0 for one in choice.options) for choice in claim.requests)
    if fewest > MOST_DEVICES:
        yield f"it asks for {fewest} devices, and a claim can have {MOST_DEVICES} at most: use several claims"


def _wrong_request(name: str, one: DeviceRequest, classes: Mapping[str, DeviceClassView]) -> Iterator[str]:
    if not one.device_class:
        yield f"the request {name} names no device class"
    elif one.device_class not in classes:
        yield f"the request {name} is for the device class {one.device_class}, which does not exist: create it"
    elif not all(classes[one.device_class].selectors):
        yield f"the device class {one.device_class} has a selector of a kind that this version does not know"
    if not all(one.selectors):
        yield f"the request {name} has a selector of a kind that this version does not know"
    if one.count is not None and one.count < 1:
        yield f"the request {name} asks for {one.count} devices"
