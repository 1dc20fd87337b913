"""Nominates another node for a pod whose binding was rejected.

The scheduler does not remember a rejection: it ranks the same node first again. This affects pods that are not pinned
to one node: delegated to the scheduler, ungated without an assignment, or created while no replica answered. Such a pod
would be rejected there again and again, although other nodes fit. The scheduler tries the node in a pod's
`status.nominatedNodeName` before it ranks any. This is a suggestion: the scheduler passes over a node that it cannot
use for the pod, and nothing is reserved.

1. A binding was rejected. The scheduler first writes its failure into the pod's status, so the nominator waits for
   that. It also proves that the scheduler has tried: a review may be forged, but a forged review does not write the
   pod's status.
2. The nominated node is the one that was assumed for the pod when it was ungated, else the best that fits now and was
   not tried lately. Pods that were rejected together get different nodes, as far as there are enough.
3. Nodes that were tried become candidates again after a while.

Source: kubernetes pkg/scheduler/schedule_one.go (evaluateNominatedNode, handleSchedulingFailure).
"""

import asyncio
from collections import Counter
from collections.abc import Callable
from time import monotonic
from typing import Final

import structlog

from webhook.controllers.sweep import Sweep
from webhook.engine.decide import decide
from webhook.formats.koordinator.intent import parse_numa_intent
from webhook.formats.kubernetes.pod import Pod
from webhook.formats.patches.managed_fields import without_our_preferences
from webhook.internal_errors import Where, contained
from webhook.kube.pod_writes import PodWrites
from webhook.model.errors import UserError
from webhook.model.raw import Raw
from webhook.placing.pod.assignment import without
from webhook.placing.pod.binding_pod import assigned_node
from webhook.state.avoided_nodes import avoiding
from webhook.state.cluster_cache import ClusterCache
from webhook.state.rules import Rules

log = structlog.get_logger(__name__)

# The scheduler's patch takes about 10 ms, and its next attempt comes after 1 s at the earliest.
_SETTLE_SECONDS: Final = 0.3
# Six of the scheduler's longest pauses (10 s). Otherwise a node that it passes over would be kept from other pods all
# the time.
_AGAIN_SECONDS: Final = 60.0
_LOOKED_AT: Final = 16

# A busy scheduler writes later; one that never writes has not tried.
_PROOF_SECONDS: Final = 3.0
# A review takes some hundred bytes here. A scheduler handles some hundred pods at a time, and tries a few nodes for
# each.
_MOST_PODS: Final = 1024
_MOST_NODES: Final = 8
# The API server's wording, which the scheduler repeats. Source: apiserver pkg/admission/plugin/webhook/errors.
_DENIED: Final = "denied the request"

_Incarnation = tuple[str, str]
"""(namespace/name, uid)."""


class Nominator(Sweep):
    """Nominates nodes; `refused` is called for every rejected binding."""

    leader_only = False

    def __init__(self, cache: ClusterCache, writes: PodWrites, rules: Rules, is_leader: Callable[[], bool]) -> None:
        super().__init__(is_leader)
        self._cache = cache
        self._writes = writes
        self._rules = rules
        self._refused: dict[_Incarnation, dict[str, float]] = {}
        self._tried: dict[_Incarnation, dict[str, float]] = {}
        self._arrived = asyncio.Event()

    def refused(self, pod: str, uid: str, node: str) -> None:
        """Record that the node cannot hold the pod namespace/name that the scheduler wanted to bind to it."""
        nodes = self._refused.setdefault((pod, uid), {})
        nodes[node] = monotonic()
        if len(nodes) > _MOST_NODES:
            del nodes[next(iter(nodes))]
        if len(self._refused) > _MOST_PODS:
            del self._refused[next(iter(self._refused))]
        self._arrived.set()

    async def _rest(self) -> None:
        await self._arrived.wait()
        await asyncio.sleep(_SETTLE_SECONDS)
        self._arrived.clear()

    async def _sweep(self, now: float) -> None:
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
            await asyncio.sleep(0)  # let reviews run

    def _proven(self, now: float) -> list[_Incarnation]:
        """The pods whose status reports the rejection; the others are checked again for a while."""
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
        write = await self._writes.nominate(key, uid, node)
        if write.is_written:
            log.info("pod.nominated", pod=key, node=node)
        elif not write.is_settled:
            log.warning("pod.nomination_failed", pod=key, error=write.error)

    def _node_for(self, key: str, uid: str, named: Counter[str]) -> str | None:
        raw = self._cache.waiting_pod(key, uid)
        if raw is None or assigned_node(raw) is not None:
            return None
        try:
            pod = avoiding(Pod.from_object(without_our_preferences(raw)), raw, self._cache.avoided.by_key())
            intent = parse_numa_intent(pod.annotations)[0]
        except UserError:
            return None
        tried = self._tried.get((key, uid), {})
        assumed = self._cache.assumed_node(key)
        if assumed is not None and assumed not in tried:
            return assumed
        nodes = without(self._cache.snapshot().nodes, tried.keys() | self._cache.shards.closed())
        decision = decide(nodes, pod, intent, self._rules.engine)
        return min((best.node for best in decision.best(_LOOKED_AT)), key=named.__getitem__, default=None)


def _told(raw: Raw) -> set[str]:
    """The words of the pod's last scheduling failure, if a webhook denied the binding; else empty."""
    for condition in (raw.get("status") or {}).get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            message: str = condition.get("message") or ""
            return {word.strip(".,:;()") for word in message.split()} if _DENIED in message else set()
    return set()
