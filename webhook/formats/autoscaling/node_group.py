"""Node groups of cluster autoscalers, by the label that names the group of a node.

An autoscaler adds nodes that are like those of a group. A node without such a label is in none: nothing is known about
its group, or no autoscaler adds nodes like it.
"""

from collections.abc import Iterable, Mapping
from typing import Final, Literal

Autoscaler = Literal["None", "ClusterAutoscaler", "Karpenter"]
"""The cluster autoscaler that is shown the pods that wait behind the gate."""

ProvisioningClass = Literal[
    "", "check-capacity.autoscaling.x-k8s.io", "best-effort-atomic-scale-up.autoscaling.x-k8s.io"
]
"""The class of the ProvisioningRequests by which cluster-autoscaler is asked for a gang; empty: pod by pod.

Source: autoscaler cluster-autoscaler/apis/provisioningrequest/autoscaling.x-k8s.io/v1/types.go.
"""
CHECK_CAPACITY: Final[ProvisioningClass] = "check-capacity.autoscaling.x-k8s.io"

GROUP_LABELS: Final[Mapping[Autoscaler, tuple[str, ...]]] = {
    "None": (),
    # As managed clusters and the installers of others set them; the last one is in cluster-autoscaler's kwok examples.
    "ClusterAutoscaler": (
        "eks.amazonaws.com/nodegroup",
        "alpha.eksctl.io/nodegroup-name",
        "cloud.google.com/gke-nodepool",
        "kubernetes.azure.com/agentpool",
        "agentpool",
        "kops.k8s.io/instancegroup",
        "worker.gardener.cloud/pool",
        "doks.digitalocean.com/node-pool",
        "k8s.scaleway.com/pool-name",
        "lke.linode.com/pool-id",
        "hcloud/node-group",
        "kwok-nodegroup",
    ),
    # It adds nodes of its own pools alone. Source: karpenter pkg/apis/v1/labels.go (NodePoolLabelKey).
    "Karpenter": ("karpenter.sh/nodepool",),
}


def group_of(labels: Mapping[str, str], keys: Iterable[str]) -> tuple[str, str] | None:
    """The first of these labels that a node has, with its value; None if it has none."""
    return next(((key, labels[key]) for key in keys if labels.get(key)), None)
