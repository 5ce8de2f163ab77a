"""CPUs: which are online, and how packages, dies, clusters, cores, threads and L3 caches group them.

Our own cpuset never enters: everything is read from the machine's files, nothing from the process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from kubenexus.agent.discovery.files import Files

CPU = "sys/devices/system/cpu"


@dataclass(frozen=True, slots=True)
class Cpus:
    """The online CPUs; none at all means that nobody knows them, for this one runs on one.

    Package ids are the kernel's and arbitrary; a CPU whose package is unknown is not in the map.
    """

    online: tuple[int, ...]
    package: dict[int, int]
    threads_per_core: int | None
    l3: tuple[tuple[int, ...], ...]
    dies: tuple[tuple[int, ...], ...] = ()
    clusters: tuple[tuple[int, ...], ...] = ()

    def usable(self, cpus: Iterable[int]) -> tuple[int, ...]:
        """Those of these CPUs that are online."""
        return tuple(sorted(set(cpus).intersection(self.online) if self.online else cpus))

    def l3_count(self, cpus: Iterable[int]) -> int | None:
        """L3 domains that these CPUs are part of. One may span NUMA nodes, and a node may have several."""
        return _touched(self.l3, cpus)

    def die_count(self, cpus: Iterable[int]) -> int | None:
        return _touched(self.dies, cpus)

    def cluster_count(self, cpus: Iterable[int]) -> int | None:
        return _touched(self.clusters, cpus)

    def package_of(self, cpus: Iterable[int]) -> int | None:
        """The package that all of these CPUs are in, if it is one."""
        packages = {self.package.get(cpu) for cpu in cpus}
        return packages.pop() if len(packages) == 1 else None


def _touched(domains: Iterable[tuple[int, ...]], cpus: Iterable[int]) -> int | None:
    """How many of the domains have one of these CPUs."""
    wanted = set(cpus)
    return sum(1 for domain in domains if wanted.intersection(domain)) or None


def read_cpus(files: Files) -> Cpus:
    online = _online(files)
    siblings = (_siblings(files, cpu) for cpu in online)
    packages = ((cpu, files.number(f"{CPU}/cpu{cpu}/topology/physical_package_id")) for cpu in online)
    return Cpus(
        online=online,
        package={cpu: package for cpu, package in packages if package is not None},
        threads_per_core=max((len(set(online).intersection(group)) for group in siblings if group), default=0) or None,
        l3=_domains(online, lambda cpu: _l3_of(files, cpu)),
        dies=_domains(online, lambda cpu: _group_of(files, cpu, "die")),
        clusters=_domains(online, lambda cpu: _group_of(files, cpu, "cluster")),
    )


def _online(files: Files) -> tuple[int, ...]:
    """The kernel's list, or each CPU's own flag; a CPU without a flag cannot be taken offline."""
    listed = files.cpus(f"{CPU}/online")
    present = dict(files.numbered(CPU, "cpu"))
    if listed:
        return tuple(cpu for cpu in listed if cpu in present) if present else listed
    return tuple(number for number, path in present.items() if files.number(f"{path}/online") != 0)


def _siblings(files: Files, cpu: int) -> tuple[int, ...] | None:
    topology = f"{CPU}/cpu{cpu}/topology"
    for name in ("core_cpus", "thread_siblings"):  # the second is the older name
        found = files.cpus(f"{topology}/{name}_list") or files.cpumap(f"{topology}/{name}")
        if found:
            return found
    return None


def _domains(online: tuple[int, ...], around: Callable[[int], tuple[int, ...] | None]) -> tuple[tuple[int, ...], ...]:
    """The online CPUs in groups; `around` gives the group that a CPU says it is in, itself left out or not."""
    domains: list[tuple[int, ...]] = []
    left = set(online)
    for cpu in online:
        shared = around(cpu) if cpu in left else None
        if shared:
            domains.append(tuple(sorted(left.intersection({cpu, *shared}))))
            left.difference_update(shared)
    return tuple(domains)


def _group_of(files: Files, cpu: int, name: str) -> tuple[int, ...] | None:
    """The CPUs of a CPU's die or cluster. Without an id (-1, or 65535 on x86) the kernel makes a group of each CPU."""
    topology = f"{CPU}/cpu{cpu}/topology"
    known = files.number(f"{topology}/{name}_id")
    return None if known is None or known == 0xFFFF else files.cpus(f"{topology}/{name}_cpus_list")


def _l3_of(files: Files, cpu: int) -> tuple[int, ...] | None:
    for _, index in files.numbered(f"{CPU}/cpu{cpu}/cache", "index"):
        if files.number(f"{index}/level") == 3:
            return files.cpus(f"{index}/shared_cpu_list") or files.cpumap(f"{index}/shared_cpu_map")
    return None
