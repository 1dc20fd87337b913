"""A pod behind our gate: read once, with its place in the order and what makes it equal to others."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from webhook.admission.left_alone import why_placed_by_others
from webhook.admission.rules import Rules
from webhook.model.errors import UserError
from webhook.model.intent import NUMAIntent, parse_numa_intent
from webhook.model.membership import Membership, membership_of
from webhook.model.names import NUMA_TOPOLOGY_SPEC, RESOURCE_SPEC
from webhook.model.pod import Pod

# All of a pod's spec that a decision reads.
_DECISIVE: Final = ("overhead", "resources", "nodeSelector", "tolerations")
_OF_A_CONTAINER: Final = ("resources", "restartPolicy")


@dataclass(frozen=True)
class GatedPod:
    """One version of a pod object that only our gate holds back."""

    raw: Mapping[str, Any]
    pod: Pod
    intent: NUMAIntent

    @classmethod
    def from_object(cls, raw: Mapping[str, Any]) -> "GatedPod":
        """Read it; raises UserError."""
        pod = Pod.from_object(raw)
        return cls(raw, pod, parse_numa_intent(pod.annotations)[0])

    @property
    def key(self) -> str:
        """namespace/name."""
        return self.pod.key

    @property
    def order(self) -> tuple[int, str, str]:
        """Sorts by priority, then age, then name."""
        return -self.pod.priority, self.pod.created, self.pod.key

    @cached_property
    def membership(self) -> Membership | None:
        """Its group."""
        return membership_of(self.raw)

    @cached_property
    def shape(self) -> str:
        """Equal for pods that fit on the same nodes."""
        spec = self.raw["spec"]
        affinity = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(
            "requiredDuringSchedulingIgnoredDuringExecution"
        )
        containers = [
            [[container.get(field) for field in _OF_A_CONTAINER] for container in spec.get(kind) or ()]
            for kind in ("initContainers", "containers")
        ]
        asked = [self.pod.annotations.get(name) for name in (NUMA_TOPOLOGY_SPEC, RESOURCE_SPEC)]
        return json.dumps([asked, containers, affinity, [spec.get(field) for field in _DECISIVE]], sort_keys=True)


class GatedPods:
    """The gated pods of the cluster, each read once per version."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._read: dict[str, tuple[Mapping[str, Any], GatedPod | None]] = {}
        self.faults: dict[str, str] = {}
        """Pods that cannot be read, and why."""

    def update(self, raws: Mapping[str, Mapping[str, Any]]) -> None:
        """These are all there are now, by namespace/name."""
        for key in self._read.keys() - raws.keys():
            del self._read[key]
            self.faults.pop(key, None)
        for key, raw in raws.items():
            known = self._read.get(key)
            if known is None or known[0] is not raw:
                self._read[key] = raw, self._of(key, raw)

    def in_order(self) -> Iterable[GatedPod]:
        """Those to place, in the order of their turn."""
        return sorted((pod for _, pod in self._read.values() if pod is not None), key=lambda pod: pod.order)

    def _of(self, key: str, raw: Mapping[str, Any]) -> GatedPod | None:
        self.faults.pop(key, None)
        # One that asks for nothing any more is placed like the others: only we can take its gate away.
        if why_placed_by_others(raw, self._rules) is not None or "deletionTimestamp" in raw["metadata"]:
            return None
        try:
            return GatedPod.from_object(raw)
        except UserError as error:
            self.faults[key] = " ".join(map(str, error.faults))
            return None
