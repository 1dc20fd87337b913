"""The NUMA nodes on which KAI-Scheduler's NUMA placement exporter sees a pod.

    kai.scheduler/numa-placement-observed: [{"zone":"node-0","amount":{"nvidia.com/gpu":"2","cpu":"8"}}]

A DaemonSet reads them from the kubelet's pod resources API and writes them into each pod that has something
exclusively: CPUs, NUMA memory, devices with one NUMA node. Init containers are not listed there. A zone has the name
that it has in the NodeResourceTopology.

Any user who can update the pod can write the annotation, too: see `webhook.state.assumed.observed_placement`.

Source: KAI-Scheduler pkg/npe (consts, placement, exporter.go), pkg/apis/scheduling/v1alpha2/numa_placement_types.go.
"""

from functools import lru_cache
from typing import Final

from webhook.codec import loads
from webhook.formats.koordinator.numa_allocation import NUMANodeAmounts
from webhook.formats.nrt import numa_id_of
from webhook.model.errors import UserError
from webhook.model.resources import parse_list
from webhook.model.wording import MAX_ZONES

UNREADABLE: Final[NUMANodeAmounts] = ()

# 16 NUMA nodes with a few resources each. All that an exporter writes is shorter.
_LONGEST: Final = 8_192
# As for allocations: each takes up to 2 KiB.
_REMEMBERED_CHARACTERS: Final = 512


def parse_observed(text: str) -> NUMANodeAmounts:
    """The NUMA nodes in the annotation, by id; `UNREADABLE` if it does not name at least one as KAI does."""
    if len(text) > _LONGEST:
        return UNREADABLE
    return _remembered(text) if len(text) <= _REMEMBERED_CHARACTERS else _observed(text)


def _observed(text: str) -> NUMANodeAmounts:
    try:
        zones = loads(text.encode())
    except ValueError:
        return UNREADABLE
    if not isinstance(zones, list) or len(zones) > MAX_ZONES:
        return UNREADABLE
    found = {}
    for zone in zones:
        name = zone.get("zone") if isinstance(zone, dict) else None
        numa_id = numa_id_of(name) if isinstance(name, str) else None
        if numa_id is None or numa_id in found:
            return UNREADABLE
        try:
            amounts = parse_list(zone.get("amount"), "amount")
        except UserError:
            return UNREADABLE
        if not any(amounts.values()):
            return UNREADABLE
        found[numa_id] = amounts
    return tuple(sorted(found.items()))


# Equal pods have equal placements; each pod's is read at each of its events.
_remembered = lru_cache(maxsize=4096)(_observed)
