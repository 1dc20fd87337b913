"""An assumed pod: what a pod was given before any object shows it."""

from collections.abc import Mapping
from dataclasses import dataclass

from webhook.engine.snapshot.node_sums import NumaAmounts
from webhook.model.policy import NUMAPolicy


@dataclass(frozen=True, slots=True)
class AssumedPod:
    """What was given to a pod in an answer, or a patch, that no object shows yet."""

    pod: str
    """namespace/name."""
    uid: str
    node: str
    numa: NumaAmounts
    requests: Mapping[str, int]
    policy: NUMAPolicy | None
    expires: float
    """When the binding or patch must have been written, or never will be; on the caller's own clock."""
    is_binding: bool = False
    """By a binding: once it is written the pod reaches its kubelet. A patch only places it, to be bound later."""
    sure: bool = True
    """Whether nothing that is not known could make the kubelet choose other NUMA nodes."""
    chosen: bool = False
    """Whether they are ours to choose: a node agent puts the pod there."""
    alternatives: frozenset[int] = frozenset()
    """Other NUMA nodes that the kubelet may choose."""
    tentative: bool = False
    """To a pod whose node the scheduler chooses: it may go elsewhere, or never come. It mutates, and does not bind."""
