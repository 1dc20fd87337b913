"""The autoscalers that tests run beside the webhook, each with what the webhook must be told of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from tests.neighbours.catalogue import CLUSTER_AUTOSCALER, KARPENTER, Neighbour
from tests.neighbours.cluster_autoscaler import cluster_autoscaler
from tests.neighbours.karpenter import karpenter

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager

    from tests.cluster.control_plane import ControlPlane
    from tests.cluster.process import Process
    from tests.neighbours.build import NeighbourFiles
    from tests.neighbours.node_groups import GroupOfMachines


class Autoscaler(NamedTuple):
    """One of them."""

    neighbour: Neighbour
    setting: str
    """The value of our setting `autoscaler`."""
    run: Callable[[ControlPlane, NeighbourFiles, Sequence[GroupOfMachines]], AbstractContextManager[Process]]


AUTOSCALERS: Final = (
    Autoscaler(CLUSTER_AUTOSCALER, "ClusterAutoscaler", cluster_autoscaler),
    Autoscaler(KARPENTER, "Karpenter", karpenter),
)
