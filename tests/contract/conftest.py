"""The fixture of the contract suite: `api`, requests to each server in turn."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kubenexus.common.kube.resources import NODES
from tests.contract.api import Api
from tests.contract.objects import IDLE, node
from tests.servers import Server


@pytest.fixture
def api(server: Server) -> Iterator[Api]:
    """Requests in a namespace of the test's own. There is a Node called `idle`."""
    client = Api(server)
    client.request("POST", NODES.path(), node(IDLE)).expect(201, 409)
    yield client
    client.clean()
