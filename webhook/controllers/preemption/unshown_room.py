"""Room that ended victims have left and that their node's NodeResourceTopology (NRT) does not show yet.

An exporter publishes what a victim has left at its next scan. Until then neither the pods nor the NRT show that room,
and a single pod that could use it together with the preemptor would have victims of its own.

The room is what the victims held when they were chosen, and at most what the NRT shows as taken while no living pod
holds it. So it ends when the NRT shows it as free, or when another pod gets it.
"""

from collections.abc import Iterable, Mapping

from webhook.controllers.preemption.holds import Hold
from webhook.engine.assumed.placement_search import taken_on
from webhook.engine.freeing.holdings import HeldPod, NodeHoldings
from webhook.engine.snapshot.node_sums import added
from webhook.model.bound_pod import BoundPod
from webhook.model.nrt import NodeTopology


def unshown_room(
    hold: Hold, topology: NodeTopology | None, living: NodeHoldings, bound: Mapping[str, BoundPod]
) -> HeldPod | None:
    """What the ended victims of a hold left on one node, as one pod with the hold's name; None if it is nothing.

    topology: the node's NRT. living: what the pods of the node hold now. bound: the bound pods by namespace/name.
    """
    if topology is None:
        return None
    ended = [pod for pod in hold.held.get(topology.node, ()) if not _is_bound(hold, pod.key, bound)]
    hidden: dict[int, dict[str, int]] = {}
    for numa_id, taken in taken_on(topology).items() if ended else ():
        held = added([_shown(numa_id, living.pods), living.ended.get(numa_id, {})])
        for name, amount in _shown(numa_id, ended).items():
            if (rest := min(amount, taken.get(name, 0) - held.get(name, 0))) > 0:
                hidden.setdefault(numa_id, {})[name] = rest
    return HeldPod(hold.name, {}, hidden, {}) if hidden else None


def _is_bound(hold: Hold, key: str, bound: Mapping[str, BoundPod]) -> bool:
    pod = bound.get(key)
    return pod is not None and pod.uid == (hold.victims.get(key) or hold.earlier.get(key))


def _shown(numa_id: int, pods: Iterable[HeldPod]) -> Mapping[str, int]:
    """What the NRT shows as taken by these pods on one NUMA node."""
    return added(pod.numa.get(numa_id, {}) for pod in pods)
