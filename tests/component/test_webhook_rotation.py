"""The webhook's Secret, the trust of API servers and the files that are served, on the sandbox and a clock of ours."""

from __future__ import annotations

import base64
import ssl
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from kubenexus.common.kube.client import Client
from kubenexus.common.kube.resources import MUTATING_WEBHOOKS, SECRETS, VALIDATING_WEBHOOKS
from kubenexus.webhook.certs import Holdings, Step, read_certificates, renewed
from kubenexus.webhook.rotation import LOOK_SECONDS, SOON_SECONDS, Keeper, Place
from kubenexus.webhook.tls import Files, Tls
from tests.contract.objects import unique
from tests.servers import Server

Obj = dict[str, Any]
NOW = datetime(2026, 5, 4, 12, tzinfo=UTC)
DAY = timedelta(days=1)


class Bench:
    """A namespace with webhook configurations of its own, and replicas that share a clock."""

    def __init__(self, client: Client, namespace: str, folder: Path) -> None:
        self.client, self.folder, self.now = client, folder, NOW
        self.place = Place(namespace, "certs", "hook", unique("hook"))

    def replica(self, name: str) -> Replica:
        files = Files.of(self.folder / name)
        files.key.parent.mkdir()
        return Replica(Keeper(self.client, self.place, files, lambda: self.now), files)

    def configure(self) -> None:
        for res in (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS):
            self.client.create(res, {"metadata": {"name": self.place.configuration}, "webhooks": [hook(1), hook(2)]})

    def held(self) -> Holdings:
        return Holdings.from_secret(self.client.get(SECRETS, "certs", self.place.namespace)["data"])

    def bundles(self) -> set[bytes]:
        """What API servers trust, by all webhooks of both configurations."""
        objects = [self.client.get(res, self.place.configuration) for res in (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS)]
        webhooks = [webhook for obj in objects for webhook in obj["webhooks"]]
        return {base64.b64decode(webhook["clientConfig"].get("caBundle", "")) for webhook in webhooks}

    def delete_secret(self) -> None:
        self.client.delete(SECRETS, "certs", self.place.namespace)


class Replica:
    def __init__(self, keeper: Keeper, files: Files) -> None:
        self.keeper, self.files, self.look = keeper, files, keeper.look

    def served(self) -> bytes:
        return self.files.certificate.read_bytes()


def hook(number: int) -> Obj:
    return {
        "name": f"hook-{number}.example.com",
        "clientConfig": {"service": {"namespace": "none", "name": "none"}},
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "failurePolicy": "Ignore",
    }


@pytest.fixture
def bench(sandbox_server: Server, tmp_path: Path) -> Iterator[Bench]:
    with Client.connect(str(sandbox_server.kubeconfig)) as client:
        made = Bench(client, sandbox_server.namespace, tmp_path)
        yield made
        for res in (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS):
            for one in client.list(res).items:
                if one["metadata"]["name"] == made.place.configuration:
                    client.delete(res, made.place.configuration)


def test_first_look_makes_serves_and_makes_known(bench: Bench) -> None:
    bench.configure()
    one = bench.replica("one")
    assert [one.keeper.settled, one.look(), one.keeper.settled] == [False, LOOK_SECONDS, True]
    assert bench.bundles() == {bench.held().authorities}
    assert one.served() == bench.held().leaf
    assert one.files.key.stat().st_mode & 0o077 == 0, "the key is for nobody else"


def test_second_look_writes_nothing(bench: Bench) -> None:
    bench.configure()
    one, two = bench.replica("one"), bench.replica("two")
    one.look()
    before = bench.client.get(SECRETS, "certs", bench.place.namespace)["metadata"]["resourceVersion"]
    one.look()
    two.look()
    assert bench.client.get(SECRETS, "certs", bench.place.namespace)["metadata"]["resourceVersion"] == before
    assert one.served() == two.served()


def test_configurations_may_be_missing(bench: Bench) -> None:
    one = bench.replica("one")
    assert one.look() == LOOK_SECONDS
    assert one.keeper.settled


def test_replicas_that_start_together_agree(bench: Bench) -> None:
    bench.configure()
    replicas = [bench.replica(str(number)) for number in range(4)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda replica: replica.look(), replicas))
    assert {replica.served() for replica in replicas} == {bench.held().leaf}
    assert bench.bundles() == {bench.held().authorities}


