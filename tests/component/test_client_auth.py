"""Where the cluster is and who we are: kubeconfig, service account, certificates, exec plugins, and their renewal."""

from __future__ import annotations

import json
import ssl
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes.config import incluster_config
from urllib3.util.ssl_ import create_urllib3_context

from kubenexus.common.kube import auth, connection, errors
from kubenexus.common.kube.auth import Access
from kubenexus.common.kube.client import Client
from tests.stub_server import Handler, Pki, make_pki, serving


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Pki:
    return make_pki(tmp_path_factory.mktemp("pki"))


def ok(handler: Handler) -> None:
    handler.reply(200, {"gitVersion": "v1"})


def refuse(handler: Handler) -> None:
    handler.reply(401, {"kind": "Status", "code": 401, "reason": "Unauthorized", "message": "Unauthorized"})


def kubeconfig(folder: Path, url: str, user: dict[str, Any], **cluster: Any) -> str:
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "main",
        "contexts": [
            {"name": "main", "context": {"cluster": "c", "user": "u"}},
            {"name": "nobody", "context": {"cluster": "c", "user": ""}},
        ],
        "clusters": [{"name": "c", "cluster": {"server": url, **cluster}}],
        "users": [{"name": "u", "user": user}],
    }
    file = folder / "kubeconfig"
    file.write_text(yaml.safe_dump(config))
    return str(file)


def test_a_token_over_tls(pki: Pki, tmp_path: Path) -> None:
    with serving(ok, tls=pki.context()) as server:
        file = kubeconfig(tmp_path, server.url, {"token": "secret"}, **{"certificate-authority": str(pki.ca)})
        with Client.connect(file, agent="kubenexus-test") as client:
            assert client.request("GET", "/version") == {"gitVersion": "v1"}
        headers = server.seen[0].headers
        assert (headers["authorization"], headers["user-agent"]) == ("Bearer secret", "kubenexus-test")


