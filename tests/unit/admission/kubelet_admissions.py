"""Nodes as pods find them when their kubelets admit them."""

from collections.abc import Mapping, Sequence
from typing import Any

from webhook.engine.snapshot.ledger import Ledger, Reservation
from webhook.engine.snapshot.node_arrays import NodeArrays
from webhook.engine.snapshot.single_node import less, node_alone
from webhook.state.kubelet_admission import AssignedPod, KubeletAdmission


def kubelet_admission_at(
    node_arrays: NodeArrays, ledger: Ledger, node: str, pod: str, assigned: Sequence[Mapping[str, Any]] = ()
) -> KubeletAdmission | None:
    """The node as the pod (namespace/name) finds it; what the `assigned` pods were promised stands in the ledger."""
    alone = node_alone(node_arrays, node)
    if alone is None:
        return None
    others = [AssignedPod(_assumed_for(ledger, raw), raw) for raw in assigned]
    own = ledger.get(pod)
    taken_off = [*(other.assumed for other in others), *([] if own is None else [own])]
    return KubeletAdmission(alone, less(ledger.sums(node), node, taken_off), tuple(others), own)


def _assumed_for(ledger: Ledger, raw: Mapping[str, Any]) -> Reservation:
    assumed = ledger.get(f"default/{raw['metadata']['name']}")
    assert assumed is not None
    return assumed
