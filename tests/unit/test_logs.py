"""Log lines: fixed sentences and fields, as JSON or text."""

from __future__ import annotations

import io
import json
import logging
import threading
from collections.abc import Iterator

import pytest

from kubenexus.common import logs
from kubenexus.common.kube.resources import PODS

log = logs.get("kubenexus.test")


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    root.handlers = []
    yield io.StringIO()
    for handler in root.handlers:
        handler.close()
    root.handlers, root.level = handlers, level


def test_json_lines(stream: io.StringIO) -> None:
    logs.configure("json", stream=stream)
    log.info("pod bound", pod="default/web-0", gpus=[0, 1], resource=PODS, level="hidden")
    line = json.loads(stream.getvalue())
    assert line.pop("time").endswith("Z")
    assert line == {
        "level": "info",
        "logger": "kubenexus.test",
        "message": "pod bound",
        "pod": "default/web-0",
        "gpus": [0, 1],
        "resource": "pods",
    }


def test_text_lines(stream: io.StringIO) -> None:
    logs.configure("text", stream=stream)
    log.warning("bind refused", pod="a", reason='it said "no"', gpus=[0, 1], empty="", lines="a\nb")
    text = stream.getvalue().split(" ", 1)[1]
    assert text == """WARNING bind refused  pod=a reason='it said "no"' gpus='[0, 1]' empty='' lines='a\\nb'\n"""


def test_a_sentence_without_fields(stream: io.StringIO) -> None:
    logs.configure("text", stream=stream)
    log.info("100% done")
    assert stream.getvalue().endswith("INFO    100% done\n")


def test_context_adds_fields_inside_and_only_there(stream: io.StringIO) -> None:
    logs.configure("json", stream=stream)
    with logs.context(cycle=7, pod="a"), logs.context(node="n"):
        log.info("placed", pod="b")
        other = threading.Thread(target=lambda: log.info("elsewhere"))
        other.start()
        other.join()
    log.info("after")
    placed, elsewhere, after = map(json.loads, stream.getvalue().splitlines())
    assert (placed["cycle"], placed["pod"], placed["node"]) == (7, "b", "n")
    assert not {"cycle", "pod", "node"} & (elsewhere.keys() | after.keys())


def test_levels_and_other_libraries(stream: io.StringIO) -> None:
    logs.configure("json", level="WARNING", stream=stream)
    log.info("not written")
    log.debug("nor this")
    logging.getLogger("urllib3").warning("pool of %s is full", "x")
    (line,) = map(json.loads, stream.getvalue().splitlines())
    assert (line["logger"], line["message"]) == ("urllib3", "pool of x is full")


@pytest.mark.parametrize("form", ["json", "text"])
def test_exceptions_carry_their_trace(stream: io.StringIO, form: str) -> None:
    logs.configure("json" if form == "json" else "text", stream=stream)
    try:
        raise ValueError("broken")
    except ValueError:
        log.exception("cycle failed", cycle=3)
    assert "cycle failed" in stream.getvalue()
    assert "ValueError: broken" in stream.getvalue()
    assert len(stream.getvalue().splitlines()) == 1 or form == "text"


def test_what_json_cannot_say_becomes_text(stream: io.StringIO) -> None:
    logs.configure("json", stream=stream)
    log.error("odd", error=ValueError("x"), big=2**70, keys={1: {2, 3}}, text="\ud800")
    line = json.loads(stream.getvalue())
    assert line["keys"] == {"1": "{2, 3}"}
    assert (line["error"], line["big"], line["text"]) == ("x", 2**70, "\ud800")
