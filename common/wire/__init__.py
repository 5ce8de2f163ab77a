"""The one codec of node topologies: NodeTopology ↔ Node labels, Node annotation, ResourceSlices.

The agent encodes, the scheduler reads; neither spells a format out anywhere else.
"""

from kubenexus.common.wire.allocations import Allocations, Given, decode_allocations, encode_allocations
from kubenexus.common.wire.annotation import canonical_json, decode_annotation, encode_annotation, topology_hash
from kubenexus.common.wire.facts import GPU, KINDS, NIC, NUMA, Kind, MangledError
from kubenexus.common.wire.kubelet import UNTOLD, KubeletSettings, decode_kubelet, encode_kubelet
from kubenexus.common.wire.labels import decode_labels, encode_labels, model_name
from kubenexus.common.wire.reading import Reading, read_slice, read_topology
from kubenexus.common.wire.slices import SlicePart, decode_slice, encode_slices, slice_name

__all__ = [
    "GPU",
    "KINDS",
    "NIC",
    "NUMA",
    "UNTOLD",
    "Allocations",
    "Given",
    "Kind",
    "KubeletSettings",
    "MangledError",
    "Reading",
    "SlicePart",
    "canonical_json",
    "decode_allocations",
    "decode_annotation",
    "decode_kubelet",
    "decode_labels",
    "decode_slice",
    "encode_allocations",
    "encode_annotation",
    "encode_kubelet",
    "encode_labels",
    "encode_slices",
    "model_name",
    "read_slice",
    "read_topology",
    "slice_name",
    "topology_hash",
]
