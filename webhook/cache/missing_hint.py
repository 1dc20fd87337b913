"""The hint to write for a pod that was bound without one, or why there is none."""

from dataclasses import dataclass
from typing import Final

from webhook.cache.kubelet_admission import Arrival
from webhook.engine.assumed.unhinted import Doubt, Foreseen
from webhook.engine.snapshot.single_node import is_free
from webhook.model.hint import NUMAHint
from webhook.model.resident import ResidentPod

_NOT_CERTAIN: Final = "pods came or ended there meanwhile, and the NodeResourceTopology does not show where it is"


@dataclass(frozen=True, slots=True)
class LateHint:
    """A hint for a pod that was bound without one, or why there is none."""

    pod: str
    """namespace/name."""
    uid: str
    hint: NUMAHint | None
    why_none: str = ""

    @classmethod
    def of(cls, pod: ResidentPod, foreseen: Foreseen, arrival: Arrival | None) -> "LateHint":
        """That of a pod for which this was foreseen. arrival: its node as others left it."""
        hint = NUMAHint(pod.node, tuple(sorted(foreseen.place.items())))
        if foreseen.doubt is None and arrival is not None and is_free(arrival.promised_view(), hint.numa_nodes):
            return cls(pod.key, pod.uid, hint)
        why = (foreseen.doubt or Doubt.DIFFERS).value
        return cls(pod.key, pod.uid, None, f"bound to {pod.node} while nobody answered, and without a hint: {why}")

    @classmethod
    def not_certain(cls, pod: ResidentPod) -> "LateHint":
        """That of a pod whose kubelet may have chosen other NUMA nodes than were foreseen."""
        why = f"bound to {pod.node}, and without a hint: {_NOT_CERTAIN}"
        return cls(pod.key, pod.uid, None, why)
