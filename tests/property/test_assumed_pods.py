"""In whatever order events arrive, the ledger ends as if only the final objects had been read."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from hypothesis import given
from hypothesis import strategies as st

from tests.builders.records import cpus, resident, topology
from tests.fingerprints import pod_fingerprint
from webhook.engine.snapshot.ledger import Ledger, Reservation
from webhook.engine.snapshot.node_sums import NumaAmounts
from webhook.formats.kubernetes.resident import ResidentPod
from webhook.formats.nrt import NodeTopology, Publisher
from webhook.state.assumed.assumed_pods import AssumedPods

NODES = ("a", "b")
ZONES = 2
CPUS = 64
LAST = 100

Event = ResidentPod | NodeTopology | str
"""An upsert, or the key of a pod that is deleted."""


@dataclass
class History:
    """The events of one object in order: the API server keeps the order of each object's events."""

    events: Sequence[Event] = ()


@st.composite
def lives(draw: st.DrawFn, number: int, may_end: bool) -> History:
    """A pod that waits, and may be assigned, bound and ended."""
    name, node, zone = f"p{number}", draw(st.sampled_from(NODES)), draw(st.integers(0, ZONES - 1))
    amount = {"cpu": 1000 * draw(st.integers(1, 4))}
    waits = resident(name=name, node="", requests=amount)
    assigned = replace(resident(name=name, node="", requests=amount, numa={zone: amount}), assigned_node=node)
    bound = replace(
        resident(name=name, node=node, requests=amount, numa={zone: amount}), bound_at=draw(st.integers(0, 60))
    )
    stages: list[Event] = [*(waits, assigned, bound)[: draw(st.integers(1, 3))]]
    if may_end and draw(st.booleans()):
        ended = replace(bound, terminal=True, ended_at=LAST)
        stages += draw(st.sampled_from([[ended], [f"default/{name}"], [ended, f"default/{name}"]]))
    return History([stage for stage in stages if draw(st.integers(0, 3)) or stage is stages[-1]])


@st.composite
def scans(draw: st.DrawFn, node: str, pods: Sequence[ResidentPod]) -> NodeTopology:
    """An NRT of some kind of exporter that has counted all pods bound 10 s before it was written."""
    here = in_order_of_binding(pods, node)
    written = draw(st.integers(0, 70))
    must, may = (sum((pod.bound_at or 0) <= bound for pod in here) for bound in (written - 10, written))
    seen = here[: draw(st.integers(must, may))]
    taken = sum(pod.requests["cpu"] for pod in seen) // 1000
    nrt = replace(topology(node=node, free=cpus(CPUS - taken, CPUS), capacity={"cpu": 1000 * CPUS}), written_at=written)
    kind = draw(st.sampled_from(["fingerprint", "plain", "total"]))
    if kind == "total":
        return replace(nrt, publisher=Publisher.TOTAL)
    if kind == "plain":
        return nrt
    return replace(nrt, fingerprint=pod_fingerprint((pod.namespace, pod.name) for pod in seen))


def in_order_of_binding(pods: Sequence[ResidentPod], node: str) -> list[ResidentPod]:
    return sorted((pod for pod in pods if pod.node == node), key=lambda pod: (pod.bound_at or 0, pod.key))


def ledger_after(events: Sequence[Event], settle_at: frozenset[int] = frozenset()) -> dict[str, Reservation]:
    ledger = Ledger()
    keeper = AssumedPods(ledger)
    for position, event in enumerate(events):
        match event:
            case ResidentPod():
                keeper.put_pod(event)
            case NodeTopology():
                keeper.put_topology(event)
            case str():
                keeper.drop_pod(event)
        if position in settle_at:
            keeper.settle(LAST)
            assert_never_negative(ledger)
    keeper.settle(LAST)
    assert_never_negative(ledger)
    return {reservation.pod: reservation for reservation in ledger}


def assert_never_negative(ledger: Ledger) -> None:
    for node in NODES:
        sums = ledger.sums(node)
        amounts = [amount for zone in sums.numa.values() for amount in zone.values()]
        assert all(amount > 0 for amount in [*amounts, *sums.requests.values(), *sums.single.values()])


@st.composite
def interleaved(draw: st.DrawFn, histories: Sequence[History]) -> list[Event]:
    """The histories merged in a random order. Each keeps its own order."""
    turns = draw(st.permutations([number for number, history in enumerate(histories) for _ in history.events]))
    left = [iter(history.events) for history in histories]
    return [next(left[turn]) for turn in turns]


def final_pods(histories: Sequence[History]) -> list[ResidentPod]:
    ends = [history.events[-1] for history in histories]
    return [end for end in ends if isinstance(end, ResidentPod) and not end.terminal]


