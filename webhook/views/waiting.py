"""What waits for a node, since when and why: single pods, and gangs as one entry with their members.

The reason is what the service wrote into the pod; without it, what the scheduler reports of its last attempt. So the
page asks no Planner: that of the leader has answered, and any other replica's knows neither holds nor reserved domains.
A command that asks its own Planner adds what would let an entry run, and which pods a preemptor would end.
"""

from collections import defaultdict
from dataclasses import dataclass
from enum import StrEnum

from webhook.engine.preemption.candidates import Candidate, Candidates, NoVictims, Victims
from webhook.formats.kubernetes.gates import is_gated, waits_for_us_alone
from webhook.formats.kubernetes.membership import membership_of
from webhook.formats.kubernetes.timestamps import epoch_seconds
from webhook.model.names import PLACEMENT
from webhook.model.raw import Raw
from webhook.state.cluster_cache import ClusterCache
from webhook.state.delegated_pods import last_failure
from webhook.state.unmanaged import is_annotated


class Preempts(StrEnum):
    """Whether evicting lower-priority pods would let a pod or gang start."""

    VICTIMS = "Victims"
    """The end of these pods."""
    ENDING = "Ending"
    """Pods that are being deleted already."""
    NO_END = "NoEnd"
    """Evicting lower-priority pods would not help."""
    NEVER = "Never"
    """It must not preempt, e.g. because of `preemptionPolicy: Never`."""
    UNKNOWN = "Unknown"
    """It waits for something else, or no answer was found within the limits."""


@dataclass(frozen=True, slots=True)
class VictimView:
    """A pod that would end."""

    namespace: str
    name: str
    node: str
    priority: int
    gang: bool
    """Whether it is a member of a gang."""


@dataclass(frozen=True, slots=True)
class PreemptionView:
    """Which pods would end for a pod or gang that waits."""

    verdict: Preempts
    nodes: tuple[str, ...] = ()
    """Where it would start then."""
    victims: tuple[VictimView, ...] = ()
    """The most important first."""
    violations: int = 0
    """How many of them violate a PodDisruptionBudget."""
    why: str = ""
    """Why it must not preempt."""


def preemption_view(found: Victims | NoVictims, candidates: Candidates) -> PreemptionView:
    """The view of an answer."""
    if isinstance(found, NoVictims):
        return PreemptionView(Preempts.NO_END if found.certain else Preempts.UNKNOWN)
    victims = tuple(_victim(candidates.pods[key]) for key in found.pods)
    verdict = Preempts.VICTIMS if victims else Preempts.ENDING
    return PreemptionView(verdict, found.nodes, victims, found.violations)


def _victim(pod: Candidate) -> VictimView:
    namespace, _, name = pod.key.partition("/")
    return VictimView(namespace, name, pod.node, pod.priority, bool(pod.gang))


class WaitsFor(StrEnum):
    """Whose turn it is."""

    SERVICE = "Service"
    """The pod waits behind the service's gate."""
    OTHER_GATES = "OtherGates"
    """Another controller has to remove its gate first."""
    SCHEDULER = "Scheduler"
    """It has no gate; the scheduler has to bind it."""


@dataclass(frozen=True, slots=True)
class WaitingPod:
    """One pod without a node, or with one that it is not bound to yet."""

    name: str
    waits_for: WaitsFor
    node: str
    """The node that it is assigned to; empty if none is."""
    seconds: int | None
    """Since its creation; None if not known."""
    reason: str
    """Empty if nothing is reported yet."""


class Helps(StrEnum):
    """What would let a pod or gang run."""

    NOTHING_NEEDED = "NothingNeeded"
    """It fits now: no pod has to end."""
    PODS = "Pods"
    """The end of some pods on one node."""
    SLOTS = "Slots"
    """A gang: more room in a domain."""
    NO_END = "NoEnd"
    """No terminating pods: it fits nowhere even then."""
    UNKNOWN = "Unknown"
    """It waits for something else, or no answer was found within the limits."""


@dataclass(frozen=True, slots=True)
class Slots:
    """How many pods of a gang the best domain of a level has room for."""

    level: str
    """The node label; empty for the whole cluster."""
    domain: tuple[tuple[str, str], ...]
    holds: int
    needed: int
    resource: str
    """The resource that is short there; empty if it is usable nodes."""


@dataclass(frozen=True, slots=True)
class Frees:
    """What would let a pod or gang run."""

    helps: Helps
    node: str = ""
    """Of the pods below; for NothingNeeded, where it fits."""
    pods: tuple[str, ...] = ()
    """namespace/name of the pods whose end would let it run."""
    at_least: int = 0
    """No smaller set exists on any node; as many as `pods` if the set is certainly the smallest."""
    slots: tuple[Slots, ...] = ()
    """Of a gang, coarse to fine."""
    why: str = ""
    """What else it waits for."""


@dataclass(frozen=True, slots=True)
class WaitingView:
    """A pod, or a gang with members that wait."""

    namespace: str
    name: str
    gang: bool
    seconds: int | None
    """Of the pod that has waited longest."""
    with_node: int
    """Members of the gang that have a node."""
    reason: str
    """That of the pod that has waited longest."""
    pods: tuple[WaitingPod, ...]
    """Those that wait, the longest first."""
    frees: Frees | None = None
    """None if it was not computed, or has a node."""


def waiting_views(cache: ClusterCache) -> tuple[WaitingView, ...]:
    """All managed pods that wait, the longest first."""
    entries: dict[str, tuple[str, str, bool]] = {}
    pods: dict[str, list[WaitingPod]] = defaultdict(list)
    now, ledger = cache.current_time(), cache.snapshot().nodes.ledger
    for key, raw in cache.waiting_pods().items():
        if not (is_annotated(raw) or waits_for_us_alone(raw)) or "deletionTimestamp" in raw["metadata"]:
            continue
        namespace, _, name = key.partition("/")
        gang = membership_of(raw)
        group = f"pod {key}" if gang is None else gang.group
        entries[group] = namespace, name if gang is None else gang.name, gang is not None
        reservation = None if ledger is None else ledger.get(key)
        pods[group].append(_pod(name, raw, "" if reservation is None else reservation.node, now))
    assigned = cache.gangs.groups()
    views = [
        _view(*entries[group], sorted(members, key=_longest_first), len(assigned.get(group, ())))
        for group, members in pods.items()
    ]
    return tuple(sorted(views, key=lambda view: (-(view.seconds or 0), view.namespace, view.name)))


def _pod(name: str, raw: Raw, node: str, now: float) -> WaitingPod:
    metadata = raw["metadata"]
    created = epoch_seconds(metadata.get("creationTimestamp"))
    waits_for = WaitsFor.SCHEDULER
    if is_gated(raw):
        waits_for = WaitsFor.SERVICE if waits_for_us_alone(raw) else WaitsFor.OTHER_GATES
    said = (metadata.get("annotations") or {}).get(PLACEMENT, "")
    failure = last_failure(raw) if waits_for is WaitsFor.SCHEDULER else None
    reason = "; ".join(part for part in ("; ".join(said.splitlines()), failure) if part)
    seconds = None if created is None else max(0, int(now - created))
    return WaitingPod(name, waits_for, node, seconds, reason)


def _longest_first(pod: WaitingPod) -> tuple[int, str]:
    return -(pod.seconds or 0), pod.name


def _view(namespace: str, name: str, gang: bool, pods: list[WaitingPod], with_node: int) -> WaitingView:
    oldest = pods[0]
    return WaitingView(namespace, name, gang, oldest.seconds, with_node, oldest.reason, tuple(pods))
