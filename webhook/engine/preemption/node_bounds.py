"""What victims on a node cost at least, by its sums alone: it decides which nodes are tried, and when to stop."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from webhook.engine.preemption.candidates import Candidate


class NodeBound(NamedTuple):
    """A lower bound for one node."""

    highest: int
    """No victims have a lower highest priority."""
    pods: int
    name: str
    n: int


def node_bound(missing: Mapping[str, int], candidates: Sequence[Candidate], name: str, n: int) -> NodeBound | None:
    """The bound; None if even all candidates are too few.

    missing: resource -> what the node lacks. candidates: those of the node, the most important first.
    """
    if not candidates:
        return None
    highest, pods = candidates[-1].priority, 1
    for resource, amount in missing.items():
        if amount <= 0:
            continue
        left = amount
        for pod in reversed(candidates):
            left -= pod.requests.get(resource, 0)
            if left <= 0:
                highest = max(highest, pod.priority)
                break
        if left > 0:
            return None
        count, left = 0, amount
        for given in sorted((pod.requests.get(resource, 0) for pod in candidates), reverse=True):
            left, count = left - given, count + 1
            if left <= 0:
                break
        pods = max(pods, count)
    return NodeBound(highest, pods, name, n)
