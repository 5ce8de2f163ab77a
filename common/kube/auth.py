"""Where the cluster is and who we are: kubeconfig or service account, TLS and credentials, kept fresh.

The official `kubernetes` package reads the configuration (exec plugins, client certificates, tokens) and builds the
urllib3 pool; nothing else of it is used. It is imported on first use: it costs 18 MB and a third of a second.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import urllib3

from kubenexus.common.kube import connection
from kubenexus.common.kube.errors import NotConfigured

REFRESH_SECONDS = 10.0  # How long a token is used before its source is asked again; the source has a cache of its own.
RELOAD_SECONDS = 10.0  # A refused credential makes us read the whole configuration again, but not more often than this.

Configuration = Any  # kubernetes.client.Configuration, which has no types worth importing for


class Session:
    """One reading of the configuration: a connection pool and a source of Authorization headers."""

    def __init__(self, configuration: Configuration, connections: int, clock: Callable[[], float]) -> None:
        from kubernetes.client.rest import RESTClientObject

        configuration.connection_pool_maxsize = connections
        configuration.keep_alive = True
        self._manager: urllib3.PoolManager = RESTClientObject(configuration).pool_manager
        self._configuration = configuration
        self._clock = clock
        self._lock = threading.Lock()
        self._asked_at = float("-inf")
        self._authorization: str | None = None
        self.prefix = urlsplit(configuration.host).path.rstrip("/")
        self.pool: urllib3.HTTPConnectionPool = self._manager.connection_from_url(configuration.host)
        connection.use_in(self.pool)

    def authorization(self) -> str | None:
        """The header's value now; a token file is re-read and an exec plugin run again when its token is due."""
        with self._lock:
            if self._clock() - self._asked_at >= REFRESH_SECONDS:
                self._asked_at = self._clock()
                # The package renamed its key for the token, so ask for whatever goes into the header.
                settings = self._configuration.auth_settings().values()
                found = [s["value"] for s in settings if s["key"].lower() == "authorization" and s["value"]]
                self._authorization = found[0].strip() if found else None
            return self._authorization

    def connect(self, timeout: float) -> connection.LeanConnection:
        """A connection of one's own, open. Raises urllib3's errors, and OSError."""
        made = self.pool._new_conn()
        assert isinstance(made, connection.LeanConnection)
        made.timeout = timeout
        try:
            if self.pool.proxy is not None:
                self.pool._prepare_proxy(made)
            else:
                made.connect()
        except BaseException:
            made.close()
            raise
        return made

    def close(self) -> None:
        self._manager.clear()


class Access:
    """A cluster and our identity in it. `load` reads the configuration, now and whenever the server refuses us."""

    def __init__(
        self, load: Callable[[], Configuration], *, connections: int = 32, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._load = load
        self._connections = connections
        self._clock = clock
        self._lock = threading.Lock()
        self._session = self._open()

    @property
    def session(self) -> Session:
        return self._session

    def renew(self, refused: Session) -> bool:
        """Called after a 401 with the session used: is there now a newer one to try with?"""
        with self._lock:
            if self._session is not refused:
                return True
            if self._clock() - self._loaded_at < RELOAD_SECONDS:
                return False
            self._session = self._open()
            return True

    def close(self) -> None:
        self._session.close()

    def _open(self) -> Session:
        self._loaded_at = self._clock()
        return Session(self._load(), self._connections, self._clock)


def from_kubeconfig(path: str | None = None, context: str | None = None) -> Configuration:
    """The configuration of a kubeconfig (default: `$KUBECONFIG`, then `~/.kube/config`) in its current or this context.

    Several files may be given with `:` between them, as kubectl takes them.
    """
    import yaml
    from kubernetes import client, config

    file = path or os.environ.get("KUBECONFIG") or "~/.kube/config"
    load: Any = config.load_kube_config
    settings = client.Configuration()
    try:
        load(file, context, settings, persist_config=False)
    except (config.ConfigException, yaml.YAMLError, OSError, ValueError, TypeError) as error:
        raise NotConfigured(f"the kubeconfig {file} cannot be used: {' '.join(str(error).split())}") from error
    return settings


def in_cluster() -> Configuration:
    """The configuration of the pod's service account; its token is read again every minute."""
    from kubernetes import client, config

    load: Any = config.load_incluster_config
    settings = client.Configuration()
    try:
        load(settings)
    except (config.ConfigException, OSError) as error:
        raise NotConfigured(f"there is no service account to use: {error}") from error
    return settings


def find(kubeconfig: str | None = None, context: str | None = None) -> Configuration:
    """An explicit kubeconfig, else `$KUBECONFIG`, else the service account we run under, else `~/.kube/config`."""
    explicit = kubeconfig or os.environ.get("KUBECONFIG")
    if not explicit and os.environ.get("KUBERNETES_SERVICE_HOST"):
        return in_cluster()
    if not explicit and not os.path.exists(os.path.expanduser("~/.kube/config")):
        raise NotConfigured("no cluster is configured: give --kubeconfig, set KUBECONFIG, or run inside a pod")
    return from_kubeconfig(explicit, context)
