"""Which of a kubelet's resource managers are on, inferred from what its NodeResourceTopology lists.

No exporter publishes this; they publish what the kubelet's podresources API calls allocatable:
1. The CPU manager's policy none has no CPUs to allocate. So each NUMA node lists cpu with allocatable 0, or, beside
   devices, no cpu. The policy static always has some, because a kubelet never reserves all its CPUs.
2. The memory manager's policy None has no memory to allocate, huge pages included. The policy Static has some.
3. The device manager is always on. It gives NUMA hints for the devices that NUMA nodes list.

"Allocatable 0" of a manager that is off means "not aligned", never "no room". Koordlet publishes totals instead, and
the CPU manager's policy in an annotation.
Source: kubernetes pkg/kubelet/cm/{cpumanager,memorymanager}/policy_{none,static}.go (GetAllocatableCPUs,
GetAllocatableMemory); node-feature-discovery pkg/resourcemonitor and resource-topology-exporter (Aggregate).
"""

from collections.abc import Collection, Mapping
from enum import StrEnum
from functools import lru_cache
from typing import Final

from webhook.model.resources import CPU, MEMORY, format_amount, is_hugepages
from webhook.records import record


class ManagerPolicy(StrEnum):
    """Whether a manager gives pods resources of particular NUMA nodes."""

    STATIC = "Static"
    NONE = "None"
    UNKNOWN = "Unknown"


class Evidence(StrEnum):
    """What shows a manager's policy."""

    ALLOCATABLE = "Allocatable"
    """NUMA nodes list some of its resources as allocatable."""
    NOTHING_ALLOCATABLE = "NothingAllocatable"
    """NUMA nodes list its resources, and nothing of them is allocatable."""
    NOT_LISTED = "NotListed"
    """No NUMA node lists its resources, although some list others."""
    KOORDLET = "Koordlet"
    """Koordlet's annotation `kubelet.koordinator.sh/cpu-manager-policy`, or that it publishes totals."""
    NOTHING = "Nothing"
    """No NUMA node lists anything."""


@record
class Manager:
    """One manager. Amounts: the sum over the NUMA nodes, in engine units; for memory with all huge pages."""

    resource: str
    policy: ManagerPolicy = ManagerPolicy.UNKNOWN
    evidence: Evidence = Evidence.NOTHING
    allocatable: int = 0
    capacity: int = 0

    def sentence(self) -> str:
        """The policy and its evidence, for people."""
        return f"{self.policy.lower()} ({self._evidence()})"

    def _evidence(self) -> str:
        of = format_amount(self.resource, self.capacity)
        match self.evidence:
            case Evidence.ALLOCATABLE:
                some = format_amount(self.resource, self.allocatable)
                return f"its NUMA nodes list {some} {self.resource} as allocatable"
            case Evidence.NOTHING_ALLOCATABLE:
                return f"its NUMA nodes list {of} {self.resource}, nothing of it as allocatable"
            case Evidence.NOT_LISTED:
                return f"no NUMA node lists {self.resource}"
            case Evidence.KOORDLET:
                return (
                    "koordlet reports it" if self.policy is not ManagerPolicy.UNKNOWN else "koordlet publishes totals"
                )
            case Evidence.NOTHING:
                return "no NUMA node lists anything"


@record
class Managers:
    """A kubelet's managers that may be off."""

    cpu: Manager = Manager(CPU)
    memory: Manager = Manager(MEMORY)

    def align(self, resource: str) -> bool:
        """Whether the amounts that NUMA nodes list of the resource are there to be allocated, by whatever agent."""
        manager = self.of(resource)
        return manager is None or manager.policy is not ManagerPolicy.NONE or manager.evidence is Evidence.KOORDLET

    def of(self, resource: str) -> Manager | None:
        """The manager of a resource; None: the device manager."""
        if resource == CPU:
            return self.cpu
        return self.memory if resource == MEMORY or is_hugepages(resource) else None


UNKNOWN_MANAGERS: Final = Managers()


def infer(zones: Collection[Mapping[str, tuple[int, int, int]]]) -> Managers:
    """The managers behind NUMA nodes that list these resources: capacity, allocatable and available of each."""
    if not any(zones):
        return UNKNOWN_MANAGERS
    sums = {CPU: [0, 0, 0], MEMORY: [0, 0, 0]}  # how many list it, capacity, allocatable
    for zone in zones:
        for name, (capacity, allocatable, available) in zone.items():
            kind = sums.get(MEMORY if is_hugepages(name) else name)
            if kind is not None:
                kind[0] += 1
                kind[1] += capacity
                # More available than allocatable is inconsistent, but not nothing.
                kind[2] += max(allocatable, available)
    return _managers(*(_manager(name, *amounts) for name, amounts in sums.items()))


def of_koordlet(cpu_policy: str) -> Managers:
    """The managers behind koordlet's NodeResourceTopology. cpu_policy: as its annotation names it."""
    policy = _KOORDLET_POLICIES.get(cpu_policy, ManagerPolicy.UNKNOWN)
    return _managers(Manager(CPU, policy, Evidence.KOORDLET), Manager(MEMORY, evidence=Evidence.KOORDLET))


_KOORDLET_POLICIES: Final = {"static": ManagerPolicy.STATIC, "none": ManagerPolicy.NONE}


def _manager(resource: str, listing: int, capacity: int, allocatable: int) -> Manager:
    if allocatable:
        return Manager(resource, ManagerPolicy.STATIC, Evidence.ALLOCATABLE, allocatable, capacity)
    evidence = Evidence.NOTHING_ALLOCATABLE if listing else Evidence.NOT_LISTED
    return Manager(resource, ManagerPolicy.NONE, evidence, 0, capacity)


# Machines of one pool have equal managers.
_managers = lru_cache(maxsize=1024)(Managers)
