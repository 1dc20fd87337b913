"""The handlers of all webhooks in the mode that the operator set: whether decisions are applied.

- Enforce: the decision is the answer.
- Observe: the decision is made, logged and counted. The answer admits the object unchanged, without a warning.
- Off: nothing is decided. The answer admits the object unchanged.

In Observe no fault of ours changes what the user gets. A review that cannot be decided in time is admitted as well,
whatever the webhook's failurePolicy.

Events about pods in mode Observe: what mode Enforce would have done with them.

At its creation a pod has no uid yet, by which `kubectl describe` finds events. So both decisions are reported when the
pod is bound: the one on its creation, as it would be now, and the one on the node. A pod that Enforce has decided on
before carries a placement text: its creation is not decided again.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import replace
from typing import Final

from webhook.admission.handler import Handler, NotNowError
from webhook.admission.pod.mutate import decide_creation
from webhook.admission.response import Allowed, Denied, Observed, Patched, Response
from webhook.formats.kubernetes.admission_review import AdmissionRequest
from webhook.internal_errors import Where, contained, internal_error
from webhook.kube.events import PodEvent
from webhook.model.names import PLACEMENT
from webhook.placing.pod.decision import Verdict
from webhook.state.cluster_cache import ClusterCache
from webhook.state.rules import Mode, Rules
from webhook.state.unmanaged import why_unmanaged

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


# A binding may wait for others while it is decided, up to half of the time to its deadline. In Observe nothing depends
# on the result, so it must not delay the scheduler by seconds.
_MOST_SECONDS: Final = 0.5

# Refusals until the leader knows more. The scheduler would try again, so they are no verdict on the node.
_NOT_YET: Final = frozenset({"BindingInProgress", "LeaderChanged", "NotLeader"})

OnObserved = Callable[[AdmissionRequest, Response], None]
"""Called with each review in mode Observe and the response that is not applied."""


def in_mode(mode: Mode, handlers: Mapping[str, Handler], on_observed: OnObserved) -> Mapping[str, Handler]:
    """The handlers in this mode."""
    match mode:
        case "Enforce":
            return handlers
        case "Observe":
            return {path: Observer(handler, on_observed) for path, handler in handlers.items()}
        case "Off":
            return dict.fromkeys(handlers, Off())


class Off:
    """Admits every object unchanged."""

    def handle(self, request: AdmissionRequest) -> Response:
        """Decide nothing."""
        del request
        return Allowed(message="the mode is Off")


class Observer:
    """Admits every object unchanged, and reports what the handler would have answered."""

    def __init__(self, handler: Handler, on_observed: OnObserved) -> None:
        self._handler = handler
        self._on_observed = on_observed

    async def handle(self, request: AdmissionRequest) -> Response:
        """Decide without applying the decision."""
        loop = asyncio.get_running_loop()
        deadline = min(request.deadline, loop.time() + _MOST_SECONDS)
        try:
            async with asyncio.timeout_at(deadline):
                decided = self._handler.handle(replace(request, deadline=deadline))
                if isinstance(decided, Awaitable):
                    decided = await decided
        except (NotNowError, TimeoutError) as error:
            return Allowed(message=f"not decided: {str(error) or 'too late'}", observed=Observed("none"))
        except Exception as error:  # noqa: BLE001 # the answer must not depend on a fault of ours
            return Allowed(message=internal_error(Where.REVIEW, error, uid=request.uid), observed=Observed("none"))
        observed = _observed(decided)
        if observed.verdict != "none":
            with contained(Where.REVIEW, uid=request.uid):
                self._on_observed(request, decided)
        return Allowed(
            message=decided.message,
            decided=decided.decided,
            fit_count=decided.fit_count,
            excluded=decided.excluded,
            not_aligned=decided.not_aligned,
            unreserved=decided.unreserved,
            misrouted=decided.misrouted,
            observed=observed,
        )


def _observed(decided: Response) -> Observed:
    match decided:
        case Denied(reason=reason):
            return Observed("none" if reason in _NOT_YET else "deny", reason)
        case Patched(patch=patch, verdict="allow") if patch:
            return Observed("change")
        case _:
            return Observed(decided.verdict)
