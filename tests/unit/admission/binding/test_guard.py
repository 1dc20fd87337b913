"""Bindings by what the replica knows and whether it leads, over a world of one node."""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import replace
from time import monotonic
from typing import Any

import pytest

from tests.unit.admission.clusters import arrival_at, node, pod, topology
from tests.unit.engine.machines import resident
from webhook.admission.binding.guard import BindingGuard, Duty
from webhook.admission.binding.review_trust import Doubts
from webhook.admission.handler import Answer, NotNowError, Unreserved
from webhook.admission.patch import apply
from webhook.cache.kubelet_admission import Arrival
from webhook.engine.assumed.assumed_pod import Grant
from webhook.engine.assumed.assumed_pods import ReservationKeeper
from webhook.engine.snapshot.cluster_state import ClusterState
from webhook.engine.snapshot.ledger import Ledger, Reservation
from webhook.model.admission_review import AdmissionRequest, Allowed, Denied, Patched
from webhook.model.hint import NUMAHint, NUMANodeAmounts
from webhook.model.names import NUMA_HINT, NUMA_TOPOLOGY_SPEC, PLACEMENT_GATE
from webhook.model.rules import Rules

Raw = Mapping[str, Any]


class OneNode:
    """n3 ── NUMA 0 [8]  NUMA 1 [8]      [free cpus]"""

    def __init__(self, *waiting: Raw) -> None:
        state = ClusterState()
        state.upsert_node(node("n3"))
        state.upsert_topology(topology("n3", (8, 8)))
        self.snapshot = state.snapshot()
        self.ledger = Ledger()
        self.keeper = ReservationKeeper(self.ledger)
        self.waiting = {each["metadata"]["name"]: each for each in waiting}
        self.fetched: list[str] = []
        self.on_the_server: dict[str, Raw] = dict(self.waiting)
        self.refused: list[tuple[str, str, str]] = []
        self.doubts: Doubts | None = None

    def waiting_pod(self, key: str, uid: str) -> Raw | None:
        known = self.waiting.get(key.partition("/")[2])
        return known if known and uid in {"", known["metadata"]["uid"]} else None

    def arrival(self, node: str, pod: str) -> Arrival | None:
        others = [held.pod.partition("/")[2] for held in self.keeper.placed(node) if held.pod != pod]
        return arrival_at(self.snapshot, self.ledger, node, pod, [self.waiting[name] for name in others])

    def is_approached(self, node: str, pod: str, expiring_after: float) -> bool:
        arriving = self.keeper.arriving(node)
        return any(grant.pod != pod and grant.expires > expiring_after for grant in arriving)

    def show_placed(self, name: str) -> None:
        """The informer shows the pod, placed as its hint says."""
        hint = NUMAHint.parse(self.waiting[name]["metadata"]["annotations"][NUMA_HINT])
        held = {zone: dict(amounts) for zone, amounts in hint.numa_nodes}
        record = resident(name, "", {"cpu": 8000, "memory": 2**30}, held)
        self.keeper.put_pod(replace(record, placed_on=hint.node, uid="u"))
        self.keeper.settle(0)

    def show_bound(self, name: str) -> None:
        """The informer shows the pod where its grant says."""
        grant = self.keeper.granted(f"default/{name}")
        assert grant is not None
        held = {zone: dict(amounts) for zone, amounts in grant.numa.items()}
        self.keeper.put_pod(replace(resident(name, grant.node, dict(grant.requests), held), uid=grant.uid))
        self.keeper.settle(0)
        self.waiting.pop(name)

    def promised(self, pod: str, uid: str, node: str) -> NUMANodeAmounts | None:
        grant = self.keeper.granted(pod)
        return tuple(grant.numa.items()) if grant and (grant.uid, grant.node) == (uid, node) else None

    def granted(self, pod: str) -> Grant | None:
        return self.keeper.granted(pod)

    def grant(self, grant: Grant) -> None:
        self.keeper.grant(grant)

    async def fetch(self, namespace: str, name: str) -> Raw | None:
        self.fetched.append(f"{namespace}/{name}")
        return self.on_the_server.get(name)

    async def bind(
        self,
        name: str,
        uid: str = "",
        duty: Duty = Duty.ALL,
        dry_run: bool = False,
        seconds: float = 5,
        user: str = "system:kube-scheduler",
    ) -> Answer:
        guard = BindingGuard(
            self, self.fetch, lambda: duty, Rules(), 70, lambda *refused: self.refused.append(refused), self.doubts
        )
        request = binding(name, uid, dry_run, user)
        return await guard.review(request, asyncio.get_running_loop().time() + seconds)


