"""The pods that have no node yet, by namespace/name."""

from typing import Any

from webhook.cache.pod_info import PodInfo
from webhook.cache.unmanaged import is_annotated
from webhook.model.gates import waits_for_us_alone

Raw = dict[str, Any]


class UnboundPods:
    """Current as of the last event. What it returns must not be changed."""

    def __init__(self) -> None:
        self.waiting: dict[str, Raw] = {}
        """All of them; of an unmanaged pod name and uid alone."""
        self.gated: dict[str, Raw] = {}
        """Those that only our gate holds back."""

    def ungated(self) -> dict[str, Raw]:
        """The managed pods without any gate."""
        without_gate = ((key, raw) for key, raw in self.waiting.items() if not raw["spec"].get("schedulingGates"))
        return {key: raw for key, raw in without_gate if is_annotated(raw)}

    def put(self, pod: PodInfo) -> None:
        """The pod exists and looks like this."""
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
        """The pod is bound, or gone."""
        self.waiting.pop(key, None)
        self.gated.pop(key, None)
