"""Pods that are changed on a real API server: what the webhook refuses, and what it must never stand in the way of."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kubenexus.common import vocabulary as v
from kubenexus.common.kube.errors import ApiError
from kubenexus.common.kube.request import PatchType
from kubenexus.common.kube.resources import JOBS, NAMESPACES, PODS
from tests import webhooks
from tests.contract.objects import pod
from tests.servers import Server
from tests.stub_server import until
from tests.webhooks import PATIENCE, Tenant

pytestmark = pytest.mark.e2e

Obj = dict[str, Any]
GANG = {v.GANG_NAME: "g", v.GANG_MIN_AVAILABLE: "2"}


@pytest.fixture(scope="module")
def shared(_real_session: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[Server], Tenant]]:
    with _real_session.with_namespace() as home, webhooks.serving(home, tmp_path_factory.mktemp("webhook")) as tenant:
        yield tenant


@pytest.fixture
def tenant(shared: Callable[[Server], Tenant], real_server: Server) -> Tenant:
    return shared(real_server)


def relabel(tenant: Tenant, name: str, **labels: str | None) -> None:
    tenant.client.patch(PODS, name, {"metadata": {"labels": labels}}, tenant.namespace, kind=PatchType.MERGE)


@pytest.mark.parametrize(
    ("labels", "sentence"),
    [
        pytest.param({v.GANG_NAME: "h"}, "it was g of 2, now h of 2", id="another gang"),
        pytest.param({v.GANG_MIN_AVAILABLE: "3"}, "it was g of 2, now g of 3", id="another size"),
        pytest.param(dict.fromkeys(GANG), "it was g of 2, now none", id="no gang"),
    ],
)
def test_the_gang_of_a_pod_cannot_be_changed(tenant: Tenant, labels: dict[str, str | None], sentence: str) -> None:
    tenant.create(pod("member", labels=GANG))
    with pytest.raises(ApiError, match=sentence):
        relabel(tenant, "member", **labels)
    relabel(tenant, "member", app="web")


def test_a_tier_can_be_lowered_later_and_not_raised(tenant: Tenant) -> None:
    granted = {"metadata": {"labels": {v.TENANT_TIER: "silver"}}}
    tenant.client.patch(NAMESPACES, tenant.namespace, granted, kind=PatchType.MERGE)
    until(lambda: is_admitted(tenant, pod("silver", labels={v.TENANT_TIER: "silver"})), PATIENCE)
    tenant.create(pod("mine"))
    relabel(tenant, "mine", **{v.TENANT_TIER: "bronze"})
    with pytest.raises(ApiError, match="above silver, the tier of namespace"):
        relabel(tenant, "mine", **{v.TENANT_TIER: "gold"})


def is_admitted(tenant: Tenant, obj: Obj) -> bool:
    """Whether such a pod may be created now; the webhook hears of namespaces a moment after they change."""
    try:
        return bool(tenant.create(obj, dry_run=True))
    except ApiError:
        return False


def job(name: str) -> Obj:
    spec = {**pod()["spec"], "restartPolicy": "Never"}
    template = {"metadata": {"labels": {"app": name}}, "spec": spec}
    return {
        "metadata": {"name": name},
        "spec": {"completionMode": "Indexed", "parallelism": 2, "completions": 2, "template": template},
    }


def test_a_job_may_let_its_pods_go(tenant: Tenant) -> None:
    tenant.client.create(JOBS, job("loose"), tenant.namespace)
    until(lambda: len(tenant.pods("app=loose")) == 2, PATIENCE)
    assert all(v.GANG_NAME in one["metadata"]["labels"] for one in tenant.pods("app=loose"))
    tenant.client.delete(JOBS, "loose", tenant.namespace, propagation="Orphan")
    until(lambda: all("ownerReferences" not in one["metadata"] for one in tenant.pods("app=loose")), PATIENCE)
    assert len(tenant.pods("app=loose")) == 2


def test_a_job_may_take_its_pods_with_it(tenant: Tenant) -> None:
    """Each of them has a finalizer, which its controller must be able to remove."""
    tenant.client.create(JOBS, job("gone"), tenant.namespace)
    until(lambda: len(tenant.pods("app=gone")) == 2, PATIENCE)
    tenant.client.delete(JOBS, "gone", tenant.namespace, propagation="Foreground")
    until(lambda: not tenant.pods("app=gone"), PATIENCE)
