"""The answer to a preemptor: which pods to evict, or that evicting pods does not help."""

from dataclasses import dataclass

from webhook.engine.preemption.candidates import Candidates, Cost

Places = tuple[tuple[str, str], ...]
"""(member, node), by name."""


@dataclass(frozen=True, slots=True)
class Victims:
    """Pods whose end lets the preemptor fit."""

    nodes: tuple[str, ...]
    """Where it fits then, by name."""
    pods: tuple[str, ...]
    """By namespace/name, the most important first; empty if it fits once the pods that are being deleted have ended."""
    violations: int = 0
    """How many of them violate a PodDisruptionBudget."""
    highest: int | None = None
    """The highest priority among them."""
    violating: frozenset[str] = frozenset()
    """Those that violate a PodDisruptionBudget."""
    places: Places = ()
    """For a gang, where each member fits then."""

    @classmethod
    def of(cls, candidates: Candidates, cost: Cost, nodes: tuple[str, ...], places: Places = ()) -> "Victims":
        """The victims of a cost."""
        pods = tuple(pod.key for pod in candidates.in_order(cost.names))
        violating = candidates.violating(cost.names)
        return cls(nodes, pods, cost.violations, cost.highest, violating, places)

    @classmethod
    def among(cls, places: Places) -> "Victims":
        """No pods have to end for these places."""
        return cls(nodes_of_places(places), (), places=places)


@dataclass(frozen=True, slots=True)
class NoVictims:
    """No such set was found. certain: none exists of pods whose NUMA nodes are known."""

    certain: bool


def nodes_of_places(places: Places) -> tuple[str, ...]:
    """The nodes, by name."""
    return tuple(sorted({node for _, node in places}))