def bound_ever(histories: Sequence[History]) -> list[ResidentPod]:
    events = (event for history in histories for event in history.events)
    return [event for event in events if isinstance(event, ResidentPod) and event.node and not event.terminal]


@given(st.data())
def test_any_order_of_events_ends_as_a_rebuild_from_the_final_objects(data: st.DataObject) -> None:
    pods = [data.draw(lives(number, may_end=True)) for number in range(data.draw(st.integers(0, 6)))]
    alive = final_pods(pods)
    topologies = [data.draw(scans(node, alive)) for node in NODES]
    nrts = [History([data.draw(scans(nrt.node, alive)), nrt]) for nrt in topologies]
    events = data.draw(interleaved([*pods, *nrts]))
    settles = data.draw(st.frozensets(st.integers(0, max(len(events) - 1, 0)), max_size=4))
    assert ledger_after(events, settles) == ledger_after([*topologies, *alive])


@st.composite
def whole_lives(draw: st.DrawFn, number: int) -> History:
    """A pod that was bound and may have ended. Its object stays."""
    name, zone = f"p{number}", draw(st.integers(0, ZONES - 1))
    amount = {"cpu": 1000 * draw(st.integers(1, 4))}
    bound = replace(
        resident(name=name, node="a", requests=amount, numa={zone: amount}), bound_at=draw(st.integers(0, 19)), uid=name
    )
    if not draw(st.booleans()):
        return History([bound])
    return History([bound, replace(bound, terminal=True, ended_at=21 + number + 10 * draw(st.integers(0, 4)))])


@given(st.data())
def test_pods_that_ended_give_back_the_same_whoever_saw_them_end(data: st.DataObject) -> None:
    pods = [data.draw(whole_lives(number)) for number in range(data.draw(st.integers(0, 6)))]
    ends = [end for history in pods if isinstance(end := history.events[-1], ResidentPod)]
    scan = data.draw(st.integers(20, 60))
    seen = [end for end in ends if end.ended_at is None or end.ended_at > scan]
    free = [
        CPUS - sum(dict(pod.allocation or ()).get(zone, {}).get("cpu", 0) // 1000 for pod in seen)
        for zone in range(ZONES)
    ]
    nrt = replace(
        topology(node="a", free=cpus(*free), capacity={"cpu": 1000 * CPUS}),
        written_at=scan + data.draw(st.integers(0, 9)),
        fingerprint=pod_fingerprint((pod.namespace, pod.name) for pod in seen),
    )
    events = data.draw(interleaved([*pods, History([nrt])]))
    kept, rebuilt = given_back_after(events), given_back_after([nrt, *ends])
    assert kept == rebuilt
    gone = [pod for pod in seen if pod.terminal]
    held = {zone: sum(dict(pod.allocation or ()).get(zone, {}).get("cpu", 0) for pod in gone) for zone in range(ZONES)}
    assert kept == {zone: {"cpu": amount} for zone, amount in held.items() if amount}


def given_back_after(events: Sequence[Event]) -> NumaAmounts:
    ledger = Ledger()
    keeper = AssumedPods(ledger)
    for event in events:
        if isinstance(event, ResidentPod):
            keeper.put_pod(event)
        elif isinstance(event, NodeTopology):
            keeper.put_topology(event)
    keeper.settle(LAST)
    return ledger.sums("a").ended


@given(st.data())
def test_what_an_nrt_has_not_counted_stays_reserved_whatever_ended_meanwhile(data: st.DataObject) -> None:
    pods = [data.draw(lives(number, may_end=True)) for number in range(data.draw(st.integers(0, 6)))]
    scanned = [data.draw(scans(node, bound_ever(pods))) for node in NODES]
    events = data.draw(interleaved([*pods, *(History([nrt]) for nrt in scanned)]))
    settles = data.draw(st.frozensets(st.integers(0, max(len(events) - 1, 0)), max_size=4))
    kept = ledger_after(events, settles)
    rebuilt = ledger_after([*scanned, *final_pods(pods)])
    # Who has seen pods end knows better what a scan before that meant, and reserves no more than who has not.
    assert kept.keys() <= rebuilt.keys()
    for nrt in scanned:
        if nrt.fingerprint is None:
            continue
        ever = sorted(
            (pod for pod in bound_ever(pods) if pod.node == nrt.node), key=lambda pod: (pod.bound_at, pod.key)
        )
        seen = next(
            ever[:n]
            for n in range(len(ever) + 1)
            if pod_fingerprint((pod.namespace, pod.name) for pod in ever[:n]) == nrt.fingerprint
        )
        for pod in final_pods(pods):
            if pod.node == nrt.node and pod not in seen:
                assert kept[pod.key].numa == dict(pod.allocation or ())
