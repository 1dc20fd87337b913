"""The operator's settings for admission and for cluster autoscalers, as pure code reads them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from webhook.formats.autoscaling import Autoscaler, ProvisioningClass
from webhook.formats.koordinator.intent import NO_SPEC, NUMASpec
from webhook.model.options import Manage, Options, Unenforced

GateMode = Literal["Always", "WhenNeeded", "Never"]
"""Which pods get our scheduling gate until they are assigned: all managed pods, those that need it, or none."""

Mode = Literal["Enforce", "Observe", "Off"]
"""Whether decisions are applied, only reported, or not made."""

PreemptionMode = Literal["LowerPriority", "Never"]
"""Whether pods are ended for waiting pods and gangs of higher priority."""

NoCapacity = Literal["Gate", "Allow", "Deny"]
"""What happens to a pod outside a gang that fits nowhere now, but may later."""


Repair = Literal["Pod", "Gang"]
"""What moves if a gang lost a node and its domain has no room: the lost pods wait, or the whole gang moves."""

NotAlignable = Literal["Warn", "Deny"]
"""What happens to a pod that requests a NUMA policy but that no kubelet aligns."""


@dataclass(frozen=True, slots=True)
class Rules:
    """The settings of admission."""

    manage: Manage = Manage.ANNOTATED
    """Which pods are managed if their namespace has no label."""
    defaults: NUMASpec = NO_SPEC
    """Defaults for managed pods whose own, owners' and namespace annotations leave a field open."""
    excluded_namespaces: frozenset[str] = frozenset()
    """Namespaces in which only pods with a request of their own are managed."""
    manage_missed: bool = True
    """Whether pods that no webhook saw at creation are managed afterwards."""
    kueue_annotations: bool = False
    """Whether Kueue's topology annotations are read as ours where Kueue does not manage the workload."""
    grove_pod_gangs: bool = False
    """Whether pods that Grove makes for a PodGang are a gang, which the PodGang defines."""
    dynamic_resources: bool = True
    """Whether devices of Dynamic Resource Allocation are counted."""
    no_compatible_node: Literal["Deny", "Warn"] = "Deny"
    """What happens to a pod if no node has a compatible policy, or no node could align it even if empty."""
    not_alignable: NotAlignable = "Warn"
    """What happens to a pod that requests a policy if its containers' requests are such that no node aligns them."""
    unenforced: Unenforced = Unenforced.LAST
    """Whether pods that ask for a strict policy go to nodes that enforce none."""
    gate: GateMode = "Always"
    """Which pods are gated."""
    no_capacity: NoCapacity = "Gate"
    """Whether pods that fit nowhere now are gated, admitted unchanged, or denied."""
    max_affinity_values: int = 64
    """The most nodes named in a pod's required node affinity."""
    scheduler_names: frozenset[str] = frozenset({"default-scheduler"})
    """Pods of other schedulers are unmanaged."""
    trusted_users: frozenset[str] = frozenset()
    """Users who may write our annotations: the service itself, and users the operator names."""
    trusted_groups: frozenset[str] = frozenset({"system:masters"})
    """Groups whose members may remove our gate and change the text in `placement`."""
    scheduler_users: frozenset[str] = frozenset({"system:kube-scheduler"})
    """Users whose bindings get NUMA nodes; trusted users are included."""
    autoscaler: Autoscaler = "None"
    """The cluster autoscaler that is shown pods behind the gate."""
    shard_label: str = ""
    """The node label whose values are the shards of the nodes; empty: there is one shard."""
    engine: Options = field(default_factory=Options)
    """How nodes are filtered and ranked."""


_NAMES: Final[Mapping[Autoscaler, str]] = {"ClusterAutoscaler": "cluster-autoscaler", "Karpenter": "Karpenter"}


@dataclass(frozen=True, slots=True)
class Asking:
    """How an autoscaler is asked."""

    autoscaler: Autoscaler = "None"
    group_labels: tuple[str, ...] = ()
    """Node labels that name a node's group, besides the usual ones."""
    new_node_seconds: float = 300.0
    """Seconds after which a node is complete: its devices and NUMA nodes are published."""
    narrow_after: float = 0.0
    """Seconds after which pods are kept off nodes that have enough free only in total; 0: never."""
    provisioning_class: ProvisioningClass = ""
    """The class of the ProvisioningRequests by which gangs are asked for; empty: they are asked for pod by pod."""

    @property
    def is_enabled(self) -> bool:
        """Whether any autoscaler is asked."""
        return self.autoscaler != "None"

    @property
    def name(self) -> str:
        """The autoscaler, for people."""
        return _NAMES[self.autoscaler]
