"""PodDisruptionBudgets in the cache."""

from collections.abc import Mapping

from webhook.formats.kubernetes.disruption_budget import DisruptionBudget
from webhook.state.feed import Feed


class DisruptionBudgets:
    """The PodDisruptionBudgets."""

    def __init__(self) -> None:
        self._known: dict[str, DisruptionBudget] = {}
        self.feed = Feed("PodDisruptionBudget", DisruptionBudget.from_object, self._put, self._drop)

    def by_key(self) -> Mapping[str, DisruptionBudget]:
        """The budgets by namespace/name, live."""
        return self._known

    def _put(self, budget: DisruptionBudget) -> None:
        self._known[budget.key] = budget

    def _drop(self, key: str) -> None:
        self._known.pop(key, None)
