"""How many pods the service would manage with each value of the setting `manage`.

Each pod counts as if it were created now: without its node, and without the marks of an earlier creation. The label of
its namespace overrides the setting, as at a creation. Annotations of owners count only where the pod carries them.
"""

from dataclasses import dataclass, replace

from webhook.model.options import Manage
from webhook.model.raw import Raw
from webhook.state.cluster_snapshot import ClusterSnapshot
from webhook.state.management import MARKS, Unmanaged, management_of
from webhook.state.rules import Rules


@dataclass(frozen=True, slots=True)
class ManageView:
    """One value of the setting."""

    mode: Manage
    pods: int
    """Pods that have not ended, which would be managed."""
    namespaces: int
    """The namespaces that they are in."""


class ManagedPods:
    """Counts the pods of a cluster."""

    def __init__(self, snapshot: ClusterSnapshot, rules: Rules) -> None:
        self._snapshot = snapshot
        self._rules = [(mode, replace(rules, manage=mode)) for mode in Manage]
        self._namespaces: dict[Manage, set[str]] = {mode: set() for mode in Manage}
        self._pods = dict.fromkeys(Manage, 0)

    def least_mode(self, raw: Raw) -> Manage | None:
        """The narrowest value that manages the pod; None: none does."""
        as_new = _as_new(raw)
        for mode, rules in self._rules:
            if not isinstance(management_of(as_new, self._snapshot, rules), Unmanaged):
                return mode
        return None

    def add(self, raw: Raw) -> None:
        """Count a pod that has not ended."""
        least = self.least_mode(raw)
        if least is None:
            return
        modes = list(Manage)
        for mode in modes[modes.index(least) :]:
            self._pods[mode] += 1
            self._namespaces[mode].add(str(raw["metadata"].get("namespace", "")))

    def views(self) -> tuple[ManageView, ...]:
        """The counts, from the narrowest value to the widest."""
        return tuple(ManageView(mode, self._pods[mode], len(self._namespaces[mode])) for mode in Manage)


def _as_new(raw: Raw) -> Raw:
    """The pod as it was before its creation."""
    metadata, spec = raw["metadata"], raw["spec"]
    annotations = metadata.get("annotations") or {}
    return {
        **raw,
        "metadata": {**metadata, "annotations": {key: annotations[key] for key in annotations if key not in MARKS}},
        "spec": {key: value for key, value in spec.items() if key != "nodeName"},
    }
