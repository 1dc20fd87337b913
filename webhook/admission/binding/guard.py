"""The mutating webhook on bindings: finds the pod, decides, and assumes what the pod gets.

1. The pod is read from the cache, else by one GET (`PodLookup`). Bindings of unmanaged pods are allowed on any
   replica. So are Bindings that the API server will reject: of a pod that is bound, gated or missing.
2. An assigned pod that gets what it was assigned is answered by any replica, from the pod in its watch (see below).
   All other pods need a reservation, which only the leader makes. It is checked after the last wait, so nothing else
   runs between this check and the response.
   - If another replica leads, it is asked (`LeaderNeededError`). If it cannot be asked, an assigned pod gets what it
     was assigned or is refused; others are refused, and the scheduler tries again.
   - Without a leader the response to these is an HTTP 503, and the webhook's failurePolicy decides, as it does while no
     replica answers. Ignore binds the pod without an allocation; with Fail the scheduler tries again.
   - A new leader does not know what the last one assumed in responses that are still being written into pods. It
     reserves nothing new until they must be visible. It refuses, so that the scheduler tries again.
3. A pod that needs a reservation is assumed before the response is sent, so the next Binding does not get the same
   resources.
4. A kubelet admits pods in the order in which they arrive, and two Bindings to one node may be written in either order.
   So the next Binding to the node waits until the first one is visible, unless the order makes no difference
   (`in_any_order`).
5. A Binding also waits if it would take the NUMA nodes of a pod that was assigned there earlier, until that one is
   bound. Not too many wait at a time (`WaitingReviews`).
   Only bindings of schedulers reserve anything. The pod of another user's binding gets its allocation once it is bound.
6. A node that the pod avoids after a rejection is refused (see `cache.avoided_nodes`).
7. If the node cannot take the pod, another node may: the nominator is notified (see `controllers.nominator`).

Why replicas that know nothing of each other's answers may answer for assigned pods. Let pod A be assigned the amounts X
on one NUMA node, or on none.
- While A's annotation says X, no other pod gets any of X: the annotation reserves it on the leader and on each
  replica, also while a binding that the leader gave other NUMA nodes is under way. The Binding carries the
  resourceVersion of the pod that was judged. So if the leader has taken X back by then, the API server rejects it.
- If the kubelet chooses, it must choose X on the node as its bound pods leave it, which A finds with certainty. Others
  may arrive before A: each takes room elsewhere, or beside X. A kubelet takes the first feasible mask in an order that
  the node's capacity fixes, and X stays feasible, so it is still the first. Likewise A's arrival changes nothing for
  the others. So no order of these bindings has to be kept, and nothing has to be assumed for A: X is reserved already.
- The order counts where that does not hold, and the leader keeps it: if the kubelet would choose something else, if
  its choice is not certain, and for pods on several NUMA nodes, or beside such a pod. With them the first feasible mask
  is not always taken (best-effort), and the memory manager lets no other pod into their NUMA nodes.
- If the kubelet would choose what another assigned pod was given, that one is bound first. Each replica sees when.
- What the pod's claims got devices near cannot differ from X: A was assigned both (`_near_devices`).
- A replica whose watch of pods has failed asks the leader. An avoided node is refused by the leader, too, which then
  tells the nominator.

Without client certificates a review may be forged. It is answered, and what it reserves is kept only briefly (see
`review_trust`).
"""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from enum import Enum
from time import monotonic
from typing import Any, Final

from webhook.admission.binding.decision import (
    Given,
    Pass,
    RecentBindings,
    Refusal,
    guard,
    into_binding,
    rejected_before,
)
from webhook.admission.binding.review_trust import FIRST_SECONDS, Doubts
from webhook.admission.handler import LeaderNeededError, NotNowError
from webhook.admission.reserved_fields import forgery
from webhook.admission.response import Allowed, Denied, Patched, Response, Unreserved
from webhook.formats.kubernetes.admission_review import AdmissionRequest
from webhook.formats.kubernetes.gates import is_gated
from webhook.placing.pod.binding_pod import BindingPod, BindingPods
from webhook.signal import Signal
from webhook.state.assumed.assumed_pod import AssumedPod
from webhook.state.cluster_cache import ClusterCache
from webhook.state.kubelet_admission import KubeletAdmission
from webhook.state.rules import Rules
from webhook.state.unmanaged import why_unmanaged