def test_an_authority_with_few_words_is_trusted(pki: Pki, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Authorities of many clusters, EKS among them, lack extensions that Python insists on since 3.13."""

    def strict(*args: Any, **settings: Any) -> ssl.SSLContext:
        context = create_urllib3_context(*args, **settings)
        context.verify_flags |= ssl.VERIFY_X509_STRICT
        return context

    monkeypatch.setattr(connection, "create_urllib3_context", strict)
    test_a_token_over_tls(pki, tmp_path)
    test_a_server_of_another_authority_is_not_talked_to(pki, tmp_path)


def test_a_server_of_another_authority_is_not_talked_to(pki: Pki, tmp_path: Path) -> None:
    other = make_pki(tmp_path)
    with serving(ok, tls=pki.context()) as server:
        file = kubeconfig(tmp_path, server.url, {"token": "secret"}, **{"certificate-authority": str(other.ca)})
        with Client.connect(file) as client, pytest.raises(errors.NotReached, match=r"(?i)certificate"):
            client.request("POST", "/x")
        assert server.seen == []


def test_a_client_certificate(pki: Pki, tmp_path: Path) -> None:
    def who(handler: Handler) -> None:
        certificate: Any = handler.connection.getpeercert()
        handler.reply(200, {"subject": certificate["subject"][0][0][1]})

    user = {"client-certificate": str(pki.client), "client-key": str(pki.client_key)}
    with serving(who, tls=pki.context(verify_client=True)) as server:
        file = kubeconfig(tmp_path, server.url, user, **{"certificate-authority": str(pki.ca)})
        with Client.connect(file) as client:
            assert client.request("GET", "/version") == {"subject": "alice"}


def test_a_path_in_the_server_address_stays(tmp_path: Path) -> None:
    with serving(ok) as server, Client.connect(kubeconfig(tmp_path, f"{server.url}/k8s/c-1/", {})) as client:
        client.request("GET", "/version")
        assert server.seen[0].path == "/k8s/c-1/version"


def test_another_context(tmp_path: Path) -> None:
    with (
        serving(ok) as server,
        Client.connect(kubeconfig(tmp_path, server.url, {"token": "secret"}), "nobody") as client,
    ):
        client.request("GET", "/version")
        assert "authorization" not in server.seen[0].headers


def exec_user(folder: Path) -> dict[str, Any]:
    """A user whose plugin hands out token-1, token-2, … and says that each expires at once."""
    count = folder / "count"
    credential = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "kind": "ExecCredential",
        "status": {"token": "TOKEN", "expirationTimestamp": "2020-01-01T00:00:00Z"},
    }
    script = (
        f"import pathlib; p = pathlib.Path({str(count)!r}); n = int(p.read_text()) + 1 if p.exists() else 1; "
        f"p.write_text(str(n)); print({json.dumps(credential)!r}.replace('TOKEN', f'token-{{n}}'))"
    )
    plugin = {"apiVersion": credential["apiVersion"], "command": sys.executable, "args": ["-c", script]}
    return {"exec": {**plugin, "interactiveMode": "Never"}}


def test_an_exec_plugin_is_run_again_when_its_token_is_due(tmp_path: Path) -> None:
    now = [0.0]
    with serving(ok) as server:
        file = kubeconfig(tmp_path, server.url, exec_user(tmp_path))
        with Client(Access(lambda: auth.from_kubeconfig(file), clock=lambda: now[0])) as client:
            for now[0] in (0.0, 9.0, 10.0):
                client.request("GET", "/version")
        tokens = [seen.headers["authorization"] for seen in server.seen]
        assert tokens[0] == tokens[1] != tokens[2]


@pytest.fixture
def account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pki: Pki) -> Path:
    """A pod's service account; the path of its token."""
    token = tmp_path / "token"
    token.write_text("first\n")
    monkeypatch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", str(token))
    monkeypatch.setattr(incluster_config, "SERVICE_CERT_FILENAME", str(pki.ca))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    return token


@pytest.mark.usefixtures("account")
def test_the_service_account(pki: Pki, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(ok, tls=pki.context()) as server:
        monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
        monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(server.server_address[1]))
        with Client.connect() as client:
            client.request("GET", "/version")
        assert server.seen[0].headers["authorization"] == "bearer first"


def test_a_refused_token_is_read_again(account: Path, pki: Pki, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    with serving(ok, refuse, ok, tls=pki.context()) as server:
        monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
        monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(server.server_address[1]))
        with Client(Access(auth.in_cluster, clock=lambda: now[0])) as client:
            client.request("GET", "/version")
            account.write_text("second\n")
            now[0] = 20.0
            assert client.request("POST", "/x") == {"gitVersion": "v1"}
        assert [seen.headers["authorization"] for seen in server.seen] == [
            "bearer first",
            "bearer first",
            "bearer second",
        ]


def test_who_is_refused_for_good_is_told_so_without_a_storm(tmp_path: Path) -> None:
    now = [0.0]
    loads = []
    with serving(refuse) as server:
        file = kubeconfig(tmp_path, server.url, {"token": "wrong"})

        def load() -> Any:
            loads.append(now[0])
            return auth.from_kubeconfig(file)

        with Client(Access(load, clock=lambda: now[0])) as client:
            for now[0] in (0.0, 5.0, 12.0, 13.0):
                with pytest.raises(errors.Unauthorized, match="the credentials are missing, expired or wrong"):
                    client.request("GET", "/version")
        assert loads == [0.0, 12.0]
        assert len(server.seen) == 5


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (None, "No configuration found"),
        ("", "is empty"),
        ("a: [", "cannot be used"),
        ("kind: Config", "Expected key current-context"),
    ],
    ids=["missing", "empty", "no yaml", "no context"],
)
def test_a_kubeconfig_that_cannot_be_used_is_one_sentence(text: str | None, reason: str, tmp_path: Path) -> None:
    file = tmp_path / "kubeconfig"
    if text is not None:
        file.write_text(text)
    with pytest.raises(errors.NotConfigured, match=reason) as no:
        Client.connect(str(file))
    assert str(file) in str(no.value)
    assert "\n" not in str(no.value)


def test_no_cluster_at_all(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(errors.NotConfigured, match="give --kubeconfig, set KUBECONFIG, or run inside a pod"):
        Client.connect()


def test_no_service_account(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "1")
    monkeypatch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", str(tmp_path / "none"))
    with pytest.raises(errors.NotConfigured, match="there is no service account to use"):
        Client.connect()


def test_kubeconfig_from_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with serving(ok) as server:
        monkeypatch.setenv("KUBECONFIG", kubeconfig(tmp_path, server.url, {"token": "secret"}))
        monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "203.0.113.1")
        with Client.connect() as client:
            assert client.request("GET", "/version") == {"gitVersion": "v1"}
