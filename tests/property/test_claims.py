"""Claims and gangs in any order of events: no device has two claims, and what is remembered is what is true."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from kubenexus.common.kube.mirror import Deleted
from kubenexus.common.objects import PodView
from kubenexus.scheduler.actions import (
    Bind,
    Bound,
    Prepare,
    Prepared,
    Release,
    Released,
    Unbound,
    Undo,
    Undone,
)
from kubenexus.scheduler.plugins.device_survey import Surveys
from kubenexus.scheduler.world import read
from tests.devices import claim, resource_slice, user
from tests.unit.scheduler.test_claims import Fleet

NODES = ("n", "m", "o")


class Play:
    """A fleet to which things happen; the server does what it is asked to, or refuses."""

    def __init__(self) -> None:
        self.fleet = Fleet(n=2, m=1, o=3)
        self.pods: dict[str, PodView] = {}
        self.open: list[Any] = []
        self.counts: dict[str, int] = {}
        self.surveys = Surveys()
        self._number = 0

    def come(self, gang: int, count: int) -> None:
        """Pods with a claim each, as a gang or alone."""
        self._number += 1
        for index in range(max(gang, 1)):
            name = f"p{self._number}-{index}"
            self.counts[f"{name}-c"] = count
            self.fleet.claim(claim(f"{name}-c", count))
            made = user(name, f"{name}-c")
            self.pods[name] = self.fleet.see(made.gang(f"g{self._number}", gang) if gang else made)

    def decide(self) -> None:
        self.open += [one for one in self.fleet.decide(after=20) if isinstance(one, Bind | Prepare | Undo | Release)]

    def finish(self, well: bool) -> None:
        """What is under way comes to an end, the oldest first."""
        if not self.open:
            return
        action, desk, now = self.open.pop(0), self.fleet.desk, self.fleet.now
        if isinstance(action, Release):
            desk.finish(Released(action), now)
        elif isinstance(action, Undo):
            for use in action.bind.claims:
                if use.given and f"default/{use.claim}" in desk.state.objects.claims:
                    self.fleet.claim(claim(use.claim, self.counts[use.claim]))
            desk.finish(Undone(action.bind, action.why), now)
        elif not well or (isinstance(action, Prepare) and not self._is_there(action)):
            desk.finish(Unbound(action.bind if isinstance(action, Prepare) else action, "no"), now)
        elif isinstance(action, Prepare):
            for grant in action.grants:
                status = {"allocation": grant.body, "reservedFor": [{"resource": "pods", "name": "", "uid": "u"}]}
                self.fleet.claim(claim(grant.claim.name, len(grant.allocation.devices)).set("status", status))
            desk.finish(Prepared(action.bind), now)
        else:
            desk.finish(Bound(action), now)
        self.open += [one for one in desk.take() if isinstance(one, Bind | Undo)]

    def _is_there(self, action: Prepare) -> bool:
        """Whether the server still has the claims that are to be written."""
        return all(grant.claim.key in self.fleet.desk.state.objects.claims for grant in action.grants)

    def go(self, which: int) -> None:
        """A pod goes, and its claim with it."""
        if self.pods:
            name = sorted(self.pods)[which % len(self.pods)]
            self.fleet.gone(self.pods.pop(name))
            view = read("ResourceClaim", claim(f"{name}-c").build())
            self.fleet.hear("ResourceClaim", Deleted(f"default/{name}-c", view))

    def change(self, node: int, count: int) -> None:
        """A driver publishes other devices."""
        name = NODES[node % len(NODES)]
        self.fleet.tell("ResourceSlice", f"{name}-gpu", resource_slice(name, count))

    def check(self) -> None:
        state = self.fleet.desk.state
        claims = state.objects.claims
        held = Counter(
            (one.pool, one.device) for view in claims.values() if view.allocation for one in view.allocation.devices
        )
        assert not [device for device, count in held.items() if count > 1], "given twice"
        assert set(held) == {(one.pool, one.name) for one in claims.in_use.taken}
        for count in (1, 2):
            ask = state.allocator.ask([read("ResourceClaim", claim("any", count).build())])
            found = self.surveys.of(ask, state)  # type: ignore[arg-type]
            for node in state.live():
                now = state.allocator.refusal(ask, state.name(node), state.node(node).meta.labels)  # type: ignore[arg-type]
                assert list(found.reasons)[found.which[node]] == now


STEPS = st.one_of(
    st.builds(lambda gang, count: lambda play: play.come(gang, count), st.sampled_from([0, 2, 3]), st.integers(1, 2)),
    st.just(Play.decide),
    st.builds(lambda well: lambda play: play.finish(well), st.booleans()),
    st.builds(lambda which: lambda play: play.go(which), st.integers(0, 9)),
    st.builds(lambda node, count: lambda play: play.change(node, count), st.integers(0, 2), st.integers(0, 3)),
)


@settings(max_examples=100, deadline=None)
@given(st.lists(STEPS, max_size=25))
def test_whatever_happens(steps: list[Callable[[Play], None]]) -> None:
    play = Play()
    for step in steps:
        step(play)
        play.check()
