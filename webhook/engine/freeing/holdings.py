"""What the pods of one node hold, as far as it becomes free when they end."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from webhook.engine.snapshot.node_sums import NumaAmounts


@dataclass(frozen=True, slots=True)
class HeldPod:
    """A pod that is bound or assigned to the node.

    All of `numa` and `reserved` becomes free when it has ended and its exporter has seen that. Of a pod whose NUMA
    nodes are not known, nothing is counted there.
    """

    key: str
    """namespace/name."""
    requests: Mapping[str, int]
    """On the node as a whole, with itself as "pods"."""
    numa: NumaAmounts
    """What the node's NodeResourceTopology shows of it as taken, or the service subtracts for it."""
    reserved: NumaAmounts
    """What the ledger reserves for it."""
    single: tuple[int, ...] = ()
    """The NUMA ids on which it counts as a SingleNUMANode pod, once for each count."""
    multi: tuple[int, ...] = ()
    """The same as a pod over several NUMA nodes."""


@dataclass(frozen=True, slots=True)
class NodeHoldings:
    """The pods of one node, and the sums that do not depend on which of them end."""

    pods: tuple[HeldPod, ...]
    """By key."""
    reserved: NumaAmounts = field(default_factory=dict)
    """All that the ledger reserves."""
    ended: NumaAmounts = field(default_factory=dict)
    """What the ledger gives back for pods that have ended."""
    debt: NumaAmounts = field(default_factory=dict)
    """What pods hold beyond what is published, where the service subtracts them: this much has to end before anything
    becomes free.
    """