# A watch shows a change within milliseconds.
_WATCH_SECONDS: Final = 0.05
_POLL_SECONDS: Final = 0.005
# Parallel GETs, and the minimum time that each one holds its slot: 100 per second.
_SLOTS: Final = 4
_SLOT_SECONDS: Final = 0.04
# A few hundred bytes each.
_REMEMBERED: Final = 4096

# Pods that arrive in another order than they were placed in are in that after two or three attempts of the scheduler,
# which waits for 1, 2, 4 and 8 s. If room was freed instead, the pod may wait until others take it, for a time.
_APART_SECONDS: Final = 30.0

Fetch = Callable[[str, str], Awaitable[Mapping[str, Any] | None]]
"""(namespace, name) -> the pod by one GET; None if there is none."""
# As many as an API server handles at a time (--max-mutating-requests-inflight is 200, and 600 with all priority
# levels): a scheduler sends the bindings of a burst without waiting for answers.
_MOST: Final = 600
# A Binding is written within about 10 ms of its response, and visible as soon. Half of the time to the deadline is
# ample for that. The rest is for the response: a late one is worse than a refusal, because the API server then allows
# the Binding as it was.
_WAITED_SHARE: Final = 0.5
# A waiting review is woken. Time alone can end its wait, too: a binding that never becomes visible. Each check costs a
# decision, and in a burst hundreds of reviews wait.
_CHECK_SECONDS: Final = 0.5
# A Binding that is not visible by then was rejected later in the request, or the API server hangs: waiting longer keeps
# no order. The pod's resources stay reserved until the assumed pod expires.
_ON_ITS_WAY_SECONDS: Final = 5.0
# The upper bound of a wait. Real requests wait for half of the webhook's timeout, usually 5 s.
_LONGEST_WAIT: Final = 5.0


class PodLookup:
    """Finds the pod of a Binding: in the cache, else by one GET, `fetch`.

    The scheduler may see a pod, or the removal of its gate, some milliseconds before the cache does. So the cache is
    read for a little longer before the API server is called: almost no real Binding needs that call. Forged reviews,
    for example of pods that do not exist, cause a bounded number of calls per second.
    """

    def __init__(self, cache: ClusterCache, fetch: Fetch) -> None:
        self._cache = cache
        self._fetch = fetch
        self._slots = asyncio.Semaphore(_SLOTS)
        self._absent: OrderedDict[tuple[str, str, str], None] = OrderedDict()

    async def find(self, namespace: str, name: str, uid: str, give_up: float) -> Mapping[str, Any] | None:
        """The pod, with this uid if one is given; None if there is none.

        Raises TimeoutError if no lookup was free before `give_up` (the event loop's clock), and what `fetch`
        raises.
        """
        clock = asyncio.get_running_loop().time
        patience = min(give_up, clock() + _WATCH_SECONDS)
        while (pod := self._bindable(namespace, name, uid)) is None:
            if clock() >= patience:
                return await self._ask(namespace, name, uid, give_up)
            await asyncio.sleep(_POLL_SECONDS)
        return pod

    def _bindable(self, namespace: str, name: str, uid: str) -> Mapping[str, Any] | None:
        pod = self._cache.waiting_pod(f"{namespace}/{name}", uid)
        return None if pod is None or is_gated(pod) else pod

    async def _ask(self, namespace: str, name: str, uid: str, give_up: float) -> Mapping[str, Any] | None:
        if (namespace, name, uid) in self._absent:
            return None
        loop = asyncio.get_running_loop()
        async with asyncio.timeout_at(give_up):
            await self._slots.acquire()
        began = loop.time()
        try:
            if (pod := self._bindable(namespace, name, uid)) is not None:
                return pod
            pod = await self._fetch(namespace, name)
        finally:
            loop.call_later(max(0.0, began + _SLOT_SECONDS - loop.time()), self._slots.release)
        if uid and (pod is None or (pod.get("metadata") or {}).get("uid") != uid):
            # A missing uid stays missing. Without a uid, a pod of this name may be created at any moment.
            self._absent[namespace, name, uid] = None
            if len(self._absent) > _REMEMBERED:
                self._absent.popitem(last=False)
            return None
        return pod


