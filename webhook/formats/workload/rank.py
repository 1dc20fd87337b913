"""A pod's rank in its workload, from what its controller wrote on it.

1. The label that the user names in kai.scheduler/pod-index-label.
2. The index that its controller sets: completion index, replica index, worker index, StatefulSet ordinal. Ray's head
   is the first.
3. The number at the end of its name.

Pods without a rank come after the others, sorted by name.
"""

from collections.abc import Mapping
from re import compile as pattern
from typing import Final

from webhook.model.fields import whole_number
from webhook.model.names import (
    JOB_COMPLETION_INDEX,
    KAI_POD_INDEX_LABEL,
    KUBEFLOW_REPLICA_INDEX,
    LWS_WORKER_INDEX,
    RAY_NODE_TYPE,
    STATEFUL_SET_POD_INDEX,
)

RANK_KEYS: Final = (JOB_COMPLETION_INDEX, KUBEFLOW_REPLICA_INDEX, LWS_WORKER_INDEX, STATEFUL_SET_POD_INDEX)
"""The labels and annotations with the index that a controller sets, the first one of a pod counts."""
# The API server appends five characters to a generated name; all of them may be digits.
_LAST_NUMBER: Final = pattern(r"-(\d{1,4})$")


def rank_of(name: str, labels: Mapping[str, str], annotations: Mapping[str, str]) -> int | None:
    """The rank of a pod; None if it has none."""
    chosen = annotations.get(KAI_POD_INDEX_LABEL)
    for key in (chosen, *RANK_KEYS) if chosen else RANK_KEYS:
        text = labels.get(key) or annotations.get(key) or ""
        if (rank := whole_number(text)) is not None:
            return rank
    if labels.get(RAY_NODE_TYPE) == "head":
        return 0
    ending = _LAST_NUMBER.search(name)
    return int(ending.group(1)) if ending else None