def test_leaf_is_renewed_at_once(bench: Bench) -> None:
    bench.configure()
    one, two = bench.replica("one"), bench.replica("two")
    one.look()
    two.look()
    old, bench.now = one.served(), NOW + 20 * DAY
    assert one.look() == LOOK_SECONDS, "the authority is the same, so there is nothing to wait for"
    assert one.served() == bench.held().leaf != old
    assert two.served() == old
    two.look()
    assert two.served() == one.served()


def test_after_a_lost_secret_the_old_is_served_until_the_new_is_trusted(bench: Bench) -> None:
    bench.configure()
    one, two = bench.replica("one"), bench.replica("two")
    one.look()
    two.look()
    old, old_authority = one.served(), bench.held().authorities
    bench.delete_secret()
    assert one.look() == SOON_SECONDS
    assert one.served() == two.served() == old
    assert bench.bundles() == {bench.held().authorities + old_authority}
    assert one.look() == two.look() == LOOK_SECONDS
    assert one.served() == two.served() == bench.held().leaf != old


def test_expired_authority_leaves_the_bundle(bench: Bench) -> None:
    bench.configure()
    one = bench.replica("one")
    one.look()
    first = bench.held().authorities
    for days in range(0, 500, 5):
        bench.now = NOW + days * DAY
        one.look()
        one.look()
    (bundle,) = bench.bundles()
    assert bundle == bench.held().authorities
    assert first not in bundle


def test_secret_of_others_keeps_its_other_keys(bench: Bench) -> None:
    meta = {"name": "certs", "namespace": bench.place.namespace, "labels": {"app": "x"}}
    bench.client.create(SECRETS, {"metadata": meta, "data": {"note": "aGk=", "tls.crt": "anVuaw=="}})
    bench.replica("one").look()
    secret = bench.client.get(SECRETS, "certs", bench.place.namespace)
    assert secret["data"]["note"] == "aGk="
    assert secret["metadata"]["labels"] == {"app": "x"}
    assert len(read_certificates(base64.b64decode(secret["data"]["tls.crt"]))) == 1


# --- What is on disk is what is served


def write(folder: Path, held: Holdings) -> Files:
    files = Files.of(folder)
    files.write(held.leaf, held.leaf_key)
    return files


def made(now: datetime = NOW) -> Holdings:
    return renewed(Step.BOTH, Holdings(), ("hook",), now)


def test_context_is_kept_while_the_files_are_the_same(tmp_path: Path) -> None:
    files = write(tmp_path, made())
    tls = Tls(files)
    first = tls.context()
    assert tls.context() is first
    assert first.minimum_version == ssl.TLSVersion.TLSv1_2
    files.write(made().leaf, b"not its key")
    assert tls.context() is first, "what cannot be used is not served"
    assert "is not the one that is served" in str(tls.check(NOW))
    write(tmp_path, made())
    assert tls.context() is not first
    assert tls.check(NOW) is None


def test_swap_of_a_mounted_secret_is_noticed(tmp_path: Path) -> None:
    """As the kubelet does it: the files are links through a folder that is swapped."""
    for name in ("old", "new"):
        (tmp_path / name).mkdir()
        write(tmp_path / name, made())
    (tmp_path / "..data").symlink_to("old")
    for name in ("tls.crt", "tls.key"):
        (tmp_path / name).symlink_to(f"..data/{name}")
    tls = Tls(Files.of(tmp_path))
    first = tls.context()
    (tmp_path / "..swap").symlink_to("new")
    (tmp_path / "..swap").replace(tmp_path / "..data")
    assert tls.context() is not first
    assert tls.check(NOW) is None


def test_expired_certificate_is_not_ready(tmp_path: Path) -> None:
    tls = Tls(write(tmp_path, made()))
    assert tls.check(NOW + 29 * DAY) is None
    assert tls.check(NOW + 30 * DAY) == "the certificate ended at 2026-06-03 12:00 UTC: renew it"


def test_missing_certificate_is_not_ready(tmp_path: Path) -> None:
    assert "cannot be used" in str(Tls(Files.of(tmp_path)).check(NOW))
