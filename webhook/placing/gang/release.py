"""Where a member of a gang without room waits once it is ungated, because its gate would hold up the others.

kube-scheduler gates a PodGroup as a whole, and tries its pods one after the other in an order of its own, by the sums
of nodes alone. So a member without a node may come first and take what another one was assigned.

1. It stays in the domain of its gang.
2. If it requests no more than any member that is to be bound to a node, it keeps at most one of these off the node, and
   counts in its place: as many can start. The guard refuses it, and the other one comes first the next time.
3. If it requests more, it could keep several off the node, and the group would fall below its minimum at each attempt.
   Then it is kept off the node. Node affinity cannot change later, so it does not follow when these members end.

Source: kubernetes v1.37.2 pkg/scheduler/schedule_one_podgroup.go (podGroupSchedulingDefaultAlgorithm),
framework/types.go (PodGroupMemberPodsOrderingFunc).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Self


@dataclass(frozen=True, slots=True)
class Release:
    """Where one member may go."""

    domain: Mapping[str, str]
    """The node labels of the gang's domain; {}: anywhere."""
    kept_off: frozenset[str] = frozenset()
    """The nodes of others that it must not take."""

    @classmethod
    def of(
        cls,
        requests: Mapping[str, int],
        domain: Mapping[str, str],
        others: Iterable[tuple[str, Mapping[str, int]]],
    ) -> Self:
        """The release of a member. others: (node, requests) of the members that are assigned and not bound yet."""
        tight = (
            node for node, theirs in others if any(amount > theirs.get(name, 0) for name, amount in requests.items())
        )
        return cls(domain, frozenset(tight))
