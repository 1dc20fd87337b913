"""An NRT that was only written again is not derived from again. Every reservation is as if it were."""

from collections.abc import Sequence
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from tests.builders.records import cpus, resident, topology
from tests.fingerprints import pod_fingerprint
from webhook.engine.assumed.assumed_pod import AssumedPod
from webhook.engine.assumed.assumed_pods import AssumedPods
from webhook.engine.snapshot.ledger import Ledger
from webhook.model.nrt import NodeTopology
from webhook.model.resident import ResidentPod

CPUS = 16

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
    """A pod that is bound, with a hint or without."""
    name, amount = f"p{number}", {"cpu": 1000 * draw(st.integers(1, 8))}
    hint = draw(st.sampled_from([None, {0: amount}, {1: amount}]))
    pod = resident(name=name, node="a", requests=amount, numa=hint)
    return replace(
        pod,
        uid=name,
        bound_at=draw(st.sampled_from([None, *range(0, 60, 7)])),
        unhinted=hint is None and draw(st.booleans()),
        exclusive_resources=draw(st.integers(0, 3)) > 0,
        started=draw(st.booleans()),
    )


@st.composite
def histories(draw: st.DrawFn) -> list[Event]:
    """Pods come and end, and the NRT is written again and again, sometimes with other contents."""
    known = [draw(pods(number)) for number in range(draw(st.integers(0, 4)))]
    events: list[Event] = []
    for _ in range(draw(st.integers(1, 16))):
        kind = draw(st.sampled_from(["pod", "end", "gone", "assume", "scan", "again", "again", "again"]))
        nrts = [event for event in events if isinstance(event, NodeTopology)]
        if kind == "again" and nrts:
            events.append(replace(nrts[-1], written_at=draw(st.sampled_from([None, *range(0, 80, 3)]))))
        elif kind == "scan" or (kind == "again" and not nrts):
            events.append(draw(scans(known)))
        elif known:
            pod = draw(st.sampled_from(known))
            events.append(draw(st.sampled_from(_changes(pod, kind))))
    return events


def _changes(pod: ResidentPod, kind: str) -> Sequence[Event]:
    if kind == "end":
        return [replace(pod, terminal=True, ended_at=end) for end in (None, 30, 60)]
    if kind == "gone":
        return [pod.key]
    if kind == "assume":
        numa = dict(pod.hint or ())
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
        nrt, written_at=draw(st.integers(0, 70)), fingerprint=draw(st.sampled_from([None, fingerprint, "pfp0v001x"]))
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


@given(histories(), st.lists(st.integers(0, 40), min_size=16, max_size=16), st.sets(st.integers(0, 15)))
def test_reservations_and_hints_are_as_if_every_nrt_was_read(
    events: list[Event], steps: list[int], settled: set[int]
) -> None:
    ledgers = Ledger(), Ledger()
    keepers = AssumedPods(ledgers[0]), Plain(ledgers[1])
    now = 0.0
    for position, event in enumerate(events):
        now += steps[position]
        for keeper in keepers:
            _play(keeper, event, now)
        if position in settled or position == len(events) - 1:
            for keeper in keepers:
                keeper.settle(now)
            assert [*ledgers[0]] == [*ledgers[1]]
            assert ledgers[0].sums("a") == ledgers[1].sums("a")
            assert keepers[0].leeway("a", "", now) == keepers[1].leeway("a", "", now)
            assert set(keepers[0].hints.changes()) == set(keepers[1].hints.changes())
            assert set(keepers[0].uncertain(now)) == set(keepers[1].uncertain(now))
            assert {*keepers[0].replay.nodes()} == {*keepers[1].replay.nodes()}
