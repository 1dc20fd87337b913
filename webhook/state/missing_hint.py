"""The hint to write for a pod that was bound without one, or why there is none."""

from dataclasses import dataclass
from typing import Final

from webhook.engine.snapshot.single_node import is_free
from webhook.formats.koordinator.hint import NUMAHint
from webhook.formats.kubernetes.resident import ResidentPod
from webhook.state.assumed.unhinted import Replayed, WhyUnknown
from webhook.state.kubelet_admission import KubeletAdmission

_NOT_CERTAIN: Final = "its kubelet may have chosen any of several, and the NodeResourceTopology does not show which"


@dataclass(frozen=True, slots=True)
class HintBackfill:
    """The result for one pod: a hint, or the reason why it gets none."""

    pod: str
    """namespace/name."""
    uid: str
    hint: NUMAHint | None
    why_unassigned: str = ""

    @classmethod
    def of(cls, pod: ResidentPod, replayed: Replayed, kubelet_admission: KubeletAdmission | None) -> "HintBackfill":
        """The result for a replayed pod. kubelet_admission: its node as other pods left it; None: unknown node."""
        hint = NUMAHint(pod.node, tuple(sorted(replayed.numa.items())))
        if (
            replayed.why_unknown is None
            and kubelet_admission is not None
            and is_free(kubelet_admission.assumed_snapshot(), hint.numa_nodes)
        ):
            return cls(pod.key, pod.uid, hint)
        why = (replayed.why_unknown or WhyUnknown.DIFFERS).value
        return cls(pod.key, pod.uid, None, f"bound to {pod.node} while no replica answered, and without a hint: {why}")

    @classmethod
    def not_certain(cls, pod: ResidentPod) -> "HintBackfill":
        """The result for a pod whose kubelet may have chosen other NUMA nodes than the replayed ones."""
        why = f"bound to {pod.node}, and without a hint: {_NOT_CERTAIN}"
        return cls(pod.key, pod.uid, None, why)
