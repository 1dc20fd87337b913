"""Koordinator's Reservations (`scheduling.koordinator.sh/v1alpha1`): what one still holds on its node.

1. A Reservation holds resources on `status.nodeName` in the phases Available and Waiting. In the others it holds none.
2. It holds `status.allocatable` less `status.allocated`: what its owners have taken counts with their own pods.
3. The annotation `resource-status` on the Reservation says on which NUMA nodes, as on a pod. Which of them its owners
   have taken from is not said, so each NUMA node keeps its whole amount, but no more than is held altogether.

Source: koordinator v1.7.0 apis/scheduling/v1alpha1/reservation_types.go, pkg/util/reservation (IsReservationActive),
pkg/scheduler/plugins/nodenumaresource (PreBindReservation).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Self

from webhook.formats.koordinator.numa_allocation import NUMANodeAmounts, parse_resource_status
from webhook.model.errors import UserError
from webhook.model.fields import mapping
from webhook.model.names import RESOURCE_STATUS
from webhook.model.resources import parse_list

_ACTIVE: Final = ("Available", "Waiting")


@dataclass(frozen=True, slots=True)
class KoordinatorReservation:
    """One Reservation."""

    name: str
    node: str
    """Empty if it holds nothing."""
    held: Mapping[str, int]
    """Resource -> amount that no owner has taken, in engine units."""
    numa_nodes: NUMANodeAmounts = ()
    """What it was given of NUMA nodes; empty if that is unknown."""
    problems: tuple[str, ...] = field(default=(), compare=False)

    @classmethod
    def from_object(cls, raw: Mapping[str, Any]) -> Self:
        """Read a Reservation; raises UserError."""
        metadata, status = mapping(raw, "metadata", "metadata"), mapping(raw, "status", "status")
        name, node = str(metadata.get("name") or ""), status.get("nodeName")
        if status.get("phase") not in _ACTIVE or not isinstance(node, str) or not node:
            return cls(name, "", {})
        given = parse_list(status.get("allocatable"), "status.allocatable")
        taken = parse_list(status.get("allocated"), "status.allocated")
        left = {resource: amount - taken.get(resource, 0) for resource, amount in given.items()}
        held = {resource: amount for resource, amount in left.items() if amount > 0}
        numa_nodes: NUMANodeAmounts = ()
        problems: tuple[str, ...] = ()
        text = mapping(metadata, "annotations", "metadata.annotations").get(RESOURCE_STATUS)
        if isinstance(text, str) and text:
            try:
                numa_nodes = parse_resource_status(text)
            except UserError as error:
                problems = tuple(map(str, error.faults))  # then its NUMA nodes are unknown
        return cls(name, node if held else "", held, numa_nodes, problems)