def named(name: str, uid: str = "u", annotations: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    own = {NUMA_TOPOLOGY_SPEC: '{"numaTopologyPolicy": "SingleNUMANode"}', **(annotations or {})}
    return pod(metadata={"name": name, "uid": uid, "annotations": own}, **spec)


def placed(name: str, node: str = "n3", numa_id: int = 1) -> dict[str, Any]:
    zones = [{"node": numa_id, "resources": {"cpu": "8", "memory": "1Gi"}}]
    return named(name, annotations={NUMA_HINT: json.dumps({"node": node, "numaNodeResources": zones})})


def binding(name: str, uid: str, dry_run: bool, user: str) -> AdmissionRequest:
    metadata = {"name": name, **({"uid": uid} if uid else {})}
    raw = {"kind": "Binding", "metadata": metadata, "target": {"kind": "Node", "name": "n3"}}
    return AdmissionRequest.from_object(
        {
            "apiVersion": "admission.k8s.io/v1",
            "kind": "AdmissionReview",
            "request": {
                "uid": "u1",
                "kind": {"group": "", "version": "v1", "kind": "Binding"},
                "subResource": "binding",
                "operation": "CREATE",
                "namespace": "default",
                "name": name,
                "object": raw,
                "userInfo": {"username": user},
                "dryRun": dry_run,
            },
        }
    )


def numa_of(answer: Answer) -> list[int]:
    """The NUMA nodes written into the Binding."""
    return [entry["node"] for entry in hint_of(answer)["numaNodeResources"]]


def hint_of(answer: Answer) -> dict[str, Any]:
    """The hint written into the Binding."""
    assert isinstance(answer.response, Patched), answer
    patched = apply({"metadata": {}}, map(dict, answer.response.patch))
    hint: dict[str, Any] = json.loads(patched["metadata"]["annotations"][NUMA_HINT])
    return hint


async def test_what_one_binding_was_given_the_next_one_finds_taken() -> None:
    world = OneNode(named("a"), named("b"), named("c"))
    assert numa_of(await world.bind("a")) == [0]
    world.show_bound("a")
    assert numa_of(await world.bind("b")) == [1]
    world.show_bound("b")
    refused = await world.bind("c")
    assert isinstance(refused.response, Denied)
    assert (refused.verdict, refused.decided) == ("deny", True)
    assert world.fetched == []


async def test_a_binding_tried_again_is_given_the_same() -> None:
    world = OneNode(named("a"), named("b"))
    assert numa_of(await world.bind("a")) == [0]
    assert numa_of(await world.bind("a")) == [0]
    world.show_bound("a")
    assert numa_of(await world.bind("b")) == [1]


async def test_the_next_binding_to_a_node_waits_until_the_last_one_is_seen_written() -> None:
    world = OneNode(named("a"), named("b"))
    assert numa_of(await world.bind("a")) == [0]
    next_one = asyncio.create_task(world.bind("b"))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not next_one.done()
    world.show_bound("a")
    assert numa_of(await next_one) == [1]


async def test_a_binding_that_is_not_seen_written_lets_the_next_one_try_again() -> None:
    world = OneNode(named("a"), named("b"))
    await world.bind("a")
    refused = await world.bind("b", seconds=0.02)
    assert isinstance(refused.response, Denied)
    assert refused.response.reason == "NotNext"


async def test_a_binding_that_was_refused_after_us_holds_up_its_node_for_seconds_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = OneNode(named("a"), named("b"))
    assert numa_of(await world.bind("a")) == [0]
    monkeypatch.setattr("webhook.admission.binding.guard._ON_ITS_WAY_SECONDS", 0.0)
    assert numa_of(await world.bind("b")) == [1]


async def test_a_binding_waits_for_the_pod_that_was_placed_on_the_numa_node_it_would_get() -> None:
    world = OneNode(placed("a", numa_id=0), placed("b", numa_id=1))
    for name in ("a", "b"):
        world.show_placed(name)
    out_of_order = asyncio.create_task(world.bind("b"))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not out_of_order.done()
    assert numa_of(await world.bind("a")) == [0]
    world.show_bound("a")
    assert numa_of(await out_of_order) == [1]


async def test_a_binding_that_has_waited_for_half_of_its_time_is_refused_and_says_for_whom() -> None:
    world = OneNode(placed("a", numa_id=0), placed("b", numa_id=1))
    for name in ("a", "b"):
        world.show_placed(name)
    refused = await world.bind("b", seconds=0.02)
    assert isinstance(refused.response, Denied)
    assert refused.response.reason == "NotNext"
    assert refused.message == "default/a was placed before on the NUMA nodes of n3 that this pod would get"
    assert world.keeper.open_grants == 0


async def test_a_dry_run_takes_nothing() -> None:
    world = OneNode(named("a"))
    assert numa_of(await world.bind("a", dry_run=True)) == [0]
    assert world.keeper.open_grants == 0


async def test_a_pod_that_was_not_seen_yet_is_asked_for_once() -> None:
    world = OneNode(named("a", uid="old"))
    world.on_the_server["a"] = named("a", uid="new")
    assert numa_of(await world.bind("a", uid="new")) == [0]
    assert world.fetched == ["default/a"]


async def test_a_pod_seen_with_its_gate_was_seen_too_early() -> None:
    world = OneNode(named("a", schedulingGates=[{"name": PLACEMENT_GATE}]))
    world.on_the_server["a"] = placed("a")
    assert numa_of(await world.bind("a")) == [0]
    assert world.fetched == ["default/a"]


async def test_a_pod_that_does_not_exist_is_the_api_servers_affair() -> None:
    assert (await OneNode().bind("a")).verdict == "allow"


@pytest.mark.parametrize("duty", Duty)
async def test_what_is_no_affair_of_ours_passes_on_every_replica(duty: Duty) -> None:
    plain = pod(metadata={"name": "a", "uid": "u", "annotations": {}})
    answer = await OneNode(plain).bind("a", duty=duty)
    assert (answer.verdict, answer.decided) == ("allow", False)
    bound = await OneNode(named("a", nodeName="n3")).bind("a", duty=duty)
    assert (bound.verdict, bound.decided) == ("allow", False)


async def test_who_does_not_lead_gives_nothing_out_and_lets_placed_pods_pass() -> None:
    world = OneNode(named("a"), placed("b"), placed("c", node="n1"))
    for name in ("a", "c"):
        with pytest.raises(NotNowError):
            await world.bind(name, duty=Duty.NONE)
    assert (await world.bind("b", duty=Duty.NONE)).verdict == "allow"
    assert world.keeper.open_grants == 0


async def test_where_another_replica_leads_a_binding_is_refused_and_its_connection_given_up() -> None:
    world = OneNode(named("a"), placed("b"))
    refused = await world.bind("a", duty=Duty.ELSEWHERE)
    assert isinstance(refused.response, Denied)
    assert (refused.response.reason, refused.misrouted) == ("LeaderElsewhere", True)
    passed = await world.bind("b", duty=Duty.ELSEWHERE)
    assert (passed.verdict, passed.misrouted) == ("allow", False)
    assert world.keeper.open_grants == 0


async def test_a_new_leader_gives_out_nothing_new() -> None:
    world = OneNode(named("a"), placed("b"))
    refused = await world.bind("a", duty=Duty.PLACED_ONLY)
    assert isinstance(refused.response, Denied)
    assert refused.response.reason == "LeaderChanged"
    # Its kubelet would take NUMA node 0, which the last leader may have promised to somebody: it is not certain.
    passed = await world.bind("b", duty=Duty.PLACED_ONLY)
    assert hint_of(passed) == {"node": "n3", "certain": False}
    granted = world.granted("default/b")
    assert granted is not None
    assert (list(granted.numa), granted.sure, granted.alternatives) == ([1], False, frozenset({0}))
    # Somebody unforeseen took what the pod was placed on; NUMA node 0 may be promised by the last leader.
    world.keeper.withdraw("default/b")
    world.ledger.put(Reservation.of("default/x", "n3", {1: {"cpu": 1000}}, {"cpu": 1000}))
    assert (await world.bind("b", duty=Duty.PLACED_ONLY)).verdict == "deny"
    assert numa_of(await world.bind("b")) == [0]


@pytest.mark.parametrize("duty", [Duty.NONE, Duty.ELSEWHERE, Duty.PLACED_ONLY])
async def test_only_a_leader_who_knows_all_gives_a_placed_pod_anew_what_it_lost(duty: Duty) -> None:
    world = OneNode(named("p", annotations={NUMA_HINT: '{"node":"n3","reserved":false}'}))
    if duty is Duty.NONE:
        with pytest.raises(NotNowError):
            await world.bind("p", duty=duty)
    else:
        assert (await world.bind("p", duty=duty)).verdict == "deny"
    assert world.keeper.open_grants == 0
    assert numa_of(await world.bind("p")) == [0]


async def test_of_a_pod_that_its_node_cannot_hold_another_part_is_told_and_of_one_that_only_waits_it_is_not() -> None:
    world = OneNode(named("a"), named("b"), named("c"))
    for name in "ab":
        await world.bind(name)
        world.show_bound(name)
    assert isinstance((await world.bind("c", dry_run=True)).response, Denied)
    assert world.refused == []
    assert isinstance((await world.bind("c")).response, Denied)
    assert world.refused == [("default/c", "u", "n3")]
    waits = OneNode(named("a"), named("b"))
    await waits.bind("a")
    assert isinstance((await waits.bind("b", seconds=0.1)).response, Denied)
    assert waits.refused == []


async def test_a_binding_by_no_scheduler_is_judged_and_has_no_effect() -> None:
    world = OneNode(named("a"), named("b"), named("c"))
    answer = await world.bind("a", user="admin")
    assert answer.unreserved is Unreserved.USER
    assert isinstance(answer.response, Allowed)
    assert answer.message == "bound to n3 by admin, who is none of --scheduler-users: no NUMA nodes are reserved"
    assert world.keeper.open_grants == 0
    for name in "ab":
        await world.bind(name)
        world.show_bound(name)
    assert isinstance((await world.bind("c", user="admin")).response, Denied)
    assert world.refused == []


async def test_a_binding_of_a_gated_pod_or_of_another_one_of_its_name_has_no_effect() -> None:
    gated = named("a", schedulingGates=[{"name": "example.com/hold"}])
    for world, uid in ((OneNode(gated), ""), (OneNode(named("a", uid="new")), "old")):
        answer = await world.bind("a", uid=uid)
        assert (answer.verdict, answer.decided, world.keeper.open_grants) == ("allow", False, 0)


async def test_a_review_that_may_be_forged_is_believed_for_a_moment_however_often_it_comes() -> None:
    world = OneNode(named("a"), named("b"))
    world.doubts = Doubts()
    assert numa_of(await world.bind("a")) == [0]
    first = world.keeper.granted("default/a")
    assert first is not None
    assert first.expires < monotonic() + 2
    for _ in range(3):
        await world.bind("a")
    again = world.keeper.granted("default/a")
    assert again is not None
    assert again.expires == first.expires


async def test_a_pod_whose_reviews_came_to_nothing_is_answered_and_stands_in_nobodys_way() -> None:
    world = OneNode(named("a"), named("b"))
    world.doubts = Doubts()
    for _ in range(2):
        world.doubts.came_to_nothing("default/a", "u", monotonic())
    answer = await world.bind("a")
    assert (numa_of(answer), answer.unreserved) == ([0], Unreserved.DOUBTED)
    assert world.keeper.open_grants == 0
    assert numa_of(await world.bind("b")) == [0]
