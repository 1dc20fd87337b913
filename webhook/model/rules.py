"""What an operator may set about the rules, as pure code reads it."""

from dataclasses import dataclass, field
from typing import Literal

from webhook.model.intent import NO_SPEC, NUMASpec
from webhook.model.manage import Manage
from webhook.model.options import Options

GateMode = Literal["Always", "WhenNeeded", "Never"]
"""Which pods wait behind our scheduling gate until they are placed: all that are ours, those that have to, or none."""

NoCapacity = Literal["Gate", "Allow", "Deny"]
"""What becomes of a pod in no group that fits nowhere now, but may later."""


NotAlignable = Literal["Warn", "Deny"]
"""What becomes of a pod that asks for a NUMA policy, and that no kubelet aligns."""


@dataclass(frozen=True, slots=True)
class Rules:
    """The settings of admission."""

    manage: Manage = Manage.ANNOTATED
    """Which pods are managed, where their namespace does not say."""
    defaults: NUMASpec = NO_SPEC
    """What holds for managed pods where they, their owners and their namespace leave it open."""
    excluded_namespaces: frozenset[str] = frozenset()
    """Namespaces of which no pod is managed that asks for nothing itself."""
    manage_missed: bool = True
    """Whether pods are managed after their creation that no webhook saw."""
    no_compatible_node: Literal["Deny", "Warn"] = "Deny"
    """What becomes of a pod for which no node has a compatible policy, or that no node could align even if empty."""
    not_alignable: NotAlignable = "Warn"
    """What becomes of a pod that asks for a policy, and that no node would align for what its containers ask."""
    gate: GateMode = "Always"
    """Which pods are gated."""
    no_capacity: NoCapacity = "Gate"
    """Whether those that fit nowhere now are among them, let in as they are, or refused."""
    max_affinity_values: int = 64
    """Most nodes that are named in a pod's required node affinity."""
    preferred_nodes: int = 10
    """Best nodes that are written as preferred."""
    scheduler_names: frozenset[str] = frozenset({"default-scheduler"})
    """Pods of other schedulers are left alone."""
    trusted_users: frozenset[str] = frozenset()
    """Users who may write what we write: we ourselves, and whom the operator names."""
    scheduler_users: frozenset[str] = frozenset({"system:kube-scheduler"})
    """Users whose bindings are given NUMA nodes; so are those of trusted users."""
    engine: Options = field(default_factory=Options)
    """How nodes are judged and ranked."""
