"""What the kubelet really gave to each pod, in terms of the topology: NUMA ids, GPU indices, exclusive CPUs. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from kubenexus.agent.podresources import PodResources
from kubenexus.common.topology import NodeTopology
from kubenexus.common.wire import Allocations, Given

GPU_RESOURCE = "nvidia.com/gpu"


def allocations(
    pods: Iterable[PodResources], topology: NodeTopology, uids: Mapping[tuple[str, str], str]
) -> Allocations:
    """What pods have to themselves, by uid. The kubelet names pods only; one whose uid is unknown goes by
    `namespace/name`."""
    found = (
        (uids.get((pod.namespace, pod.name), f"{pod.namespace}/{pod.name}"), _given(pod, topology)) for pod in pods
    )
    return {key: given for key, given in found if given.cpus or given.gpus or given.numa}


def pod_uids(folders: Iterable[str]) -> dict[tuple[str, str], str]:
    """(namespace, name) → uid from the names of the kubelet's log folders, `<namespace>_<name>_<uid>`.

    While a pod of the same name is being replaced there are two, and neither is taken.
    """
    found: dict[tuple[str, str], str] = {}
    twice = set()
    for folder in folders:
        namespace, _, rest = folder.partition("_")
        name, _, uid = rest.partition("_")
        if uid and found.setdefault((namespace, name), uid) != uid:
            twice.add((namespace, name))
    return {pod: uid for pod, uid in found.items() if pod not in twice}


def _given(pod: PodResources, topology: NodeTopology) -> Given:
    home = {cpu: node.id for node in topology.cpu_nodes for cpu in node.cpus or ()}
    gpus = sorted(set(_gpus(pod, topology)))
    seats = (topology.gpu(index) for index in gpus)
    numa = {*pod.numa, *(home[cpu] for cpu in pod.cpus if cpu in home)}
    numa |= {gpu.numa for gpu in seats if gpu and gpu.numa is not None}
    return Given(tuple(sorted(set(pod.cpus))), tuple(gpus), tuple(sorted(numa)))


def _gpus(pod: PodResources, topology: NodeTopology) -> Iterator[int]:
    by_uuid = {gpu.uuid: gpu.index for gpu in topology.gpus or () if gpu.uuid}
    for resource, device in pod.devices:
        if resource != GPU_RESOURCE:
            continue
        whole = device.partition("::")[0]  # A GPU that is shared in time has replicas, `<uuid>::<number>`.
        if whole in by_uuid:
            yield by_uuid[whole]
        elif whole.isascii() and whole.isdigit() and topology.gpu(int(whole[:6])):
            yield int(whole[:6])
