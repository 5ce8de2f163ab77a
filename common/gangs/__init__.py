"""Gang identity: which pods must be placed together. One resolver, for webhook and scheduler alike.

`resolve(PodFacts.from_json(pod), owners)` answers `Gang`, `Single`, `Waiting` (for an object not known yet) or
`Invalid` (a declaration that its author must correct); `combine` turns what the members say into one `Quorum`.
The rules and their reasons are in docs/decisions/0002-gang-identity.md.
"""

from kubenexus.common.gangs.dialects import declarations
from kubenexus.common.gangs.model import (
    Gang,
    GangKey,
    Invalid,
    OwnerRef,
    Owners,
    Phase,
    PodFacts,
    Quorum,
    Reservation,
    Resolution,
    Single,
    Waiting,
    combine,
    controller_of,
)
from kubenexus.common.gangs.owners import OWNER_RESOURCES, OwnerKey, OwnerStore, plural, trimmed
from kubenexus.common.gangs.resolve import ANNOTATIONS, OWNER_KINDS, Marks, marks, resolve

__all__ = [
    "ANNOTATIONS",
    "OWNER_KINDS",
    "OWNER_RESOURCES",
    "Gang",
    "GangKey",
    "Invalid",
    "Marks",
    "OwnerKey",
    "OwnerRef",
    "OwnerStore",
    "Owners",
    "Phase",
    "PodFacts",
    "Quorum",
    "Reservation",
    "Resolution",
    "Single",
    "Waiting",
    "combine",
    "controller_of",
    "declarations",
    "marks",
    "plural",
    "resolve",
    "trimmed",
]
