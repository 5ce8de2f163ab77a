"""Reading owners without trusting them: a field is there, absent (a default) or malformed (a sentence)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from kubenexus.common import vocabulary as v
from kubenexus.common.gangs.model import Obj, OwnerRef, Owners, controller_of

_INT32_MAX = 2**31 - 1


class DeclarationError(ValueError):
    """A declaration that cannot be used; the text is a sentence for its author."""


@dataclass(frozen=True, slots=True)
class View:
    """A JSON value and what to call it in a sentence."""

    value: Any
    what: str

    def at(self, path: str) -> Any:
        """What stands at a dotted path, None where it leads nowhere."""
        value = self.value
        for part in path.split("."):
            value = value.get(part) if isinstance(value, dict) else None
        return value

    def count(self, path: str, default: int) -> int:
        """A number of pods or of their makers, as Kubernetes' int32; null is absent."""
        value = self.at(path)
        if value is None:
            return default
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _INT32_MAX:
            return value
        raise DeclarationError(f"{self.what} has {path} {shown(value)}, which is no number of pods: correct it.")

    def text(self, path: str) -> str | None:
        value = self.at(path)
        return value if isinstance(value, str) else None

    def flag(self, path: str) -> bool:
        return self.at(path) is True

    def items(self, path: str) -> list[View]:
        """The objects in a list."""
        value = self.at(path)
        entries = value if isinstance(value, list) else []
        return [
            View(entry, f"{self.what} in {path}[{index}]")
            for index, entry in enumerate(entries)
            if isinstance(entry, dict)
        ]

    def entries(self, path: str) -> Iterator[tuple[str, View]]:
        """The names and objects in a map."""
        value = self.at(path)
        for name, entry in value.items() if isinstance(value, dict) else ():
            if isinstance(entry, dict):
                yield name, View(entry, f"{self.what} in {path}.{name}")


@dataclass(frozen=True, slots=True)
class Owner(View):
    """An object that was looked up, and the reference that led to it."""

    ref: OwnerRef

    @property
    def uid(self) -> str:
        return self.text("metadata.uid") or ""

    @property
    def controller(self) -> OwnerRef | None:
        return controller_of(self.value)

    def annotation(self, key: str) -> str | None:
        annotations = self.at("metadata.annotations")
        text = annotations.get(key) if isinstance(annotations, dict) else None
        return text if isinstance(text, str) else None


def look_up(owners: Owners, ref: OwnerRef, namespace: str) -> Owner | None:
    """The object that a reference means; one of the same name with another uid is a different object."""
    obj: Obj | None = owners.get(ref.api_version, ref.kind, namespace, ref.name, ref.uid)
    if not isinstance(obj, dict):
        return None
    owner = Owner(obj, str(ref), ref)
    return owner if ref.uid in ("", owner.uid) else None


def bounded(what: str, members: int) -> int:
    """A gang size: at least one; more than any cluster holds is a mistake."""
    if members > v.MAX_GANG_SIZE:
        raise DeclarationError(
            f"{what} makes a gang of {members}, above the limit of {v.MAX_GANG_SIZE}: make it smaller."
        )
    return max(1, members)


def shown(value: object) -> str:
    """A value in a sentence: short, whatever it is."""
    if isinstance(value, dict | list):
        return "that is not a plain value"
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "..."
