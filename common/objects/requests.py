"""How much a pod needs: the request math of Kubernetes 1.36, exactly.

Containers and sidecars run side by side, init containers one after another with the sidecars started before them; the
pod needs the larger of the two. Requests for the pod as a whole replace that sum, overhead comes on top. A running pod
that is being resized occupies the largest of what it asks for, what it was given and what it has.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum, StrEnum
from fractions import Fraction
from typing import Final, NamedTuple

from kubenexus.common.objects.reading import Amounts, Fields, Obj, ProjectionError
from kubenexus.common.quantity import INT64_MAX

CPU: Final = "cpu"
MEMORY: Final = "memory"
# What the scorers of kube-scheduler assume for a container that does not say.
ASSUMED_REQUESTS: Final[Mapping[str, Fraction]] = {CPU: Fraction(1, 10), MEMORY: Fraction(200 * 1024 * 1024)}


class Role(Enum):
    """When a container runs: with the others, before them, or from its turn to the end."""

    MAIN = "main"
    INIT = "init"
    SIDECAR = "sidecar"


class Qos(StrEnum):
    GUARANTEED = "Guaranteed"
    BURSTABLE = "Burstable"
    BEST_EFFORT = "BestEffort"


@dataclass(frozen=True, slots=True)
class RequestOptions:
    """Which of several answers is wanted; the defaults give what a pending pod asks for."""

    use_status: bool = False
    use_claims: bool = False
    skip_pod_level: bool = False
    skip_overhead: bool = False
    assumed: Mapping[str, Fraction] = field(default_factory=dict)


AS_ASKED: Final = RequestOptions()


class Demand(NamedTuple):
    """Requests and limits as written somewhere."""

    requests: Amounts
    limits: Amounts


class Actual(NamedTuple):
    """What the kubelet reports for a container, or for the pod: what is in force, and what it has set aside."""

    requests: Amounts
    limits: Amounts
    allocated: Amounts


class Container(NamedTuple):
    name: str
    role: Role
    demand: Demand
    actual: Actual | None


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Usage:
    """What a pod takes from a node: requests (cpu in milli, others in units) and the two amounts scorers assume."""

    requests: Mapping[str, int]
    nonzero_cpu: int
    nonzero_memory: int


@dataclass(frozen=True, slots=True)
class PodResources:
    """Everything in a pod that says how much it needs."""

    containers: tuple[Container, ...]
    pod_level: Demand | None
    pod_actual: Actual | None
    overhead: Amounts
    claims: tuple[Amounts, ...]
    resize_infeasible: bool

    def container_requests(self, options: RequestOptions = AS_ASKED) -> Amounts:
        """The containers' requests alone: no pod level, no overhead."""
        return aggregate((one.role, self._requests_of(one, options)) for one in self.containers)

    def container_limits(self, options: RequestOptions = AS_ASKED) -> Amounts:
        return aggregate((one.role, self._limits(one.demand, one.actual, options)) for one in self.containers)

    def requests(self, options: RequestOptions = AS_ASKED) -> Amounts:
        """What the pod asks for."""
        total = self.container_requests(options)
        if options.use_claims:
            total = plus(total, *self.claims)
        if self.pod_level is not None and not options.skip_pod_level:
            total |= _pod_level(self._requests(self.pod_level, self.pod_actual, options))
        return total if options.skip_overhead else plus(total, self.overhead)

    def limits(self, options: RequestOptions = AS_ASKED) -> Amounts:
        """What the pod may use at most. Overhead raises a limit; it does not make one."""
        total = self.container_limits(options)
        if self.pod_level is not None and not options.skip_pod_level:
            total |= _pod_level(self.pod_level.limits)
        if options.skip_overhead:
            return total
        return plus(total, {name: amount for name, amount in self.overhead.items() if name in total})

    def usage(self, *, use_status: bool) -> Usage:
        """What the pod takes from a node, by its spec alone or with what the kubelet reports of it."""
        options = RequestOptions(use_status=use_status)
        requests = self.requests(options)
        decided = requests if self.pod_level is not None and self.pod_level.requests else {}
        assumed = {name: amount for name, amount in ASSUMED_REQUESTS.items() if name not in decided}
        nonzero = rounded(self.requests(RequestOptions(use_status=use_status, assumed=assumed)))
        return Usage(rounded(requests), nonzero.get(CPU, 0), nonzero.get(MEMORY, 0))

    def qos(self) -> Qos:
        """The quality-of-service class, which only cpu and memory decide."""
        demands = [self.pod_level] if self.pod_level is not None else [one.demand for one in self.containers]
        requests = plus(*(_compute(demand.requests) for demand in demands))
        limits = plus(*(_compute(demand.limits) for demand in demands))
        if not requests and not limits:
            return Qos.BEST_EFFORT
        complete = all(len(_compute(demand.limits)) == 2 for demand in demands)
        return Qos.GUARANTEED if complete and requests == limits else Qos.BURSTABLE

    def exclusive_cpus(self) -> int:
        """CPUs that a kubelet with the static policy takes out of the shared pool for this pod."""
        if self.pod_level is not None or self.qos() is not Qos.GUARANTEED:
            return 0
        wholes = ((one.role, _whole_cpus(one.demand.requests)) for one in self.containers)
        return int(aggregate(wholes).get(CPU, Fraction(0)))

    def _requests_of(self, one: Container, options: RequestOptions) -> Amounts:
        return {**options.assumed, **self._requests(one.demand, one.actual, options)}

    def _requests(self, demand: Demand, actual: Actual | None, options: RequestOptions) -> Amounts:
        if actual is None or not options.use_status:
            return demand.requests
        given = most(actual.requests, actual.allocated)
        return given if self.resize_infeasible else most(demand.requests, given)

    def _limits(self, demand: Demand, actual: Actual | None, options: RequestOptions) -> Amounts:
        if actual is None or not options.use_status:
            return demand.limits
        return actual.limits if self.resize_infeasible else most(demand.limits, actual.limits)


