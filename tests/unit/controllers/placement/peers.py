"""Pods beside a pod: some that it must keep away from, or none."""

from typing import Any

from tests.builders.pods import gated
from tests.builders.workloads import job, of
from webhook.engine.snapshot.ledger import Reservation
from webhook.model.names import NUMA_TOPOLOGY_SPEC
from webhook.placing.pod.gated_pods import GatedPod

TERM = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {}}


APART: dict[str, Any] = {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [TERM]}}}


def nobody(node: str) -> tuple[Reservation, ...]:
    """No pod is placed and waits to be bound."""
    del node
    return ()


def burstable(name: str = "p", *, inherits: bool = False, group: str = "", **spec: Any) -> GatedPod:
    """A pod without a memory limit; inherits: its policy stands on its Job."""
    raw = gated(name=name, group=group, **spec)
    resources = raw["spec"]["containers"][0]["resources"]
    resources["limits"] = {"cpu": resources["requests"]["cpu"]}
    if not inherits:
        return GatedPod.from_object(raw)
    policy = raw["metadata"]["annotations"].pop(NUMA_TOPOLOGY_SPEC)
    return GatedPod.from_object(raw, of(job(**{NUMA_TOPOLOGY_SPEC: policy})))
