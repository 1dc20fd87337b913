"""Whether pods whose bindings are in progress may reach their kubelet in any order.

Two Bindings to one node may be written in either order, and a kubelet gives NUMA nodes in the order of arrival. The
order makes no difference in two cases:
- The service chooses the NUMA nodes of all these pods.
- The pods are equal, and each gets the same. The first one was given its NUMA nodes on the node as it is, each later
  one on the node with the earlier ones subtracted. Whichever arrives as the nth finds the same amounts free as the nth
  in the predicted order, and so it is given the same.
"""

from collections.abc import Sequence

from webhook.admission.binding.binding_pod import BindingPod
from webhook.admission.binding.decision import Given
from webhook.engine.assumed.assumed_pod import AssumedPod


def may_be_joined(in_progress: Sequence[AssumedPod], pod: BindingPod) -> bool:
    """Whether the pod could be bound at the same time. This is cheap: it saves the decision on the pod.

    If it is assigned other NUMA nodes than those of equal pods in progress, it gets these as a rule. It waits then.
    """
    if not in_progress:
        return True
    first = in_progress[0]
    if not all(_alike(first, other) for other in in_progress):
        return False
    if first.chosen:
        return True
    hint = pod.hint
    elsewhere = hint is not None and hint.numa_nodes and dict(hint.numa_nodes).keys() != first.numa.keys()
    return first.signature == pod.signature and not elsewhere


def in_any_order(given: Given, in_progress: Sequence[AssumedPod]) -> bool:
    """Whether a pod that gets this may arrive before, between or after the others."""
    numa = dict(given.numa_nodes)
    return all(
        (given.chosen and other.chosen)
        or (
            given.hint_certainty.sure
            and _is_predicted(other)
            and not given.chosen
            and other.signature == given.signature
            and dict(other.numa) == numa
        )
        for other in in_progress
    )


def _alike(first: AssumedPod, other: AssumedPod) -> bool:
    if first.chosen and other.chosen:
        return True
    return (
        _is_predicted(first)
        and _is_predicted(other)
        and first.signature == other.signature
        and dict(first.numa) == dict(other.numa)
    )


def _is_predicted(assumed_pod: AssumedPod) -> bool:
    """Whether its kubelet chooses its NUMA nodes, and they are certain."""
    return assumed_pod.sure and not assumed_pod.chosen and assumed_pod.signature is not None
