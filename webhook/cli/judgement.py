"""What the service makes of an object: of a pod, of the pods of a workload, of a group by all its pods.

Each object is judged on its own against the snapshot: objects of one call do not take room from each other, and the
replicas of a workload that is no group count once.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from webhook.admission.gang import WorkloadAssignment
from webhook.admission.patch import Tokens
from webhook.admission.pod.plan import Verdict
from webhook.cli.documents import Item
from webhook.cli.outcome import Outcome
from webhook.engine.decide import Decision

_WORST_FIRST: Final = (Verdict.DENY, Verdict.WAIT, Verdict.ALLOW)


@dataclass(frozen=True, slots=True)
class PodSet:
    """Equal pods: those of one template of a workload, or a pod itself."""

    name: str
    """Of the role in the workload; `pods` where there is only one, or none is known."""
    path: str
    """Of the template in the object; empty for a pod."""
    pods: int | None
    """How many there are; None where that is not known."""
    tokens: Tokens
    """The same, step by step."""
    outcome: Outcome
    """What becomes of each by itself; where it is a member of a group, that is only a part of the answer."""
    in_group: bool = False


@dataclass(frozen=True, slots=True)
class Judgement:
    """The verdict on one object."""

    item: Item
    verdict: Verdict
    message: str
    mutated: Mapping[str, Any]
    """The object as it is let in; as it came where nothing is changed."""
    warnings: tuple[str, ...] = ()
    """What the API server prints at its creation."""
    sets: tuple[PodSet, ...] = ()
    group: WorkloadAssignment | None = None
    """Where the pods of a group go together; None for what is no group, and for a group that is denied."""
    notes: tuple[str, ...] = ()
    """What `mutated` cannot keep where no service runs."""

    @property
    def decision(self) -> Decision | None:
        """What the engine says of each node: of the managed pods, those that have the fewest."""
        decisions = [found for one in self.sets if (found := one.outcome.decision) is not None and one.outcome.managed]
        return min(decisions, key=lambda decision: decision.fit_count, default=None)

    def all_warnings(self) -> list[str]:
        """With those at the creation of its pods, which only their controller sees; without the message itself."""
        found = dict.fromkeys([*self.warnings, *(text for one in self.sets for text in one.outcome.warnings)])
        said = {self.message, *(one.outcome.message for one in self.sets)}
        return [warning for warning in found if warning not in said]

    @property
    def is_fine(self) -> bool:
        """Whether the object is let in and fits somewhere now."""
        alone = [one.outcome.decision for one in self.sets if one.outcome.managed and not one.in_group]
        fits = all(decision is None or decision.fit_count > 0 for decision in alone)
        return self.verdict is Verdict.ALLOW and fits


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """Denied before waiting before allowed."""
    found = set(verdicts)
    return next((verdict for verdict in _WORST_FIRST if verdict in found), Verdict.ALLOW)
