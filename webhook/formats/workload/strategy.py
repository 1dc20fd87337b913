"""The strategy that a workload or a pod names for its gang; without one, the service's setting applies."""

from collections import Counter
from collections.abc import Iterable, Mapping

from webhook.formats.workload.common_fields import annotations_on
from webhook.formats.workload.record import Workload, WorkloadGang
from webhook.model.errors import UserError
from webhook.model.json_text import shortened
from webhook.model.names import STRATEGY
from webhook.model.nearest import did_you_mean
from webhook.model.options import GangStrategy


def strategy_of(annotations: Mapping[str, str], path: str) -> GangStrategy | None:
    """The strategy that annotations name, None if they name none; raises UserError. path: the annotations' path."""
    text = annotations.get(STRATEGY)
    if not text:
        return None
    if text not in set(GangStrategy):
        raise UserError(
            f"{path}[{STRATEGY}]",
            f'"{shortened(text)}" is not a strategy. Write one of {", ".join(GangStrategy)}.'
            f"{did_you_mean(text, GangStrategy)}",
        )
    return GangStrategy(text)


def strategy_of_gang(workload: Workload, gang: WorkloadGang) -> GangStrategy | None:
    """The strategy of a workload's gang: a template's annotation overrides the workload's. Raises UserError."""
    above = strategy_of(workload.annotations, "metadata.annotations")
    named: dict[GangStrategy, str] = {}
    for pod_set in gang.all_pod_sets():
        found = ((strategy_of(*annotations), annotations[1]) for annotations in annotations_on(pod_set))
        strategy, path = next((each for each in found if each[0]), (above, "metadata.annotations"))
        if strategy is not None:
            named.setdefault(strategy, path)
    if len(named) > 1:
        raise UserError(
            f"{list(named.values())[-1]}[{STRATEGY}]",
            f"The parts name different strategies: {', '.join(named)}. "
            "All pods of a gang have one: name the same everywhere.",
        )
    return next(iter(named), above)


def most_named(members: Iterable[Mapping[str, str]]) -> GangStrategy | None:
    """The strategy that most members' annotations name, on a tie the first; None if none does. Raises UserError."""
    named = Counter(strategy for each in members if (strategy := strategy_of(each, "metadata.annotations")))
    return max(named, key=named.__getitem__, default=None)
