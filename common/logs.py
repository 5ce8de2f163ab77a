"""Logs for machines or for people: a fixed sentence plus key-values, never data inside the sentence.

    log = logs.get(__name__)
    log.info("pod bound", pod="default/web-0", node="n1")

`context(**fields)` adds fields to every line that the current thread or task writes inside it.
"""

from __future__ import annotations

import contextlib
import json
import logging
import sys
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any, Literal, TextIO

_context: ContextVar[Mapping[str, Any]] = ContextVar("log_fields", default={})  # noqa: B039 (never changed in place)


class Logger:
    """Writes sentences with fields. A field of the call wins over one of the context."""

    def __init__(self, name: str) -> None:
        self._logger = logging.getLogger(name)

    def debug(self, sentence: str, /, **fields: Any) -> None:
        self._write(logging.DEBUG, sentence, fields)

    def info(self, sentence: str, /, **fields: Any) -> None:
        self._write(logging.INFO, sentence, fields)

    def warning(self, sentence: str, /, **fields: Any) -> None:
        self._write(logging.WARNING, sentence, fields)

    def error(self, sentence: str, /, **fields: Any) -> None:
        self._write(logging.ERROR, sentence, fields)

    def exception(self, sentence: str, /, **fields: Any) -> None:
        """As `error`, with the traceback of the exception being handled."""
        self._write(logging.ERROR, sentence, fields, trace=True)

    def _write(self, level: int, sentence: str, fields: Mapping[str, Any], trace: bool = False) -> None:
        if self._logger.isEnabledFor(level):
            extra = {"fields": {**_context.get(), **fields}}
            # A sentence is never a format: as the argument it may hold any character.
            self._logger.log(level, "%s", sentence, extra=extra, exc_info=trace)


def get(name: str) -> Logger:
    """The logger of a module; pass `__name__`."""
    return Logger(name)


@contextlib.contextmanager
def context(**fields: Any) -> Iterator[None]:
    """Add fields to every line written inside."""
    token = _context.set({**_context.get(), **fields})
    try:
        yield
    finally:
        _context.reset(token)


def configure(
    form: Literal["json", "text"] = "json", level: int | str = logging.INFO, stream: TextIO | None = None
) -> None:
    """Send all logging of the process, other libraries' too, to `stream` (stderr) in this form; again to change."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter() if form == "json" else TextFormatter())
    logging.basicConfig(level=level, handlers=[handler], force=True)


class JsonFormatter(logging.Formatter):
    """One JSON object a line: time, level, logger, message, then the fields; what JSON cannot say becomes text."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **{key: value for key, value in _fields(record).items() if key not in _RESERVED},
        }
        if record.exc_info:
            line["trace"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str, skipkeys=True)


class TextFormatter(logging.Formatter):
    """`12:00:00.000 INFO  pod bound  pod=default/web-0 node=n1`"""

    def format(self, record: logging.LogRecord) -> str:
        pairs = "".join(f" {key}={_quoted(value)}" for key, value in _fields(record).items())
        line = f"{_time(record)[11:23]} {record.levelname:<7} {record.getMessage()}{pairs and ' ' + pairs}"
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


_RESERVED = frozenset(("time", "level", "logger", "message"))


def _fields(record: logging.LogRecord) -> Mapping[str, Any]:
    fields: Mapping[str, Any] = getattr(record, "fields", {})
    return fields


def _time(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _quoted(value: Any) -> str:
    text = str(value)
    return text if text and text.isprintable() and not set(text) & set(' "=') else repr(text)
