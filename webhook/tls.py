"""TLS of the webhook: the certificate on disk becomes what is served, as soon as it changes and without a restart.

gunicorn asks for a context for each connection. Making one costs more than a handshake, so it is kept until the files
are other files: a Secret that the kubelet swaps, or one that `rotation` writes anew.
"""

from __future__ import annotations

import contextlib
import errno
import math
import os
import socket
import ssl
import tempfile
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

from cryptography import x509

from kubenexus.common import logs

log = logs.get(__name__)

REQUEST_SECONDS: Final = 5.0
"""from the first byte of a request, or of a handshake, to the last of its answer; the API server waits for two"""
FAREWELL_SECONDS: Final = 0.05


class TimedSocket(ssl.SSLSocket):
    """A connection on which each request must be over in time, whatever pauses its sender makes.

    gunicorn makes a socket blocking when it turns to a request, and again not blocking when that is over.
    """

    _deadline = math.inf

    def setblocking(self, flag: bool, /) -> None:
        if flag:
            self._deadline = time.monotonic() + REQUEST_SECONDS
            self.settimeout(REQUEST_SECONDS)
        else:
            super().setblocking(False)

    def do_handshake(self, block: bool = False) -> None:
        self.setblocking(True)
        with self._in_time():
            super().do_handshake(block)

    def recv(self, buflen: int = 1024, flags: int = 0) -> bytes:
        with self._in_time():
            return super().recv(buflen, flags)

    def send(self, data: Any, flags: int = 0) -> int:
        with self._in_time():
            return super().send(data, flags)

    def shutdown(self, how: int) -> None:
        """What gunicorn still reads after this is for the client's sake, and a thread waits for it."""
        super().shutdown(how)
        self._deadline = time.monotonic() + FAREWELL_SECONDS

    @contextlib.contextmanager
    def _in_time(self) -> Iterator[None]:
        """Wait no longer than is left; gunicorn may want to wait for even less."""
        wanted, left = self.gettimeout(), self._deadline - time.monotonic()
        if wanted == 0.0 or left == math.inf:
            yield
            return
        try:
            if left <= 0:
                raise TimeoutError
            self.settimeout(left if wanted is None else min(wanted, left))
            yield
        except TimeoutError:
            with contextlib.suppress(OSError):
                super().shutdown(socket.SHUT_RDWR)
            # As if the client had hung up, of which gunicorn makes no fuss: it is not worth a trace in the log.
            raise ConnectionResetError(errno.ECONNRESET, "the client took too long") from None


class Files(NamedTuple):
    """Where the certificate and its key lie. The names are those of a Secret of type kubernetes.io/tls."""

    certificate: Path
    key: Path

    @classmethod
    def of(cls, folder: Path) -> Files:
        return cls(folder / "tls.crt", folder / "tls.key")

    def write(self, certificate: bytes, key: bytes) -> None:
        """Replace both. In between they do not fit together, which a reader notices."""
        for path, content in ((self.key, key), (self.certificate, certificate)):
            handle, name = tempfile.mkstemp(dir=path.parent)  # for nobody else to read
            with os.fdopen(handle, "wb") as file:
                file.write(content)
            os.replace(name, path)

    def identity(self) -> tuple[int, ...]:
        """What changes when one of the files is another one; OSError while one is missing."""
        found = [os.stat(path) for path in self]
        return tuple(number for one in found for number in (one.st_dev, one.st_ino, one.st_mtime_ns))


class Served(NamedTuple):
    """What new connections get, and from which files."""

    identity: tuple[int, ...]
    context: ssl.SSLContext
    ends: datetime


class Tls:
    """The context for the next connection. For any thread: who loses a race makes an equal context."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._served: Served | None = None
        self._refused: tuple[tuple[int, ...], str] = ((), "")

    def context(self) -> ssl.SSLContext:
        """What to serve now: the files as they are, or what was served before while they cannot be used."""
        return self._current().context

    def seconds_left(self, now: datetime) -> float:
        """Until the certificate that is served ends; negative once it has."""
        return (self._current().ends - now).total_seconds()

    def check(self, now: datetime) -> str | None:
        """For /readyz: why what is served is not what lies on the disk, or is not valid."""
        try:
            served, on_disk = self._current(), self._files.identity()
        except (OSError, ValueError) as error:
            return f"the certificate in {self._files.certificate.parent} cannot be used: {error}"
        if served.identity != on_disk:
            return f"the certificate on disk is not the one that is served: {self._refused[1] or 'it just changed'}"
        return None if now < served.ends else f"the certificate ended at {served.ends:%Y-%m-%d %H:%M} UTC: renew it"

    def _current(self) -> Served:
        served = self._served
        identity = self._files.identity() if served is None else self._identity_or(served.identity)
        if served is None or identity not in (served.identity, self._refused[0]):
            self._served = served = self._loaded(identity) or served
        assert served is not None, "the first one is loaded, or that raises"
        return served

    def _identity_or(self, known: tuple[int, ...]) -> tuple[int, ...]:
        """Of the files; the known one while some are missing."""
        try:
            return self._files.identity()
        except OSError:
            return known

    def _loaded(self, identity: tuple[int, ...]) -> Served | None:
        """What is in the files; None if that cannot be served while something else can."""
        try:
            return self._load(identity)
        except (OSError, ValueError) as error:
            if self._served is None:
                raise
            self._refused = (identity, str(error))
            log.warning("the certificate on disk cannot be used, so the one before is served", error=error)
            return None

    def _load(self, identity: tuple[int, ...]) -> Served:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.sslsocket_class = TimedSocket
        context.load_cert_chain(*self._files)
        leaf, *_ = x509.load_pem_x509_certificates(self._files.certificate.read_bytes())
        log.info("serving a certificate", ends=leaf.not_valid_after_utc, serial=f"{leaf.serial_number:x}")
        return Served(identity, context, leaf.not_valid_after_utc)
