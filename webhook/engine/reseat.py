"""Where placed pods will find room, if not where their hints say: others may have been bound before them, out of order.

Of two equal pods placed on NUMA nodes 0 and 1 of one node, the one that is bound first gets NUMA node 0. If that was
not its own, the other one's room is now on NUMA node 1. A hint is only written again when its pod is bound; until then
the room is kept where there is some:
1. Pods whose NUMA nodes have room keep them.
2. Any other pod on one NUMA node moves to the first that has room. If none has, it stays: it is too late for it there.

Amounts are those of webhook.engine.sums: NUMA id -> resource -> amount.
"""

from collections.abc import Iterable, Iterator

from webhook.engine.sums import NumaAmounts
from webhook.engine.uncounted import held
from webhook.model.resident import ResidentPod

Free = dict[int, dict[str, int]]


def reseated(free: Free, pods: Iterable[ResidentPod]) -> Iterator[tuple[ResidentPod, NumaAmounts]]:
    """Each placed pod of a node with the amounts to be kept for it. free: what others left; it is used up."""
    unseated = []
    for pod in sorted(pods, key=lambda pod: pod.key):
        if _has_room(free, held(pod)):
            take(free, held(pod))
            yield pod, held(pod)
        else:
            unseated.append(pod)
    for pod in unseated:
        seat = _first_with_room(free, held(pod))
        take(free, seat)
        yield pod, seat


def _first_with_room(free: Free, hint: NumaAmounts) -> NumaAmounts:
    if len(hint) == 1:
        (amounts,) = hint.values()
        for numa_id in sorted(free):
            if _has_room(free, {numa_id: amounts}):
                return {numa_id: amounts}
    return hint


def _has_room(free: Free, numa: NumaAmounts) -> bool:
    return all(
        numa_id in free and free[numa_id].get(resource, 0) >= amount
        for numa_id, amounts in numa.items()
        for resource, amount in amounts.items()
    )


def take(free: Free, numa: NumaAmounts, sign: int = 1) -> None:
    """Take amounts off what is free; sign -1 gives them back."""
    for numa_id, amounts in numa.items():
        if (here := free.get(numa_id)) is not None:
            for resource in amounts.keys() & here.keys():
                here[resource] -= sign * amounts[resource]
