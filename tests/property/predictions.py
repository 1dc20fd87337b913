"""What the engine predicts for one machine, and what the plain kubelet answers."""

from collections.abc import Mapping
from typing import Any

from tests.conformance.plugin import NO_INTENT, add_node
from tests.conformance.reference import RefusedError, admit
from tests.conformance.reference_machine import Machine
from tests.property.machines import published
from webhook.engine import kubelet
from webhook.engine.numa_fit import NUMAFit
from webhook.engine.request import PodRequest
from webhook.engine.snapshot.cluster_state import ClusterState
from webhook.engine.snapshot.snapshot import Snapshot
from webhook.formats.kubernetes.pod import Pod
from webhook.formats.kubernetes.resident import ResidentPod


def prediction(
    description: Mapping[str, Any],
    machine: Machine,
    raw: Mapping[str, Any],
    live: Mapping[str, Any],
    *,
    told: bool = False,
) -> tuple[Snapshot, PodRequest, NUMAFit]:
    """The engine's prediction. told: it knows the pods on the machine, in the order of their admission."""
    state = ClusterState()
    allocatable = {name: len(devices) for name, devices in description["devices"].items()}
    add_node(state, "node", allocatable, published(description, machine))
    residents = [
        ResidentPod.from_object({**resident, "spec": {**resident["spec"], "nodeName": "node"}})
        for resident in live.values()
    ]
    for resident in residents:
        state.upsert_pod(resident)
    snapshot = Snapshot(state.node_arrays(), residents=residents if told else None)
    request = PodRequest.of(Pod.from_object(raw), NO_INTENT, snapshot.node_arrays.resources)
    return snapshot, request, kubelet.predict(snapshot, request)


def refusal(machine: Machine, raw: Mapping[str, Any]) -> str | None:
    """The reason of the plain kubelet's refusal; None: it admits the pod, which then is on the machine."""
    try:
        admit(machine, Pod.from_object(raw))
    except RefusedError as refusal:
        return str(refusal)
    return None
