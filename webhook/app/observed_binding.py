"""Events about pods in mode Observe: what mode Enforce would have done with them.

At its creation a pod has no uid yet, by which `kubectl describe` finds events. So both decisions are reported when the
pod is bound: the one on its creation, as it would be now, and the one on the node. A pod that Enforce has decided on
before carries a placement text: its creation is not decided again.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final

from webhook.admission.pod.decision import Verdict
from webhook.admission.pod.mutate import decide_creation
from webhook.admission.response import Denied, Patched, Response
from webhook.cache.cluster_cache import ClusterCache
from webhook.cache.unmanaged import why_unmanaged
from webhook.kube.events import PodEvent
from webhook.model.admission_review import AdmissionRequest
from webhook.model.names import PLACEMENT
from webhook.model.rules import Rules

_PREFIX: Final = "mode Observe, not applied: "


class ObservedBindings:
    """Reports observed bindings. tell: queues an event."""

    def __init__(self, cache: ClusterCache, rules: Rules, tell: Callable[[PodEvent], None]) -> None:
        self._cache = cache
        self._rules = rules
        self._tell = tell

    def report(self, request: AdmissionRequest, decided: Response) -> None:
        """Queue the events of one review. Reviews of other objects are not reported, nor are dry runs."""
        if request.kind != "Binding" or request.dry_run:
            return
        metadata = request.object.get("metadata") or {}
        uid = metadata.get("uid")
        if not isinstance(uid, str) or not uid:
            return
        key = f"{request.namespace}/{request.name or metadata.get('name', '')}"
        for event in (*self._creation(request, key, uid), *_binding(decided, key, uid)):
            self._tell(event)

    def _creation(self, request: AdmissionRequest, key: str, uid: str) -> Iterator[PodEvent]:
        raw = self._cache.waiting_pod(key, uid)
        if raw is None or why_unmanaged(raw, self._rules):
            return
        if PLACEMENT in (raw["metadata"].get("annotations") or {}):
            return
        creation = replace(request, kind="Pod", sub_resource="", object=raw, old_object={})
        decided = decide_creation(creation, self._cache.snapshot(), self._rules)
        if decided.verdict is Verdict.DENY:
            yield PodEvent(key, uid, "PodWouldBeDenied", _PREFIX + decided.message, "Create", "Warning")
        elif decided.gated:
            text = decided.mutated["metadata"]["annotations"][PLACEMENT]
            yield PodEvent(key, uid, "PodWouldBeGated", _PREFIX + text, "Create")


def _binding(decided: Response, key: str, uid: str) -> Iterator[PodEvent]:
    match decided:
        case Denied():
            yield PodEvent(key, uid, "BindingWouldBeRefused", _PREFIX + decided.message, "Binding", "Warning")
        case Patched():
            yield PodEvent(key, uid, "BindingWouldBeAllowed", _PREFIX + decided.message, "Binding")
        case _:
            pass
