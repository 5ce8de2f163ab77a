"""Tiers and tenants, as webhook and scheduler read them from a namespace."""

from __future__ import annotations

import pytest

from kubenexus.common import vocabulary as v
from kubenexus.common.tenants import LOWEST, RANK, claimed_tier, granted_tier, tenant_of


def test_tiers_are_ranked() -> None:
    assert RANK[v.Tier.GOLD] > RANK[v.Tier.SILVER] > RANK[v.Tier.BRONZE]
    assert LOWEST is v.Tier.BRONZE


@pytest.mark.parametrize(
    ("labels", "claimed", "granted"),
    [
        pytest.param({}, None, "bronze", id="none"),
        pytest.param({v.TENANT_TIER: "gold"}, "gold", "gold", id="a tier"),
        pytest.param({v.TENANT_TIER: "Gold"}, "gold", "gold", id="a tier in other letters"),
        pytest.param({v.TENANT_TIER: "glod"}, None, "bronze", id="a misspelt one grants nothing"),
        pytest.param({v.TENANT_TIER: ""}, None, "bronze", id="an empty one grants nothing"),
    ],
)
def test_tiers(labels: dict[str, str], claimed: str | None, granted: str) -> None:
    assert (claimed_tier(labels), granted_tier(labels)) == (claimed, granted)


@pytest.mark.parametrize(("labels", "tenant"), [({}, "team"), ({v.TENANT_NAME: "acme"}, "acme")])
def test_tenants(labels: dict[str, str], tenant: str) -> None:
    assert tenant_of("team", labels) == tenant
