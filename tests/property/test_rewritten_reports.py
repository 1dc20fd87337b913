"""An NRT that was only written again is not derived from again. Every reservation is as if it were."""

from collections.abc import Sequence
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders.records import cpus, resident, topology
from tests.fingerprints import pod_fingerprint
from webhook.engine.snapshot.ledger import Ledger
from webhook.formats.kubernetes.resident import ResidentPod
from webhook.formats.nrt import NodeTopology
from webhook.state.assumed.assumed_pod import AssumedPod
from webhook.state.assumed.assumed_pods import AssumedPods

CPUS = 16
# Seconds. On both sides of every limit: of a binding, of the 10 s after it, and of the 120 s (ReportingTimes).
BOUND = (0, 40)
WRITTEN = tuple(sorted(bound + after for bound in BOUND for after in (-1, 0, 9, 10, 11, 30) if bound + after >= 0))
STEPS = (0, 1, 9, 40, 120)

Event = ResidentPod | NodeTopology | AssumedPod | str
"""An upsert, something that was assumed, or the key of a pod that is deleted."""


class Plain(AssumedPods):
    """Derives all from every NRT."""

    def put_topology(self, topology: NodeTopology) -> bool:
        super().put_topology(topology)
        self._marked.add(topology.node)
        return True


@st.composite
def pods(draw: st.DrawFn, number: int) -> ResidentPod:
    """A pod that is bound, with an allocation or without."""
    name, amount = f"p{number}", {"cpu": 1000 * draw(st.integers(1, 8))}
    allocation = draw(st.sampled_from([None, {0: amount}, {1: amount}]))
    pod = resident(name=name, node="a", requests=amount, numa=allocation)
    return replace(
        pod,
        uid=name,
        bound_at=draw(st.sampled_from([None, *BOUND])),
        unallocated=allocation is None and draw(st.booleans()),
        exclusive_resources=draw(st.integers(0, 3)) > 0,
        started=draw(st.booleans()),
    )


@st.composite
def histories(draw: st.DrawFn) -> list[Event]:
    """Pods are bound and an NRT is written. Then pods come and end, and it is written again, rarely with a change."""
    known = [draw(pods(number)) for number in range(draw(st.integers(1, 4)))]
    nrt = draw(scans(known))
    events: list[Event] = [*known, nrt]
    for _ in range(draw(st.integers(1, 8))):
        kind = draw(st.sampled_from(["again", "again", "again", "again", "scan", "pod", "end", "gone", "assume"]))
        if kind == "again":
            event: Event = replace(nrt, written_at=draw(st.sampled_from([None, *WRITTEN])))
        elif kind == "scan":
            event = nrt = draw(scans(known))
        else:
            event = draw(st.sampled_from(_changes(draw(st.sampled_from(known)), kind)))
        events.append(event)
    return events


def _changes(pod: ResidentPod, kind: str) -> Sequence[Event]:
    if kind == "end":
        return [replace(pod, terminal=True, ended_at=end) for end in (None, *WRITTEN)]
    if kind == "gone":
        return [pod.key]
    if kind == "assume":
        numa = dict(pod.allocation or ())
        return [AssumedPod(pod.key, pod.uid, "a", numa, pod.requests, pod.policy, 1000.0, is_binding=True)]
    return [pod, replace(pod, node="", assigned_node="a", bound_at=None)]


@st.composite
def scans(draw: st.DrawFn, known: Sequence[ResidentPod]) -> NodeTopology:
    """An NRT that has counted some of the pods, or says nothing of them."""
    free = cpus(draw(st.integers(0, CPUS)), draw(st.integers(0, CPUS)))
    nrt = topology(node="a", free=free, capacity={"cpu": 1000 * CPUS})
    seen = [pod for pod in known if draw(st.booleans())]
    fingerprint = pod_fingerprint((pod.namespace, pod.name) for pod in seen)
    return replace(
        nrt,
        written_at=draw(st.sampled_from(WRITTEN)),
        fingerprint=draw(st.sampled_from([None, fingerprint, "pfp0v001x"])),
    )


def _play(keeper: AssumedPods, event: Event, now: float) -> None:
    match event:
        case ResidentPod():
            keeper.put_pod(event, now=now)
        case NodeTopology():
            keeper.put_topology(event)
        case AssumedPod():
            keeper.assume(event)
        case str():
            keeper.drop_pod(event, now)


@settings(max_examples=300)
@given(histories(), st.lists(st.sampled_from(STEPS), min_size=13, max_size=13), st.sets(st.integers(0, 12), max_size=3))
def test_reservations_and_allocations_are_as_if_every_nrt_was_read(
    events: list[Event], steps: list[int], unsettled: set[int]
) -> None:
    ledgers = Ledger(), Ledger()
    keepers = AssumedPods(ledgers[0]), Plain(ledgers[1])
    now = 0.0
    for position, event in enumerate(events):
        now += steps[position]
        for keeper in keepers:
            _play(keeper, event, now)
        if position not in unsettled or position == len(events) - 1:
            for keeper in keepers:
                keeper.settle(now)
            assert [*ledgers[0]] == [*ledgers[1]]
            assert ledgers[0].sums("a") == ledgers[1].sums("a")
            assert keepers[0].leeway("a", "", now) == keepers[1].leeway("a", "", now)
            assert set(keepers[0].allocations.changes()) == set(keepers[1].allocations.changes())
            assert set(keepers[0].uncertain(now)) == set(keepers[1].uncertain(now))
            assert {*keepers[0].replay.nodes()} == {*keepers[1].replay.nodes()}
