"""An assumed pod: resources given to a pod that no object shows yet."""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass

from webhook.engine.snapshot.node_sums import NumaAmounts
from webhook.model.policy import NUMAPolicy


@dataclass(frozen=True, slots=True)
class AssumedPod:
    """The resources that an answer or a patch gave to a pod, and that no object shows yet."""

    pod: str
    """namespace/name."""
    uid: str
    node: str
    numa: NumaAmounts
    requests: Mapping[str, int]
    policy: NUMAPolicy | None
    expires: float
    """By this time the binding or patch is written, or never will be. On the caller's own clock."""
    is_binding: bool = False
    """Whether a binding gave the resources: once it is written, the pod goes to its kubelet. A patch only assigns;
    the binding follows later."""
    sure: bool = True
    """Whether no unknown fact could make the kubelet choose other NUMA nodes."""
    chosen: bool = False
    """Whether the service chooses the NUMA nodes, and a node agent puts the pod there."""
    alternatives: frozenset[int] = frozenset()
    """Other NUMA nodes that the kubelet may choose."""
    signature: Hashable = None
    """Equal for pods that a kubelet treats alike; None if it is not known."""
    tentative: bool = False
    """Whether the scheduler picks the pod's node: it may pick another one, or never bind the pod. A patch gave the
    resources, not a binding."""
