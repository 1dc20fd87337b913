"""The pods that have no node yet, by namespace/name."""

from typing import Any

from webhook.formats.kubernetes.gates import waits_for_us_alone
from webhook.state.pod_info import PodInfo
from webhook.state.unmanaged import is_annotated

Raw = dict[str, Any]


class UnboundPods:
    """An index, current as of the last event. Results must not be changed."""

    def __init__(self) -> None:
        self.waiting: dict[str, Raw] = {}
        """All unbound pods. An unmanaged pod without our gate has only its name and uid."""
        self.gated: dict[str, Raw] = {}
        """The pods whose only gate is ours."""

    def ungated(self) -> dict[str, Raw]:
        """The managed pods without any gate."""
        without_gate = ((key, raw) for key, raw in self.waiting.items() if not raw["spec"].get("schedulingGates"))
        return {key: raw for key, raw in without_gate if is_annotated(raw)}

    def put(self, pod: PodInfo) -> None:
        """Add the pod, or replace its object; remove it if it does not wait any more."""
        key = pod.record.key
        if pod.waiting is None:
            self.drop(key)
            return
        self.waiting[key] = pod.waiting
        if waits_for_us_alone(pod.waiting):
            self.gated[key] = pod.waiting
        else:
            self.gated.pop(key, None)

    def drop(self, key: str) -> None:
        """Remove a pod that was bound or deleted."""
        self.waiting.pop(key, None)
        self.gated.pop(key, None)