class Waiting:
    """A waiting review."""

    __slots__ = ("_woken", "after", "displaced")

    def __init__(self, after: Collection[str]) -> None:
        self.after = after
        """The pods (namespace/name) that it waits for."""
        self.displaced = False
        """Whether it must be answered at once."""
        self._woken = asyncio.Event()

    def wake(self) -> None:
        """Let it check again."""
        self._woken.set()

    async def woken(self, seconds: float) -> None:
        """Return when it is woken, or after this time."""
        timer = asyncio.get_running_loop().call_later(seconds, self._woken.set)
        try:
            await self._woken.wait()
        finally:
            timer.cancel()
            self._woken.clear()


class WaitingReviews:
    """The reviews that wait for other bindings, by namespace and pod, and by the pods that they wait for.

    A review waits for pods by their names, and the first of them that is bound or deleted wakes it, in the order in
    which the reviews came. Each waiting review costs some kilobytes. If too many wait, the oldest of the namespace with
    the most is answered: a client that sends reviews of many pods displaces only its own.
    """

    def __init__(self, most: int = _MOST) -> None:
        self._most = most
        self._of: dict[str, dict[tuple[str, Waiting], None]] = {}
        self._after: dict[str, dict[Waiting, None]] = {}
        self._total = 0

    @contextmanager
    def one(self, namespace: str, pod: str, after: Collection[str] = ()) -> Iterator[Waiting]:
        """Add a review. It displaces an earlier one of the same pod, which the scheduler has given up."""
        waiting = Waiting(after)
        mine = self._of.setdefault(namespace, {})
        for key in [key for key in mine if key[0] == pod]:
            self._displace(namespace, key)
        mine = self._of.setdefault(namespace, {})
        mine[pod, waiting] = None
        for other in after:
            self._after.setdefault(other, {})[waiting] = None
        self._total += 1
        if self._total > self._most:
            most = max(self._of, key=lambda each: len(self._of[each]))
            self._displace(most, next(iter(self._of[most])))
        try:
            yield waiting
        finally:
            self._remove(namespace, (pod, waiting))

    def bound_or_gone(self, pod: str, _uid: str) -> None:
        """Wake the reviews that wait for a pod of this name. One that is woken too early finds that it still waits."""
        for waiting in self._after.get(pod, ()):
            waiting.wake()

    def _displace(self, namespace: str, key: tuple[str, Waiting]) -> None:
        key[1].displaced = True
        key[1].wake()
        self._remove(namespace, key)

    def _remove(self, namespace: str, key: tuple[str, Waiting]) -> None:
        mine = self._of.get(namespace, {})
        if key not in mine:
            return
        del mine[key]
        self._total -= 1
        if not mine:
            del self._of[namespace]
        for other in key[1].after:
            del self._after[other][key[1]]
            if not self._after[other]:
                del self._after[other]


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
    allocation = pod.allocation
    elsewhere = (
        allocation is not None and allocation.numa_nodes and dict(allocation.numa_nodes).keys() != first.numa.keys()
    )
    return first.signature == pod.signature and not elsewhere


