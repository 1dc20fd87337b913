"""Names another node to the scheduler for a pod whose binding was refused.

The scheduler keeps no memory of a refusal: the node that it ranked first it ranks first again. A pod that is not held
to one node (it was left to the scheduler, let go without a place, or created while nobody answered) would be refused
there for ever, though others could take it. The node in a pod's `status.nominatedNodeName` is tried before any are
ranked. It is a proposal: a node that the scheduler cannot use for the pod is passed over, and nothing is promised.

1. A binding was refused. The scheduler first notes its failure in the pod's status, so that is waited for. It is the
   proof, too, that the scheduler has tried: a review may be forged, and the status of a pod not be written for that.
2. Named is the node that the pod was promised when it was let go, else the best that can take it now; one that was not
   tried lately. Of pods that were refused together each is named another one, as far as there are as many.
3. When all were tried they have their turn again after a while.

Source: kubernetes pkg/scheduler/schedule_one.go (evaluateNominatedNode, handleSchedulingFailure).
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from time import monotonic
from typing import Any, Final, NoReturn

import structlog

from webhook.admission.binding.decision import assigned_node
from webhook.admission.pod.managed_fields import without_our_preferences
from webhook.cache.cluster_cache import ClusterCache
from webhook.controllers.placement.assignment import without
from webhook.engine.decide import decide
from webhook.internal_errors import Where, contained
from webhook.kube.pod_writes import Outcome, PodWrites
from webhook.model.errors import UserError
from webhook.model.intent import parse_numa_intent
from webhook.model.pod import Pod
from webhook.model.rules import Rules

log = structlog.get_logger(__name__)

# The scheduler's patch takes some 10 ms, and its next attempt comes after 1 s at the earliest.
_SETTLE_SECONDS: Final = 0.3
# Six of the scheduler's longest pauses (10 s): what it passes over would otherwise be kept from others all the time.
_AGAIN_SECONDS: Final = 60.0
_LOOKED_AT: Final = 16

# A busy scheduler writes later; one that never does has not tried.
_PROOF_SECONDS: Final = 3.0
# A review is some hundred bytes here; a scheduler has some hundred pods under way at a time, a pod a few nodes.
_MOST_PODS: Final = 1024
_MOST_NODES: Final = 8
# The API server's words, which the scheduler repeats. Source: apiserver pkg/admission/plugin/webhook/errors.
_DENIED: Final = "denied the request"

_Incarnation = tuple[str, str]
"""(namespace/name, uid)."""


class Nominator:
    """Told of every refusal, it names nodes."""

    def __init__(self, cache: ClusterCache, writes: PodWrites, rules: Rules, is_leader: Callable[[], bool]) -> None:
        self._cache = cache
        self._writes = writes
        self._rules = rules
        self._is_leader = is_leader
        self._refused: dict[_Incarnation, dict[str, float]] = {}
        self._tried: dict[_Incarnation, dict[str, float]] = {}
        self._arrived = asyncio.Event()

    def refused(self, pod: str, uid: str, node: str) -> None:
        """The node cannot hold the pod namespace/name that the scheduler wanted to bind to it."""
        nodes = self._refused.setdefault((pod, uid), {})
        nodes[node] = monotonic()
        if len(nodes) > _MOST_NODES:
            del nodes[next(iter(nodes))]
        if len(self._refused) > _MOST_PODS:
            del self._refused[next(iter(self._refused))]
        self._arrived.set()

    async def run(self) -> NoReturn:
        """Name nodes, for ever."""
        while True:
            await self._arrived.wait()
            await asyncio.sleep(_SETTLE_SECONDS)
            self._arrived.clear()
            await self._name(monotonic())

    async def _name(self, now: float) -> None:
        refused = self._proven(now)
        self._tried = {
            one: lately
            for one, tried in self._tried.items()
            if (lately := {node: at for node, at in tried.items() if now - at < _AGAIN_SECONDS})
        }
        named: Counter[str] = Counter()
        for key, uid in refused:
            with contained(Where.POD, pod=key):
                await self._name_one(key, uid, named, now)
            await asyncio.sleep(0)  # reviews have their turn

    def _proven(self, now: float) -> list[_Incarnation]:
        """Those of which the scheduler says so itself; the others are looked at again for a while."""
        proven = []
        for one, nodes in list(self._refused.items()):
            raw = self._cache.waiting_pod(*one)
            told = set() if raw is None else _told(raw)
            if denied := told & nodes.keys():
                self._tried.setdefault(one, {}).update({node: nodes[node] for node in denied})
                proven.append(one)
            if raw is None or denied or all(now - at > _PROOF_SECONDS for at in nodes.values()):
                del self._refused[one]
        if self._refused:
            self._arrived.set()
        return sorted(proven)

    async def _name_one(self, key: str, uid: str, named: Counter[str], now: float) -> None:
        node = self._node_for(key, uid, named) if self._is_leader() else None
        if node is None:
            return
        named[node] += 1
        self._tried.setdefault((key, uid), {})[node] = now
        outcome = await self._writes.nominate(key, uid, node)
        if outcome is Outcome.WRITTEN:
            log.info("pod.nominated", pod=key, node=node)
        elif outcome not in {Outcome.STALE, Outcome.GONE}:
            log.warning("pod.nomination_failed", pod=key, error=self._writes.error)

    def _node_for(self, key: str, uid: str, named: Counter[str]) -> str | None:
        raw = self._cache.waiting_pod(key, uid)
        if raw is None or assigned_node(raw) is not None:
            return None
        try:
            pod = Pod.from_object(without_our_preferences(raw))
            intent = parse_numa_intent(pod.annotations)[0]
        except UserError:
            return None
        tried = self._tried.get((key, uid), {})
        assumed = self._cache.assumed_node(key)
        if assumed is not None and assumed not in tried:
            return assumed
        decision = decide(without(self._cache.snapshot().nodes, tried), pod, intent, self._rules.engine)
        return min((best.node for best in decision.best(_LOOKED_AT)), key=named.__getitem__, default=None)


def _told(raw: Mapping[str, Any]) -> set[str]:
    """The words of what the scheduler says of the last binding of the pod that a webhook has denied."""
    for condition in (raw.get("status") or {}).get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            message: str = condition.get("message") or ""
            return {word.strip(".,:;()") for word in message.split()} if _DENIED in message else set()
    return set()
