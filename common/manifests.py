"""Reading manifests as people and kubectl write them: multi-document YAML or JSON, Lists, standard input."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import IO, TYPE_CHECKING, Any, TypeVar

import yaml

from kubenexus.common.cli import CommandError

Obj = dict[str, Any]
T = TypeVar("T")

if TYPE_CHECKING:
    _Base = yaml.SafeLoader
else:
    # The C loader is ten times as fast; it is missing where PyYAML was built without libyaml.
    _Base = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(_Base):
    """As Kubernetes reads YAML: times and dates are text."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in _Base.yaml_implicit_resolvers.items()
}


def read_text(name: str) -> str:
    """The text of a file; `-` is standard input."""
    with _opened(name) as source:
        return _attempt(name, source.read)


def read_lines(name: str) -> Iterator[str]:
    """The lines of a file, each as soon as it is there."""
    with _opened(name) as source:
        while line := _attempt(name, source.readline):
            yield line


def read_objects(names: Sequence[str]) -> Iterator[Obj]:
    """The Kubernetes objects of some files, in their order."""
    for name in names:
        yield from flatten(_documents(name, read_text(name)), name)


def flatten(documents: Iterable[Any], place: str) -> Iterator[Obj]:
    """Objects, with Lists taken apart and empty documents left out; `place` is where they stand, for errors."""
    for document in documents:
        if document is None:
            continue
        if not isinstance(document, dict) or not isinstance(document.get("kind"), str) or not document["kind"]:
            raise CommandError(f"{place} has a document without a kind; each must be a Kubernetes object.")
        if document["kind"].endswith("List") and isinstance(document.get("items"), list):
            yield from flatten(_items(document), place)
        else:
            yield document


def _items(document: Obj) -> Iterator[Any]:
    """kubectl's List names the kind in each item, an API server's PodList does not."""
    kind = document["kind"].removesuffix("List")
    typed = {"apiVersion": document.get("apiVersion"), "kind": kind} if kind else {}
    return ({**typed, **item} if isinstance(item, dict) else item for item in document["items"])


def _opened(name: str) -> AbstractContextManager[IO[str]]:
    """The file, to be closed; standard input is not ours to close."""
    return nullcontext(sys.stdin) if name == "-" else _attempt(name, lambda: open(name, encoding="utf-8"))


def _attempt(name: str, action: Callable[[], T]) -> T:
    try:
        return action()
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"{name} cannot be read: {getattr(error, 'strerror', None) or error}.") from None


def _documents(name: str, text: str) -> list[Any]:
    if text.lstrip().startswith("{"):
        with suppress(json.JSONDecodeError):  # YAML may begin with a brace, too
            return list(_json_documents(text))
    try:
        return list(yaml.load_all(text, Loader=_Loader))
    except yaml.YAMLError as error:
        raise CommandError(f"{name} is neither YAML nor JSON: {' '.join(str(error).split())}.") from None


def _json_documents(text: str) -> Iterator[Any]:
    """JSON documents one after the other; YAML would read them too, but slowly."""
    decoder, at = json.JSONDecoder(), 0
    while at < len(text) and (at := len(text) - len(text[at:].lstrip())) < len(text):
        document, at = decoder.raw_decode(text, at)
        yield document