def in_any_order(given: Given, in_progress: Sequence[AssumedPod]) -> bool:
    """Whether a pod that gets this may arrive before, between or after the others whose bindings are in progress.

    The order makes no difference in two cases:
    - The service chooses the NUMA nodes of all these pods.
    - The pods are equal, and each gets the same. The first one was given its NUMA nodes on the node as it is, each
      later one on the node with the earlier ones subtracted. Whichever arrives as the nth finds the same amounts free
      as the nth in the predicted order, and so it is given the same.
    """
    numa = dict(given.numa_nodes)
    return all(
        (given.chosen and other.chosen)
        or (
            given.allocation_certainty.sure
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


_LEADER_CHANGED: Final = Refusal(
    "the leader has just changed, and NUMA nodes that the last leader reserved may not be visible yet",
    "LeaderChanged",
)

NOT_LEADER: Final = Refusal(
    "only the leader of topology-webhook can answer this, and it could not be asked; the next attempt may reach it",
    "NotLeader",
)

_BINDING_IN_PROGRESS: Final = Refusal(
    "another pod was just bound to this node and is not visible yet; the kubelet admits pods in order of arrival",
    "BindingInProgress",
)


class LeaderState(Enum):
    """What this replica may reserve."""

    NONE = "not the leader, and no other is known to be"
    ELSEWHERE = "not the leader: another one is, or is about to be"
    ASSIGNED_ONLY = "the leader, while reservations of the last one may not be visible yet"
    ALL = "the leader"


_NOT_SEEN: Final = Refusal("the pod is not in the cache yet, and lookups of other pods go first", "BindingInProgress")


class BindingGuard:
    """The handler.

    assume_ttl: seconds after which a response that is not in the pod never will be. on_refused: called with the pod
    (namespace/name), its uid and the node that cannot take it. doubts: None if every caller is the API server.
    """

    def __init__(
        self,
        cache: ClusterCache,
        fetch: Fetch,
        leader_state: Callable[[str], LeaderState],
        rules: Rules,
        assume_ttl: float,
        on_refused: Callable[[str, str, str], None],
        doubts: Doubts | None = None,
    ) -> None:
        self._cache = cache
        self._lookup = PodLookup(cache, fetch)
        self._leader_state = leader_state
        self._rules = rules
        self._doubts = doubts
        self._assume_ttl = assume_ttl if doubts is None else FIRST_SECONDS
        self._on_refused = on_refused
        self.not_enforced = Signal[[str, str, str]]()
        """Emitted with a pod, its uid and the answer if its node does not enforce its NUMA policy."""
        self._waiting = WaitingReviews()
        self._recent = RecentBindings()
        self._pods = BindingPods(rules)
        self._apart: dict[str, float] = {}  # uid of a pod -> when its kubelet first would have taken other NUMA nodes
        cache.bound_or_gone.subscribe(self._pods.bound_or_gone)
        cache.bound_or_gone.subscribe(self._waiting.bound_or_gone)

    async def handle(self, request: AdmissionRequest) -> Response:
        """Answer a review. Raises NotNowError or LeaderNeededError."""
        binding = request.object
        if forged := forgery(request, self._rules):
            return Denied(" ".join(map(str, forged.faults)), "ReservedField")
        metadata = binding.get("metadata") or {}
        name, uid = request.name or metadata.get("name", ""), metadata.get("uid") or ""
        node = (binding.get("target") or {}).get("name", "")
        key, clock = f"{request.namespace}/{name}", asyncio.get_running_loop().time
        give_up = clock() + min(_LONGEST_WAIT, (request.deadline - clock()) * _WAITED_SHARE)
        while True:
            try:
                pod = await self._lookup.find(request.namespace, name, uid, give_up)
            except TimeoutError:
                return _refused(_NOT_SEEN)
            if pod is None:
                return Allowed(message="the pod does not exist; the API server will reject the binding")
            if reason := why_unmanaged(pod, self._rules):
                return Allowed(message=f"unmanaged: {reason}")
            if pod["spec"].get("nodeName"):
                return Allowed(message="the pod is bound already; the API server will reject the binding")
            if is_gated(pod):
                return Allowed(message="the pod is gated; the API server will reject the binding")
            in_progress = self._in_progress(node, key)
            binding_pod = self._pods.of(key, pod)
            verdict = (
                self._judge(request, binding_pod, node, in_progress)
                if may_be_joined(in_progress, binding_pod)
                else _wait(in_progress)
            )
            if not isinstance(verdict, Refusal):
                return verdict
            if not await self._has_moved(key, verdict.after, give_up):
                return _refused(verdict)
            # The pod is looked up again: resources assumed for a deleted pod would block other pods.

    async def _has_moved(self, pod: str, after: frozenset[str], give_up: float) -> bool:
        """Wait until one of `after` may be bound or deleted; False on timeout."""
        left = give_up - asyncio.get_running_loop().time()
        if left <= 0:
            return False
        with self._waiting.one(pod.partition("/")[0], pod, after) as waiting:
            await waiting.woken(min(left, _CHECK_SECONDS))
            return not waiting.displaced

    def _in_progress(self, node: str, pod: str) -> Sequence[AssumedPod]:
        return self._cache.bindings_in_progress(node, pod, monotonic() + self._assume_ttl - _ON_ITS_WAY_SECONDS)

    def _judge(
        self, request: AdmissionRequest, pod: BindingPod, node: str, in_progress: Sequence[AssumedPod]
    ) -> Response | Refusal:
        """The answer, or why the pod is to wait for others. in_progress: other bindings to the node.

        Raises NotNowError or LeaderNeededError.
        """
        leader_state = self._leader_state(node)
        if in_progress and leader_state is not LeaderState.ALL:
            return _wait(in_progress)
        allocation = pod.allocation
        is_reserved = allocation is not None and allocation.node == node and allocation.reserved and allocation.certain
        if leader_state is not LeaderState.ALL and not is_reserved:
            return _needs_reservation(leader_state, node)
        avoided = self._cache.avoided.by_key()
        refusal, pod = rejected_before(pod.raw, node, avoided), pod.learning(node, avoided)
        metadata = pod.raw["metadata"]
        key, uid = f"{request.namespace}/{metadata['name']}", metadata.get("uid", "")
        kubelet_admission = self._cache.kubelet_admission(node, key)
        verdict = refusal or self._decided(pod, node, key, uid, kubelet_admission)
        if in_progress and not (isinstance(verdict, Given) and in_any_order(verdict, in_progress)):
            return _wait(in_progress)
        if isinstance(verdict, Pass):
            return Allowed(message=verdict.message)
        leads = leader_state in {LeaderState.ASSIGNED_ONLY, LeaderState.ALL}
        by_scheduler = request.user.username in self._rules.scheduler_users | self._rules.trusted_users
        if isinstance(verdict, Refusal):
            if verdict.after:
                return verdict
            if leads and by_scheduler and not request.dry_run:
                self._on_refused(key, uid, node)
            return _final(_refused(verdict), leader_state, node)
        given = verdict if leader_state is LeaderState.ALL else verdict.as_assumed()
        if given is None:
            return _needs_reservation(leader_state, node)
        as_assigned = is_reserved and self._cache.follows_pods and _is_as_assigned(given, pod, kubelet_admission)
        if not by_scheduler:
            # The admission policy denies what we would add to this user's binding.
            message = (
                f"bound to {node} by {request.user.username}, who is none of --scheduler-users: "
                "no NUMA nodes are reserved"
            )
            answer = Allowed((message,), decided=True, message=message, unreserved=Unreserved.USER)
            return answer if as_assigned else _final(answer, leader_state, node)
        operations = into_binding(request.object, given, metadata.get("resourceVersion", "") if is_reserved else "")
        if not (as_assigned or leads):
            return _final(Patched(operations, decided=True, message=given.message), leader_state, node)
        if given.weak and given.not_enforced and not request.dry_run:
            self.not_enforced.emit(key, uid, given.message)
        unreserved = None if as_assigned or request.dry_run else self._reserve(given, key, uid)
        message = given.message if unreserved is None else f"{given.message}; {unreserved.sentence}"
        return Patched(operations, decided=True, message=message, unreserved=unreserved)

    def _decided(
        self, pod: BindingPod, node: str, key: str, uid: str, kubelet_admission: KubeletAdmission | None
    ) -> Given | Refusal | Pass:
        found = guard(pod, node, kubelet_admission, self._rules, self._cache.assumed(key, uid, node), self._recent)
        return self._near_devices(found, pod, uid) if isinstance(found, Given) else found

    def _near_devices(self, given: Given, pod: BindingPod, uid: str) -> Given | Refusal:
        """The refusal if the kubelet would take other NUMA nodes than those near which the pod's claims got devices.

        That is tried again for a time. If the pod was not placed near its devices, nothing is promised.
        """
        assigned = pod.allocation
        if assigned is None or not pod.raw["spec"].get("resourceClaims"):
            return given
        near = self._cache.devices.numa_nodes_held(pod.raw, given.node)
        takes, placed = ({number for number, _ in one.numa_nodes} for one in (given, assigned))
        if near <= takes or not near <= placed:
            self._apart.pop(uid, None)
            return given
        now = monotonic()
        if uid not in self._apart and len(self._apart) >= _REMEMBERED:
            del self._apart[next(iter(self._apart))]
        if now - self._apart.setdefault(uid, now) >= _APART_SECONDS:
            return given
        return Refusal(
            f"its devices are on {_numa(near)} of {given.node}, and its kubelet would take {_numa(takes)} for its CPUs "
            "and memory now",
            "DevicesApart",
        )

    def _reserve(self, given: Given, key: str, uid: str) -> Unreserved | None:
        """Assume the pod until it is visible with its NUMA nodes; returns why it was not assumed."""
        now = monotonic()
        seconds = self._assume_ttl if self._doubts is None else self._doubts.believed_seconds(key, uid, now)
        if not seconds:
            return Unreserved.DOUBTED
        assumed_pod = assumed_pod_of(given, key, uid, now + seconds)
        before = self._cache.assumed_by(key)
        if self._doubts is not None and before is not None and before.is_binding and before.uid == uid:
            # A repeated review does not prolong this: a binding that never comes would be awaited without limit.
            assumed_pod = replace(assumed_pod, expires=min(assumed_pod.expires, before.expires))
        self._cache.assume(assumed_pod)
        return None


def _needs_reservation(leader_state: LeaderState, node: str) -> Denied:
    """The refusal of a pod for which NUMA nodes must be reserved now. Raises NotNowError or LeaderNeededError."""
    match leader_state:
        case LeaderState.NONE:
            raise NotNowError("this replica is not the leader, and only the leader reserves NUMA nodes")
        case LeaderState.ELSEWHERE:
            raise LeaderNeededError(node, _refused(NOT_LEADER))
        case _:
            return _refused(_LEADER_CHANGED)


def _final(answer: Response, leader_state: LeaderState, node: str) -> Response:
    """The answer of a leader, or of a replica that knows of none. Raises LeaderNeededError if another one leads."""
    if leader_state is LeaderState.ELSEWHERE:
        raise LeaderNeededError(node, answer)
    return answer


def _is_as_assigned(given: Given, pod: BindingPod, kubelet_admission: KubeletAdmission | None) -> bool:
    """Whether any replica may give this (see the top)."""
    if pod.allocation is None or kubelet_admission is None or not given.is_as_assigned(pod.allocation):
        return False
    mine = {numa_id for numa_id, _ in given.numa_nodes}
    others = (other.assumed.numa for other in kubelet_admission.assigned)
    return given.chosen or all(len(numa) < 2 or mine.isdisjoint(numa) for numa in others)


def _numa(ids: Iterable[int]) -> str:
    return f"NUMA {'+'.join(map(str, sorted(ids)))}"


def _wait(in_progress: Sequence[AssumedPod]) -> Refusal:
    return replace(_BINDING_IN_PROGRESS, after=frozenset(other.pod for other in in_progress))


def _refused(refusal: Refusal) -> Denied:
    return Denied(refusal.message, refusal.reason, misrouted=refusal is NOT_LEADER)


def assumed_pod_of(given: Given, key: str, uid: str, expires: float) -> AssumedPod:
    """The assumed pod of a response. key: namespace/name."""
    return AssumedPod(
        key,
        uid,
        given.node,
        dict(given.numa_nodes),
        given.requests,
        given.policy,
        expires,
        is_binding=True,
        sure=given.allocation_certainty.sure,
        chosen=given.chosen,
        alternatives=given.allocation_certainty.alternatives,
        signature=given.signature,
    )
