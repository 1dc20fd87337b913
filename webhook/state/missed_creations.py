"""Pods that `manage` covers although no replica saw their creation: they have no marks, but are managed.

1. The cache keeps the whole object of a pod that waits for its node, so that the binding guard handles its binding
   (see `as_managed` in `management`).
2. A pod that was recently bound without a hint may be on any NUMA node until its node's NodeResourceTopology has
   reported it. It gets a hint if its NUMA nodes are known (see `webhook.controllers.hint_backfill`).
Pods that were bound longer ago existed before they were managed, or are reported by now. Nothing changes for them.
"""

from collections.abc import Mapping
from typing import Any

from webhook.formats.kubernetes.namespace import Namespace
from webhook.formats.kubernetes.resident import ResidentPod
from webhook.model.manage import Manage
from webhook.state.management import mode_in, namespace_of
from webhook.state.rules import Rules
from webhook.state.unmanaged import is_annotated, why_not_scheduled_by_ours


class MissedPods:
    """Detects pods whose creation was missed.

    namespaces: by name, current as of the last event. recent: seconds after its binding in which a pod that was bound
    before this process saw it may still be unreported.
    """

    def __init__(self, rules: Rules, namespaces: Mapping[str, Namespace], recent: float) -> None:
        self._rules = rules
        self._namespaces = namespaces
        self._recent = recent
        self._bound: dict[str, str] = {}

    def is_missed(self, raw: Mapping[str, Any], pod: ResidentPod, now: float) -> bool:
        """Whether the creation of this pod was missed. now: seconds by the API server's clock."""
        if not self._is_covered(raw, pod):
            self.forget(pod.key)
            return False
        if not pod.node:
            return True
        if self._bound.get(pod.key) != pod.uid:
            if pod.hint is not None or pod.bound_at is None or now - pod.bound_at > self._recent:
                return False
            self._bound[pod.key] = pod.uid
        return pod.hint is None

    def forget(self, pod: str) -> None:
        """Remove the pod (namespace/name) from the records."""
        self._bound.pop(pod, None)

    def _is_covered(self, raw: Mapping[str, Any], pod: ResidentPod) -> bool:
        if not self._rules.manage_missed or pod.terminal:
            return False
        name = namespace_of(raw)
        mode = mode_in(self._namespaces.get(name), self._rules)
        # A pod without exclusive resources from its kubelet has no NUMA nodes, whatever the policies of the cluster.
        return (
            (mode is Manage.ALL or (mode is Manage.ALIGNED and pod.exclusive_resources))
            and not is_annotated(raw)
            and name not in self._rules.excluded_namespaces
            and not why_not_scheduled_by_ours(raw, self._rules)
        )
