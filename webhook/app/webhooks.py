"""The webhooks: a handler for each path, in the mode that the operator set.

1. Enforce: the decision is the answer.
2. Observe: the decision is made, logged and counted. The answer admits the object unchanged, without a warning. No
   fault of ours changes what the user gets: a review that cannot be decided in time is admitted as well, whatever the
   webhook's failurePolicy.
3. Off: nothing is decided. The answer admits the object unchanged.

A review may wait a moment for an object that was created together with the reviewed one (`WatchLag`).
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from time import monotonic
from typing import Final

from webhook.admission.handler import Handler, LeaderNeededError, NotNowError
from webhook.admission.namespace import NamespaceValidator
from webhook.admission.node import NodeValidator
from webhook.admission.pod.mutate import PodMutator, decide_creation
from webhook.admission.pod.validate import PodValidator
from webhook.admission.response import Allowed, Denied, Observed, Patched, Response
from webhook.admission.workload.mutate import WorkloadMutator
from webhook.admission.workload.validate import WorkloadValidator
from webhook.formats.kubernetes.admission_review import AdmissionRequest
from webhook.internal_errors import Where, contained, internal_error
from webhook.kube.events import PodEvent
from webhook.model.names import KAI_TOPOLOGY, PLACEMENT
from webhook.placing.gang.workload_judgement import annotations_in
from webhook.placing.pod.decision import Verdict
from webhook.server.routes import BINDINGS
from webhook.signal import Signal
from webhook.state.cluster_cache import ClusterCache
from webhook.state.cluster_snapshot import ClusterSnapshot
from webhook.state.rules import Mode, Rules
from webhook.state.unmanaged import why_unmanaged

_PREFIX: Final = "mode Observe, not applied: "
# A binding may wait for others while it is decided, up to half of the time to its deadline. In Observe nothing depends
# on the result, so it must not delay the scheduler by seconds.
_MOST_SECONDS: Final = 0.5
# A watch is about 10 ms behind, on a busy machine 100 ms.
_SECONDS: Final = 1.0
# Time to deliver the answer.
_ANSWER_SECONDS: Final = 0.5
MOST_PODS: Final = 64
MOST_WORKLOADS: Final = 16
_MUTATE_PODS: Final = "/mutate/pods"
_CLAIMS: Final = "/validate/resourceclaims"
LEADERS: Final = (BINDINGS, _CLAIMS)
"""The paths of the reviews that a replica may pass on to the leader."""
_VALIDATE_WORKLOADS: Final = "/validate/workloads"


class ObservedBindings:
    """Events about pods in mode Observe: what mode Enforce would have done with them. tell: queues an event.

    At its creation a pod has no uid yet, by which `kubectl describe` finds events. So both decisions are reported when
    the pod is bound: the one on its creation, as it would be now, and the one on the node. A pod that Enforce has
    decided on before carries a placement text: its creation is not decided again.
    """

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
        """Decide without applying the decision. Raises LeaderNeededError: the leader observes as well."""
        loop = asyncio.get_running_loop()
        deadline = min(request.deadline, loop.time() + _MOST_SECONDS)
        try:
            async with asyncio.timeout_at(deadline):
                decided = self._handler.handle(replace(request, deadline=deadline))
                if isinstance(decided, Awaitable):
                    decided = await decided
        except LeaderNeededError as error:
            otherwise, none = error.otherwise, Observed("none")
            why = f"not decided: {otherwise.message}"
            admitted = Allowed(message=why, observed=none, misrouted=otherwise.misrouted)
            raise LeaderNeededError(error.node, admitted) from None
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


IsMissing = Callable[[AdmissionRequest, Response], bool]
"""Whether the response depends on an object that is not in the cache."""


class WatchLag:
    """A handler in front of another one: requests wait in it for one kind of object.

    The watch of these objects may be a moment behind the review:
    - A pod and its namespace: the namespace's label and annotations must also apply to the first pod.
    - A workload and the Topology that it names: without the Topology it would be denied.

    Only a limited number of reviews wait at a time, because callers may name objects that do not exist.

    handler: answers, with or without the object. arrived: emitted when an object arrives. most: maximum number of
    requests that wait at a time. warning: the warning of a response that was given without the object; None: no
    warning. seconds: the longest wait.
    """

    def __init__(
        self,
        handler: Handler,
        arrived: Signal[[]],
        is_missing: IsMissing,
        most: int,
        warning: Callable[[AdmissionRequest], str] | None = None,
        seconds: float = _SECONDS,
    ) -> None:
        self._handler = handler
        self._is_missing = is_missing
        self._most = most
        self._warning = warning
        self._seconds = seconds
        self._waiting = 0
        self._arrived = asyncio.Event()
        arrived.subscribe(self._wake)

    def handle(self, request: AdmissionRequest) -> Response | Awaitable[Response]:
        """Answer now, or when the missing object has arrived."""
        response = self._handler.handle(request)
        if isinstance(response, Awaitable) or not self._is_missing(request, response):
            return response
        if self._waiting >= self._most:
            return self._warned(request, response)
        return self._later(request, response, self._arrived)

    async def _later(self, request: AdmissionRequest, response: Response, arrived: asyncio.Event) -> Response:
        """The response when the object has arrived, or after the longest wait. arrived: set by the next arrival."""
        self._waiting += 1
        try:
            until = min(asyncio.get_running_loop().time() + self._seconds, request.deadline - _ANSWER_SECONDS)
            missing = not await self._arrives(request, response, arrived, until)
        finally:
            self._waiting -= 1
        answered = self._handler.handle(request)
        response = await answered if isinstance(answered, Awaitable) else answered
        return self._warned(request, response) if missing else response

    async def _arrives(
        self, request: AdmissionRequest, response: Response, arrived: asyncio.Event, until: float
    ) -> bool:
        """Whether the object arrives in time. A check walks through the request, so there is one per arrival."""
        with suppress(TimeoutError):
            async with asyncio.timeout_at(until):
                while True:
                    await arrived.wait()
                    arrived = self._arrived
                    if not self._is_missing(request, response):
                        return True
        return not self._is_missing(request, response)

    def _warned(self, request: AdmissionRequest, response: Response) -> Response:
        if self._warning is None or not isinstance(response, Allowed | Patched):
            return response
        return replace(response, warnings=(*response.warnings, self._warning(request)))

    def _wake(self) -> None:
        self._arrived.set()
        self._arrived = asyncio.Event()


def namespace_lag(pods: Handler, cache: ClusterCache, seconds: float = _SECONDS) -> WatchLag:
    """The handler of pods, which wait for their namespace."""

    def is_missing(request: AdmissionRequest, _: Response) -> bool:
        return not cache.knows_namespace(request.namespace)

    def warning(request: AdmissionRequest) -> str:
        return (
            f"topology-webhook does not know namespace {request.namespace} yet: its label and annotations did not "
            "count for this pod, only the settings did."
        )

    return WatchLag(pods, cache.namespace_changed, is_missing, MOST_PODS, warning, seconds)


def topology_lag(workloads: Handler, cache: ClusterCache, seconds: float = _SECONDS) -> WatchLag:
    """The handler of workloads. One that would be denied waits for the topologies that it names."""

    def is_missing(request: AdmissionRequest, response: Response) -> bool:
        return isinstance(response, Denied) and not _named(request) <= cache.snapshot().topologies.keys()

    return WatchLag(workloads, cache.topology_changed, is_missing, MOST_WORKLOADS, seconds=seconds)


def _named(request: AdmissionRequest) -> frozenset[str]:
    found = (annotations for _, annotations in annotations_in(request.object) if isinstance(annotations, Mapping))
    named = (annotations.get(KAI_TOPOLOGY) for annotations in found)
    return frozenset(name.strip() for name in named if isinstance(name, str) and name)


def handlers_of(
    rules: Rules, snapshot: Callable[[], ClusterSnapshot], bindings: Handler, claims: Handler
) -> Mapping[str, Handler]:
    """Path -> handler. snapshot: returns the cluster at the time of a review.

    bindings: reviews Bindings. claims: reviews the allocations of ResourceClaims.
    """
    return {
        _MUTATE_PODS: PodMutator(snapshot, rules, monotonic),
        BINDINGS: bindings,
        "/mutate/workloads": WorkloadMutator(rules),
        "/validate/pods": PodValidator(snapshot, rules),
        "/validate/namespaces": NamespaceValidator(),
        "/validate/nodes": NodeValidator(),
        _CLAIMS: claims,
        _VALIDATE_WORKLOADS: WorkloadValidator(snapshot, rules),
    }


def waiting_handlers(handlers: Mapping[str, Handler], cache: ClusterCache) -> Mapping[str, Handler]:
    """The handlers, of which two wait: pods for their namespace, and workloads for the topologies that they name."""
    return {
        **handlers,
        _MUTATE_PODS: namespace_lag(handlers[_MUTATE_PODS], cache),
        _VALIDATE_WORKLOADS: topology_lag(handlers[_VALIDATE_WORKLOADS], cache),
    }
