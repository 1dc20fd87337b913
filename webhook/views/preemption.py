"""The pods that a preemptor would end, for people."""

from dataclasses import dataclass
from enum import StrEnum

from webhook.engine.preemption.candidates import Candidate, Candidates
from webhook.engine.preemption.victims import NoVictims, Victims


class Preempts(StrEnum):
    """Whether evicting lower-priority pods would let a pod or gang start."""

    VICTIMS = "Victims"
    """The end of these pods."""
    ENDING = "Ending"
    """Pods that are being deleted already."""
    NO_END = "NoEnd"
    """Evicting lower-priority pods would not help."""
    NEVER = "Never"
    """It must not preempt, e.g. because of `preemptionPolicy: Never`."""
    UNKNOWN = "Unknown"
    """It waits for something else, or no answer was found within the limits."""


@dataclass(frozen=True, slots=True)
class VictimView:
    """A pod that would end."""

    namespace: str
    name: str
    node: str
    priority: int
    gang: bool
    """Whether it is a member of a gang."""


@dataclass(frozen=True, slots=True)
class PreemptionView:
    """Which pods would end for a pod or gang that waits."""

    verdict: Preempts
    nodes: tuple[str, ...] = ()
    """Where it would start then."""
    victims: tuple[VictimView, ...] = ()
    """The most important first."""
    violations: int = 0
    """How many of them violate a PodDisruptionBudget."""
    why: str = ""
    """Why it must not preempt."""


def preemption_view(found: Victims | NoVictims, candidates: Candidates) -> PreemptionView:
    """The view of an answer."""
    if isinstance(found, NoVictims):
        return PreemptionView(Preempts.NO_END if found.certain else Preempts.UNKNOWN)
    victims = tuple(_victim(candidates.pods[key]) for key in found.pods)
    verdict = Preempts.VICTIMS if victims else Preempts.ENDING
    return PreemptionView(verdict, found.nodes, victims, found.violations)


def _victim(pod: Candidate) -> VictimView:
    namespace, _, name = pod.key.partition("/")
    return VictimView(namespace, name, pod.node, pod.priority, bool(pod.gang))
