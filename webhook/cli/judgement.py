"""The service's answer to an object: a pod, the pods of a workload, or a gang of pods.

Each object is judged on its own against the snapshot. Objects in one call do not compete for capacity, and the
replicas of a workload that is not a gang count once.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from webhook.admission.gang import WorkloadAssignment
from webhook.admission.patch import Tokens
from webhook.admission.pod.decision import Verdict
from webhook.cli.documents import Item
from webhook.cli.outcome import Outcome
from webhook.engine.decide import Decision
from webhook.model.workload.record import Workload

_WORST_FIRST: Final = (Verdict.DENY, Verdict.WAIT, Verdict.ALLOW)


@dataclass(frozen=True, slots=True)
class PodSet:
    """Equal pods: those of one template of a workload, or a single pod."""

    name: str
    """The name of the pod set in the workload; `pods` if there is only one, or none is known."""
    path: str
    """The path of the template in the object; empty for a pod."""
    pods: int | None
    """The number of pods; None if unknown."""
    tokens: Tokens
    """The number of pods for each gang."""
    outcome: Outcome
    """The outcome of each pod by itself; for a member of a gang it is only a part of the answer."""
    in_group: bool = False


@dataclass(frozen=True, slots=True)
class Judgement:
    """The verdict on one object."""

    item: Item
    verdict: Verdict
    message: str
    mutated: Mapping[str, Any]
    """The object as it is admitted; unchanged if nothing is mutated."""
    warnings: tuple[str, ...] = ()
    """The warnings that the API server prints at its creation."""
    sets: tuple[PodSet, ...] = ()
    group: WorkloadAssignment | None = None
    """The assignment of a gang; None for an object without a gang, and for a denied gang."""
    notes: tuple[str, ...] = ()
    """What `mutated` cannot guarantee without a running service."""
    gangs: Workload | None = None
    """The gangs of a workload, with those pods only that are placed together; None if there are none."""

    @property
    def decision(self) -> Decision | None:
        """The engine's answer for each node: of several managed pod sets, the one that fits the fewest nodes."""
        decisions = [found for one in self.sets if (found := one.outcome.decision) is not None and one.outcome.managed]
        return min(decisions, key=lambda decision: decision.fit_count, default=None)

    def all_warnings(self) -> list[str]:
        """The warnings, also those of its pods, which only their controller would see; without the message itself."""
        found = dict.fromkeys([*self.warnings, *(text for one in self.sets for text in one.outcome.warnings)])
        said = {self.message, *(one.outcome.message for one in self.sets)}
        return [warning for warning in found if warning not in said]

    @property
    def is_fine(self) -> bool:
        """Whether the object is admitted and fits somewhere now."""
        alone = [one.outcome.decision for one in self.sets if one.outcome.managed and not one.in_group]
        fits = all(decision is None or decision.fit_count > 0 for decision in alone)
        return self.verdict is Verdict.ALLOW and fits


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """Denied is worse than waiting, which is worse than allowed."""
    found = set(verdicts)
    return next((verdict for verdict in _WORST_FIRST if verdict in found), Verdict.ALLOW)
