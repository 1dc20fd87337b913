"""How many pods of a group must have a place before any of them goes.

1. What the pod's annotations say, its own or those of its owners.
2. Else what its top owner's spec says, by its kind (see webhook.model.workload.record).
3. One, for owners of a kind that is not known.

A workload never has to wait for more pods than its spec makes, nor a Job for those that have succeeded.
"""

from webhook.model.names import KAI_BATCH_MIN_MEMBER
from webhook.model.workload.fields import min_member
from webhook.placement.gated import GatedPod


def minimum_of(gated: GatedPod) -> int:
    """The minimum of the pod's group. Raises UserError."""
    asked = min_member(gated.pod.annotations, KAI_BATCH_MIN_MEMBER)
    if gated.lineage is None or not gated.in_group_of_its_top:
        return asked or 1
    return gated.lineage.minimum(gated.pod.labels, asked)