def aggregate(demands: Iterable[tuple[Role, Amounts]]) -> Amounts:
    """What containers need together at the worst moment. Init containers come in their order."""
    running: Amounts = {}
    sidecars: Amounts = {}
    peak: Amounts = {}
    for role, amounts in demands:
        if role is not Role.INIT:
            _add(running, amounts)
        if role is Role.MAIN:
            continue
        # Of what these amounts do not name the sidecars have what they had, which the peak knows.
        at_once = {name: sidecars[name] + amount if name in sidecars else amount for name, amount in amounts.items()}
        peak.update(_larger(at_once, peak))
        if role is Role.SIDECAR:
            sidecars.update(at_once)
    return most(running, peak) if peak else running


def plus(*terms: Amounts) -> Amounts:
    total: Amounts = {}
    for term in terms:
        _add(total, term)
    return total


def _add(total: Amounts, term: Amounts) -> None:
    for name, amount in term.items():
        total[name] = total[name] + amount if name in total else amount  # adding fractions is slow, even to 0


def most(one: Amounts, other: Amounts) -> Amounts:
    """The larger amount of each resource."""
    return {**one, **_larger(other, one)}


def _larger(amounts: Amounts, known: Amounts) -> Amounts:
    """Those that are larger than what is known, or new."""
    return {name: amount for name, amount in amounts.items() if name not in known or amount > known[name]}


def rounded(amounts: Mapping[str, Fraction]) -> dict[str, int]:
    """Whole numbers, rounded up: milli for cpu, units for all others."""
    return {name: _up(amount * 1000 if name == CPU else amount) for name, amount in amounts.items()}


def _up(amount: Fraction) -> int:
    return min(-(-amount.numerator // amount.denominator), INT64_MAX)


def _pod_level(amounts: Amounts) -> Amounts:
    """Only these can be asked for by the pod as a whole."""
    return {name: n for name, n in amounts.items() if name in (CPU, MEMORY) or name.startswith("hugepages-")}


def _compute(amounts: Amounts) -> Amounts:
    return {name: amount for name in (CPU, MEMORY) if (amount := amounts.get(name, Fraction(0))) > 0}


def _whole_cpus(requests: Amounts) -> Amounts:
    cpus = requests.get(CPU, Fraction(0))
    return {CPU: cpus} if (cpus * 1000).__ceil__() % 1000 == 0 else {}


def read_resources(spec: Fields, status: Fields) -> PodResources:
    """What spec and status of a pod say about resources; what cannot be read is a problem of these fields."""
    reported = {
        one.text("name"): one for key in ("containerStatuses", "initContainerStatuses") for one in status.children(key)
    }
    inits = [_container(one, _init_role(one), reported) for one in spec.children("initContainers")]
    mains = [_container(one, Role.MAIN, reported) for one in spec.children("containers")]
    level = spec.maybe("resources")
    claims = status.children("nodeAllocatableResourceClaimStatuses")
    return PodResources(
        containers=(*inits, *mains),
        pod_level=_demand(level) if level is not None and level.raw else None,
        pod_actual=_actual(status),
        overhead=spec.amounts("overhead"),
        claims=tuple(claim.amounts("resources") for claim in claims),
        resize_infeasible=any(map(_is_infeasible_resize, status.children("conditions"))),
    )


def _init_role(container: Fields) -> Role:
    return Role.SIDECAR if container.text("restartPolicy") == "Always" else Role.INIT


def _container(container: Fields, role: Role, reported: Mapping[str, Fields]) -> Container:
    name = container.text("name")
    # The status of an init container that has run its course says nothing about the future.
    status = None if role is Role.INIT else reported.get(name)
    return Container(name, role, _demand(container.child("resources")), None if status is None else _actual(status))


def _demand(resources: Fields) -> Demand:
    return Demand(resources.amounts("requests"), resources.amounts("limits"))


def _actual(status: Fields) -> Actual | None:
    resources = status.maybe("resources")
    if resources is None:
        return None
    return Actual(*_demand(resources), status.amounts("allocatedResources"))


def _is_infeasible_resize(condition: Fields) -> bool:
    return condition.text("type") == "PodResizePending" and condition.text("reason") == "Infeasible"


def pod_resources(obj: Obj) -> PodResources:
    """The resources of a raw Pod; `ProjectionError` names what cannot be read."""
    root = Fields(obj, [])
    read = read_resources(root.child("spec"), root.child("status"))
    if root.problems:
        raise ProjectionError(f"Pod {root.child('metadata').text('name')}: {root.problems[0]}")
    return read


def pod_requests(obj: Obj) -> dict[str, int]:
    """What a raw Pod asks for: cpu in milli, everything else in units, rounded up."""
    return rounded(pod_resources(obj).requests())
