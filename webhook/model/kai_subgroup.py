"""A subgroup of a KAI-Scheduler PodGroup, with its topology constraint (see `webhook.model.kai_pod_group`)."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from webhook.model.errors import UserError
from webhook.model.json_text import shortened
from webhook.model.topology import Topology
from webhook.model.workload.topology_request import Levels

LEVELS: Final = ("requiredTopologyLevel", "preferredTopologyLevel")
"""The fields of a topology constraint that name levels."""


@dataclass(frozen=True, slots=True)
class SubGroup:
    """A subgroup, or the whole PodGroup."""

    name: str
    """Empty for the whole PodGroup."""
    minimum: int
    """How many of its pods start together: its own number, or the sum of the subgroups below."""
    path: str
    """The path of its topology constraint, for messages."""
    topology: str = ""
    required: str = ""
    preferred: str = ""
    parts: tuple["SubGroup", ...] = ()

    def resolve(self, topology: Topology) -> Levels:
        """Its levels in the topology. Raises UserError."""
        required, preferred = (
            topology.level(level, f"{self.path}.{key}") if level else None
            for level, key in zip((self.required, self.preferred), LEVELS, strict=True)
        )
        if required is not None and preferred is not None and preferred < required:
            raise UserError(
                f"{self.path}.{LEVELS[1]}",
                f'"{self.preferred}" is coarser than the required level "{self.required}". Prefer a finer one.',
            )
        return Levels(required, preferred)

    def all(self) -> Iterator["SubGroup"]:
        """Itself and all below."""
        yield self
        for part in self.parts:
            yield from part.all()


def check_topologies(part: SubGroup, above: str) -> None:
    """Raise UserError for a subgroup with another topology than one above it, the PodGroup itself left out."""
    if above and part.topology not in {"", above}:
        raise UserError(
            f"{part.path}.topology",
            f'"{shortened(part.topology)}" is another topology than "{shortened(above)}" of a subgroup above. Name the '
            "same, or take the subgroup out of that one.",
        )
    for each in part.parts:
        check_topologies(each, part.topology or above)


def topology_below(part: SubGroup, name: str, above: str) -> str | None:
    """The topology of the subgroup of this name, at or below a subgroup; None if it is not there."""
    here = part.topology or above
    if part.name == name and not part.parts:
        return here
    found = (topology_below(each, name, here) for each in part.parts)
    return next((one for one in found if one is not None), None)
