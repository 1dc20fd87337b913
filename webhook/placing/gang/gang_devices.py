"""The devices of a gang's members near their CPUs and memory, for an answer that assumes nothing.

1. Member by member, in order of rank, the claims get devices on the NUMA nodes that the search gave, beside those of
   the members before.
2. If a member's devices are near other NUMA nodes only, the gang is searched for again without that node,
   `MOST_SEARCHES` at most. The first such member says why the gang waits.

The leader goes the same way with members that it assumes (see `gated_gang`), and then knows their exact amounts.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple, TypeVar

from webhook.engine.dra.aligned_devices import Place
from webhook.engine.gang.result import PodAssignment
from webhook.engine.snapshot.node_arrays import NodeArrays
from webhook.formats.dra import Result
from webhook.placing.pod import placement_text
from webhook.placing.pod.assignment import NoAssignment
from webhook.placing.pod.claim_alignment import Aligned, Claimant, DelegatedToScheduler, DevicesApart, align_there
from webhook.placing.pod.wait_reason import WaitReason

MOST_SEARCHES: Final = 4
"""A search takes some milliseconds, for a gang of hundreds. Where devices are free near one NUMA node only, they
usually are on most nodes: more searches would find the same.
"""

Found = TypeVar("Found")
Members = Iterable[tuple[PodAssignment, Claimant | None]]
"""The members by rank. None: one without claims."""


class GangDevices(NamedTuple):
    """What becomes of the devices of a gang's members."""

    apart: NoAssignment | None = None
    """Why it waits; None: nothing keeps it."""
    note: str = ""
    """Why devices of members are left to the scheduler; empty: they are not."""


def devices_apart(gang: str, pod: PodAssignment, alignment: DevicesApart) -> NoAssignment:
    """Why a gang waits one of whose members has no devices near its CPUs. gang: the beginning of the text."""
    text = placement_text.shortened(f"{gang}: there is room, but for {pod.name} {alignment.text}")
    kind = frozenset({WaitReason.DEVICES_APART})
    return NoAssignment(kind, placement_text.waiting(text), WaitReason.DEVICES_APART, apart_on=pod.node)


def gang_devices(gang: str, members: Members, arrays: NodeArrays) -> GangDevices:
    """What becomes of the devices of members that go to these nodes together. gang: the beginning of a text."""
    taken = defaultdict[str, list[Result]](list)
    allocated, note = set[str](), ""
    for pod, claimant in members:
        # Who names the claim of an earlier member uses the same devices.
        if claimant is None or not allocated.isdisjoint(one.key for one in claimant.claims.claims if one.uid):
            continue
        alignment = align_there(claimant, Place(pod.node, pod.numa_nodes), arrays, taken[pod.node])
        match alignment:
            case DevicesApart():
                return GangDevices(devices_apart(gang, pod, alignment))
            case DelegatedToScheduler():
                note = note or (f"{pod.name} is {alignment.text}" if alignment.text else "")
            case Aligned():
                taken[pod.node] += (one for each in alignment.devices for one in each.results)
                allocated |= {one.key for one in claimant.claims.claims}
    return GangDevices(note=note)


def with_devices(
    search: Callable[[frozenset[str]], tuple[Found, GangDevices | None]],
) -> tuple[Found, GangDevices | None]:
    """The first search in which the devices are near, else the first of all.

    search: with the names of nodes to leave out; its devices are None if the gang is not placed.
    """
    closed = frozenset[str]()
    first = found = search(closed)
    for _ in range(MOST_SEARCHES - 1):
        if found[1] is None or found[1].apart is None:
            break
        closed |= {found[1].apart.apart_on}
        found = search(closed)
    return found if found[1] is not None and found[1].apart is None else first
