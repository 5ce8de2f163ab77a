"""Fixtures that give a test an API server: `sandbox_server`, `real_server`, or `server`, which is each in turn.

A test that uses the real one carries the marker `e2e` without saying so. A session starts one control plane, which all
xdist workers share.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from hypothesis import settings

from tests import servers
from tests.servers import Server

# How long an example takes says more about what else the machine does than about the code; a hang meets pytest's limit.
# In CI the examples are the same each time: a change is judged by what it changed. Everywhere else they are new.
settings.register_profile("kubenexus", deadline=None, derandomize="CI" in os.environ)
settings.load_profile("kubenexus")


@pytest.fixture(scope="session")
def _real_session() -> Server:
    return servers.real()


@pytest.fixture(scope="session")
def _sandbox_session() -> Iterator[Server]:
    with servers.sandbox() as server:
        yield server


@pytest.fixture
def real_server(_real_session: Server) -> Iterator[Server]:
    """A real API server with controllers, and a namespace for this test."""
    with _real_session.with_namespace() as server:
        yield server


@pytest.fixture
def sandbox_server(_sandbox_session: Server) -> Iterator[Server]:
    """The sandbox, and a namespace for this test."""
    with _sandbox_session.with_namespace() as server:
        yield server


@pytest.fixture(params=["sandbox", "real"])
def server(request: pytest.FixtureRequest) -> Server:
    """Each API server in turn, with a namespace for this test."""
    chosen = request.getfixturevalue(f"{request.param}_server")
    assert isinstance(chosen, Server)
    return chosen


@pytest.hookimpl(tryfirst=True)  # before `-m` chooses
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        parameters = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
        if parameters.get("server") == "real" or "real_server" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.e2e)


def pytest_unconfigure() -> None:
    servers.end_real()
