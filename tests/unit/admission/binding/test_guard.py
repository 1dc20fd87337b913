"""Bindings by what the replica knows and whether it leads; whom it asks, which reviews it believes and lets wait."""

import asyncio
import itertools
import json
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from time import monotonic
from typing import Any

import pytest

from tests.builders.clusters import cluster_cache, cluster_state, machine, put
from tests.builders.nodes import node, nrt
from tests.builders.pods import GATES, bound, created, gated, pod
from tests.builders.records import resident
from tests.builders.reviews import binding_review, denied
from tests.unit.admission.kubelet_admissions import kubelet_admission_at
from webhook.admission.binding.guard import BindingGuard, LeaderState, PodLookup, WaitingReviews
from webhook.admission.binding.review_trust import Doubts
from webhook.admission.handler import LeaderNeededError, NotNowError
from webhook.admission.response import Allowed, Denied, Patched, Response, Unreserved
from webhook.engine.snapshot.ledger import Ledger, Reservation
from webhook.formats.koordinator.numa_allocation import NUMAAllocation, NUMANodeAmounts
from webhook.formats.kubernetes.membership import controllers_group
from webhook.formats.kubernetes.rejected_pod import KubeletRejection, RejectedPod, RejectionReason
from webhook.formats.patches.json_patch import apply
from webhook.model.names import NUMA_ALLOCATION, NUMA_TOPOLOGY_SPEC, PLACEMENT_GATE
from webhook.model.raw import Raw
from webhook.signal import Signal
from webhook.state.assumed.assumed_pod import AssumedPod
from webhook.state.assumed.assumed_pods import AssumedPods
from webhook.state.avoided_nodes import AvoidedNodes
from webhook.state.cluster_cache import ClusterCache
from webhook.state.kubelet_admission import KubeletAdmission
from webhook.state.rules import Rules


class OneNode:
    """n3 ── NUMA 0 [8]  NUMA 1 [8]      [free cpus]"""

    def __init__(self, *waiting: Raw) -> None:
        self.node_arrays = cluster_state(node(name="n3"), nrt(node="n3", free=(8, 8))).node_arrays()
        self.ledger = Ledger()
        self.keeper = AssumedPods(self.ledger)
        self.waiting = {each["metadata"]["name"]: each for each in waiting}
        self.fetched: list[str] = []
        self.on_the_server: dict[str, Raw] = dict(self.waiting)
        self.refused: list[tuple[str, str, str]] = []
        self.doubts: Doubts | None = None
        self.follows_pods = True
        self.bound_or_gone = Signal[[str, str]]()
        self.now = 1000.0
        self.avoided = AvoidedNodes(lambda: self.now, 120.0, lambda _: None, lambda _: 0, Signal())

    def waiting_pod(self, key: str, uid: str) -> Raw | None:
        known = self.waiting.get(key.partition("/")[2])
        return known if known and uid in {"", known["metadata"]["uid"]} else None

    def kubelet_admission(self, node: str, pod: str) -> KubeletAdmission | None:
        others = [held.pod.partition("/")[2] for held in self.keeper.assigned(node) if held.pod != pod]
        return kubelet_admission_at(self.node_arrays, self.ledger, node, pod, [self.waiting[name] for name in others])

    def bindings_in_progress(self, node: str, pod: str, expiring_after: float) -> tuple[AssumedPod, ...]:
        binding_to = self.keeper.binding_to(node)
        return tuple(each for each in binding_to if each.pod != pod and each.expires > expiring_after)

    def show_placed(self, name: str) -> None:
        """The informer shows the pod, placed as its allocation says."""
        allocation = NUMAAllocation.parse(self.waiting[name]["metadata"]["annotations"][NUMA_ALLOCATION])
        held = {zone: dict(amounts) for zone, amounts in allocation.numa_nodes}
        record = resident(name=name, node="", requests={"cpu": 8000, "memory": 2**30}, numa=held)
        self.keeper.put_pod(replace(record, assigned_node=allocation.node, uid="u"))
        self.keeper.settle(0)

    def show_bound(self, name: str) -> None:
        """The informer shows the pod where its assumed pod says, or else its allocation."""
        assumed_pod = self.keeper.assumed_by(f"default/{name}")
        if assumed_pod is None:
            self.show_placed(name)
            placed = next(each for each in self.keeper.assigned("n3") if each.pod == f"default/{name}")
            record = resident(name=name, node=placed.node, requests=dict(placed.requests), numa=dict(placed.numa))
            self.keeper.put_pod(replace(record, uid="u"))
            self.keeper.settle(0)
            self.waiting.pop(name)
            self.bound_or_gone.emit(f"default/{name}", name)
            return
        held = {zone: dict(amounts) for zone, amounts in assumed_pod.numa.items()}
        self.keeper.put_pod(
            replace(
                resident(name=name, node=assumed_pod.node, requests=dict(assumed_pod.requests), numa=held),
                uid=assumed_pod.uid,
            )
        )
        self.keeper.settle(0)
        self.waiting.pop(name)
        self.bound_or_gone.emit(f"default/{name}", name)

    def assumed(self, pod: str, uid: str, node: str) -> NUMANodeAmounts | None:
        assumed_pod = self.keeper.assumed_by(pod)
        return (
            tuple(assumed_pod.numa.items())
            if assumed_pod and (assumed_pod.uid, assumed_pod.node) == (uid, node)
            else None
        )

    def assumed_by(self, pod: str) -> AssumedPod | None:
        return self.keeper.assumed_by(pod)

    def assume(self, assumed_pod: AssumedPod) -> None:
        self.keeper.assume(assumed_pod)

    async def fetch(self, namespace: str, name: str) -> Raw | None:
        self.fetched.append(f"{namespace}/{name}")
        return self.on_the_server.get(name)

    def guard(self, leader_state: LeaderState = LeaderState.ALL) -> BindingGuard:
        cache: Any = self
        return BindingGuard(
            cache,
            self.fetch,
            lambda _: leader_state,
            Rules(),
            70,
            lambda *refused: self.refused.append(refused),
            self.doubts,
        )

    async def bind(
        self,
        name: str,
        uid: str = "",
        leader_state: LeaderState = LeaderState.ALL,
        dry_run: bool = False,
        seconds: float = 5,
        user: str = "system:kube-scheduler",
        guard: BindingGuard | None = None,
    ) -> Response:
        guard = guard or self.guard(leader_state)
        deadline = asyncio.get_running_loop().time() + seconds
        return await guard.handle(binding_review(name, "n3", uid, user=user, deadline=deadline, dryRun=dry_run))

    async def refuses(self, name: str, **how: Any) -> Denied:
        return denied(await self.bind(name, **how))


def named(name: str, uid: str = "u", annotations: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    own = {NUMA_TOPOLOGY_SPEC: '{"numaTopologyPolicy": "SingleNUMANode"}', **(annotations or {})}
    return pod(metadata={"name": name, "uid": uid, "annotations": own}, **spec)


def assigned(name: str, node: str = "n3", numa_id: int = 1) -> dict[str, Any]:
    zones = [{"node": numa_id, "resources": {"cpu": "8", "memory": "1Gi"}}]
    return named(name, annotations={NUMA_ALLOCATION: json.dumps({"node": node, "numaNodeResources": zones})})


async def turns(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


def placed(*pods: Raw, names: str | None = None) -> OneNode:
    """The node, on which the informer has shown these pods as placed, or those with the names."""
    cluster = OneNode(*pods)
    for each in pods:
        if names is None or each["metadata"]["name"] in names:
            cluster.show_placed(each["metadata"]["name"])
    return cluster


def numa_of(answer: Response) -> list[int]:
    """The NUMA nodes written into the Binding."""
    return [entry["node"] for entry in allocation_of(answer)["numaNodeResources"]]


def allocation_of(answer: Response) -> dict[str, Any]:
    """The allocation written into the Binding."""
    assert isinstance(answer, Patched), answer
    patched = apply({"metadata": {}}, map(dict, answer.patch))
    allocation: dict[str, Any] = json.loads(patched["metadata"]["annotations"][NUMA_ALLOCATION])
    return allocation


async def test_what_one_binding_was_given_the_next_one_finds_taken() -> None:
    cluster = OneNode(named("a"), named("b"), named("c"))
    assert numa_of(await cluster.bind("a")) == [0]
    cluster.show_bound("a")
    assert numa_of(await cluster.bind("b")) == [1]
    cluster.show_bound("b")
    refused = await cluster.refuses("c")
    assert (refused.verdict, refused.decided) == ("deny", True)
    assert cluster.fetched == []


async def test_a_binding_tried_again_is_given_the_same() -> None:
    cluster = OneNode(named("a"), named("b"))
    assert numa_of(await cluster.bind("a")) == [0]
    assert numa_of(await cluster.bind("a")) == [0]
    cluster.show_bound("a")
    assert numa_of(await cluster.bind("b")) == [1]


async def test_the_next_binding_to_a_node_waits_until_the_last_one_is_seen_written() -> None:
    cluster = OneNode(named("a"), named("b"))
    assert numa_of(await cluster.bind("a")) == [0]
    next_one = asyncio.create_task(cluster.bind("b"))
    await turns(2)
    assert not next_one.done()
    cluster.show_bound("a")
    assert numa_of(await next_one) == [1]


async def test_equal_pods_that_get_the_same_numa_node_do_not_wait_for_each_other() -> None:
    # n3 ── NUMA 0 [8]  NUMA 1 [8]: two of 4 CPUs each, and the third gets another NUMA node
    cluster = OneNode(*(named(name, cpu=4) for name in "abc"))
    assert numa_of(await cluster.bind("a")) == [0]
    assert numa_of(await cluster.bind("b")) == [0]
    third = asyncio.create_task(cluster.bind("c"))
    await asyncio.sleep(0)
    assert not third.done()
    cluster.show_bound("b")
    await asyncio.sleep(0)
    assert not third.done()
    cluster.show_bound("a")
    assert numa_of(await third) == [1]


@pytest.mark.parametrize(
    ("one", "other"), [({}, {}), ({"cpu": 4}, {"cpu": 3}), ({"cpu": 4}, {"cpu": 4, "memory": "2Gi"})]
)
async def test_a_binding_to_a_node_where_another_is_not_seen_written_yet_tries_again(
    one: dict[str, Any], other: dict[str, Any]
) -> None:
    cluster = OneNode(named("a", **one), named("b", **other))
    assert numa_of(await cluster.bind("a")) == [0]
    assert (await cluster.refuses("b", seconds=0.02)).reason == "BindingInProgress"


async def test_a_new_leader_binds_no_pod_beside_another() -> None:
    cluster = OneNode(named("a", cpu=4), named("b", cpu=4))
    await cluster.bind("a")
    assert (
        await cluster.refuses("b", seconds=0.02, leader_state=LeaderState.ASSIGNED_ONLY)
    ).reason == "BindingInProgress"


async def test_bindings_to_one_node_are_answered_in_the_order_in_which_they_came() -> None:
    names = ["a", "b", "c", "d"]
    cluster = OneNode(*(named(name, cpu=cpu) for name, cpu in zip(names, (4, 3, 5, 2), strict=True)))
    await cluster.bind("a")
    guard = cluster.guard()
    waiting = {name: asyncio.create_task(cluster.bind(name, guard=guard)) for name in names[1:]}
    await asyncio.sleep(0)
    for shown, name in itertools.pairwise(names):
        assert not any(task.done() for task in waiting.values())
        cluster.show_bound(shown)
        await waiting.pop(name)


async def test_a_binding_that_was_refused_after_us_holds_up_its_node_for_seconds_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = OneNode(named("a"), named("b"))
    assert numa_of(await cluster.bind("a")) == [0]
    monkeypatch.setattr("webhook.admission.binding.guard._ON_ITS_WAY_SECONDS", 0.0)
    assert numa_of(await cluster.bind("b")) == [1]


async def test_a_binding_waits_for_the_pod_that_was_placed_on_the_numa_node_it_would_get() -> None:
    cluster = placed(assigned("a", numa_id=0), assigned("b", numa_id=1))
    out_of_order = asyncio.create_task(cluster.bind("b"))
    await turns(2)
    assert not out_of_order.done()
    assert numa_of(await cluster.bind("a")) == [0]
    cluster.show_bound("a")
    assert numa_of(await out_of_order) == [1]


async def test_a_pod_shown_as_it_was_before_its_binding_does_not_end_the_wait_of_the_next_one() -> None:
    cluster = OneNode(assigned("a", numa_id=0), assigned("b", numa_id=1))
    cluster.show_placed("b")
    await cluster.bind("a")
    cluster.show_placed("a")  # the watch was late: the guard had asked the API server
    refused = await cluster.refuses("b", seconds=0.02)
    assert refused.message == "default/a was placed before on the NUMA nodes of n3 that this pod would get"


async def test_a_binding_that_has_waited_for_half_of_its_time_is_refused_and_says_for_whom() -> None:
    cluster = placed(assigned("a", numa_id=0), assigned("b", numa_id=1))
    refused = await cluster.refuses("b", seconds=0.02)
    assert refused.reason == "BindingInProgress"
    assert refused.message == "default/a was placed before on the NUMA nodes of n3 that this pod would get"
    assert cluster.keeper.assumed_count == 0


async def test_a_binding_that_waits_is_seldom_judged_again_while_nothing_moves(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = placed(assigned("a", numa_id=0), assigned("b", numa_id=1))
    judged: list[str] = []
    admission = cluster.kubelet_admission

    def noted(node: str, pod: str) -> KubeletAdmission | None:
        judged.append(pod)
        return admission(node, pod)

    monkeypatch.setattr(cluster, "kubelet_admission", noted)
    await cluster.refuses("b", seconds=1.2)  # it waits for half of this
    assert len(judged) <= 3


async def test_a_dry_run_takes_nothing() -> None:
    cluster = OneNode(named("a"))
    assert numa_of(await cluster.bind("a", dry_run=True)) == [0]
    assert cluster.keeper.assumed_count == 0


async def test_a_pod_that_was_not_seen_yet_is_asked_for_once() -> None:
    cluster = OneNode(named("a", uid="old"))
    cluster.on_the_server["a"] = named("a", uid="new")
    assert numa_of(await cluster.bind("a", uid="new")) == [0]
    assert cluster.fetched == ["default/a"]


async def test_a_pod_seen_with_its_gate_was_seen_too_early() -> None:
    cluster = OneNode(named("a", schedulingGates=[{"name": PLACEMENT_GATE}]))
    cluster.on_the_server["a"] = assigned("a")
    assert numa_of(await cluster.bind("a")) == [0]
    assert cluster.fetched == ["default/a"]


async def test_a_pod_that_does_not_exist_is_the_api_servers_affair() -> None:
    assert (await OneNode().bind("a")).verdict == "allow"


@pytest.mark.parametrize("leader_state", LeaderState)
async def test_what_is_no_affair_of_ours_passes_on_every_replica(leader_state: LeaderState) -> None:
    plain = pod(metadata={"name": "a", "uid": "u", "annotations": {}})
    answer = await OneNode(plain).bind("a", leader_state=leader_state)
    assert (answer.verdict, answer.decided) == ("allow", False)
    bound = await OneNode(named("a", nodeName="n3")).bind("a", leader_state=leader_state)
    assert (bound.verdict, bound.decided) == ("allow", False)


async def test_who_knows_of_no_leader_gives_nothing_out_and_lets_placed_pods_pass() -> None:
    cluster = placed(named("a"), assigned("b"), assigned("c", node="n1"), names="b")
    for name in ("a", "c"):
        with pytest.raises(NotNowError):
            await cluster.bind(name, leader_state=LeaderState.NONE)
    # Its kubelet would take NUMA node 0.
    passed = await cluster.bind("b", leader_state=LeaderState.NONE)
    assert allocation_of(passed) == {"node": "n3", "certain": False}
    assert cluster.keeper.assumed_count == 0


async def needed(cluster: OneNode, name: str, **how: Any) -> LeaderNeededError:
    """What a replica that does not lead asks the leader about."""
    with pytest.raises(LeaderNeededError) as error:
        await cluster.bind(name, leader_state=LeaderState.ELSEWHERE, **how)
    assert error.value.node == "n3"
    assert cluster.keeper.assumed_count == 0
    assert cluster.refused == []
    return error.value


@pytest.mark.parametrize("leader_state", LeaderState)
async def test_any_replica_gives_an_assigned_pod_what_it_was_assigned_and_assumes_nothing(
    leader_state: LeaderState,
) -> None:
    cluster = placed(assigned("a", numa_id=0), assigned("b", numa_id=1))
    answer = await cluster.bind("a", leader_state=leader_state)
    assert numa_of(answer) == [0]
    assert cluster.keeper.assumed_count == 0
    cluster.show_bound("a")
    assert numa_of(await cluster.bind("b", leader_state=leader_state)) == [1]


async def test_a_binding_is_void_if_the_pod_is_not_the_one_that_was_judged() -> None:
    raw = assigned("a", numa_id=0)
    cluster = placed({**raw, "metadata": {**raw["metadata"], "resourceVersion": "17"}})
    answer = await cluster.bind("a", leader_state=LeaderState.ELSEWHERE)
    assert isinstance(answer, Patched)
    assert apply({"metadata": {}}, map(dict, answer.patch))["metadata"]["resourceVersion"] == "17"


async def test_a_pod_that_needs_a_reservation_is_the_leaders_and_refused_if_it_cannot_be_asked() -> None:
    refused = denied((await needed(OneNode(named("a")), "a")).otherwise)
    assert (refused.reason, refused.misrouted) == ("NotLeader", True)


async def test_a_pod_whose_kubelet_would_choose_otherwise_is_the_leaders_and_else_gets_what_it_was_assigned() -> None:
    cluster = placed(assigned("b", numa_id=1))  # NUMA node 0 is free: its kubelet takes that
    assert allocation_of((await needed(cluster, "b")).otherwise) == {"node": "n3", "certain": False}


async def test_a_replica_waits_by_itself_until_a_pod_is_bound_that_was_assigned_what_this_one_would_get() -> None:
    cluster = placed(assigned("a", numa_id=0), assigned("b", numa_id=1))
    refused = await cluster.refuses("b", seconds=0.02, leader_state=LeaderState.ELSEWHERE)
    assert refused.reason == "BindingInProgress"


async def test_a_pod_that_its_node_cannot_hold_is_the_leaders_which_nominates_another_node() -> None:
    cluster = placed(assigned("b", numa_id=1))
    cluster.ledger.put(Reservation.of("default/x", "n3", {0: {"cpu": 1000}, 1: {"cpu": 1000}}, {"cpu": 2000}))
    assert denied((await needed(cluster, "b")).otherwise).reason != "NotLeader"


async def test_a_replica_whose_watch_has_failed_asks_the_leader() -> None:
    cluster = placed(assigned("a", numa_id=0))
    cluster.follows_pods = False
    assert numa_of((await needed(cluster, "a")).otherwise) == [0]


# n3 ── NUMA 0 [8]  NUMA 1 [8]: one pod on both; a pod beside it, on NUMA node 0
async def test_pods_on_several_numa_nodes_and_those_beside_them_are_the_leaders() -> None:
    wide = pod(metadata={"name": "wide", "uid": "u", "annotations": {NUMA_ALLOCATION: both(4)}}, cpu=8)
    share = [{"node": 0, "resources": {"cpu": "4", "memory": "1Gi"}}]
    allocation = json.dumps({"node": "n3", "numaNodeResources": share})
    small = named("small", annotations={NUMA_ALLOCATION: allocation}, cpu=4)
    assert numa_of(await placed(small).bind("small", leader_state=LeaderState.ELSEWHERE)) == [0]
    beside = placed(wide, small)
    assert numa_of((await needed(beside, "small")).otherwise) == [0]


def both(cpu: int) -> str:
    """An allocation of both NUMA nodes."""
    resources = {"cpu": str(cpu), "memory": "512Mi"}
    zones = [{"node": numa_id, "resources": resources} for numa_id in (0, 1)]
    return json.dumps({"node": "n3", "numaNodeResources": zones})


async def test_a_new_leader_gives_out_nothing_new() -> None:
    cluster = OneNode(named("a"), assigned("b"))
    assert (await cluster.refuses("a", leader_state=LeaderState.ASSIGNED_ONLY)).reason == "LeaderChanged"
    # Its kubelet would take NUMA node 0, which the last leader may have promised to somebody: it is not certain.
    passed = await cluster.bind("b", leader_state=LeaderState.ASSIGNED_ONLY)
    assert allocation_of(passed) == {"node": "n3", "certain": False}
    assumed_by = cluster.assumed_by("default/b")
    assert assumed_by is not None
    assert (list(assumed_by.numa), assumed_by.sure, assumed_by.alternatives) == ([1], False, frozenset({0}))
    # Somebody unforeseen took what the pod was placed on; NUMA node 0 may be promised by the last leader.
    cluster.keeper.forget("default/b")
    cluster.ledger.put(Reservation.of("default/x", "n3", {1: {"cpu": 1000}}, {"cpu": 1000}))
    assert (await cluster.bind("b", leader_state=LeaderState.ASSIGNED_ONLY)).verdict == "deny"
    assert numa_of(await cluster.bind("b")) == [0]


@pytest.mark.parametrize("leader_state", [LeaderState.NONE, LeaderState.ELSEWHERE, LeaderState.ASSIGNED_ONLY])
async def test_only_a_leader_who_knows_all_gives_a_placed_pod_again_what_it_lost(leader_state: LeaderState) -> None:
    cluster = OneNode(named("p", annotations={NUMA_ALLOCATION: '{"node":"n3","reserved":false}'}))
    if leader_state is LeaderState.NONE:
        with pytest.raises(NotNowError):
            await cluster.bind("p", leader_state=leader_state)
    elif leader_state is LeaderState.ELSEWHERE:
        denied((await needed(cluster, "p")).otherwise)
    else:
        assert (await cluster.bind("p", leader_state=leader_state)).verdict == "deny"
    assert cluster.keeper.assumed_count == 0
    assert numa_of(await cluster.bind("p")) == [0]


async def test_of_a_pod_that_its_node_cannot_hold_another_part_is_told_and_of_one_that_only_waits_it_is_not() -> None:
    cluster = OneNode(named("a"), named("b"), named("c"))
    for name in "ab":
        await cluster.bind(name)
        cluster.show_bound(name)
    await cluster.refuses("c", dry_run=True)
    assert cluster.refused == []
    await cluster.refuses("c")
    assert cluster.refused == [("default/c", "u", "n3")]
    waits = OneNode(named("a"), named("b"))
    await waits.bind("a")
    await waits.refuses("b", seconds=0.1)
    assert waits.refused == []


async def test_a_binding_by_no_scheduler_is_judged_and_has_no_effect() -> None:
    cluster = OneNode(named("a"), named("b"), named("c"))
    answer = await cluster.bind("a", user="admin")
    assert answer.unreserved is Unreserved.USER
    assert isinstance(answer, Allowed)
    assert answer.message == "bound to n3 by admin, who is none of --scheduler-users: no NUMA nodes are reserved"
    assert cluster.keeper.assumed_count == 0
    for name in "ab":
        await cluster.bind(name)
        cluster.show_bound(name)
    await cluster.refuses("c", user="admin")
    assert cluster.refused == []


async def test_a_binding_of_a_gated_pod_or_of_another_one_of_its_name_has_no_effect() -> None:
    gated = named("a", schedulingGates=[{"name": "example.com/hold"}])
    for cluster, uid in ((OneNode(gated), ""), (OneNode(named("a", uid="new")), "old")):
        answer = await cluster.bind("a", uid=uid)
        assert (answer.verdict, answer.decided, cluster.keeper.assumed_count) == ("allow", False, 0)


async def test_a_review_that_may_be_forged_is_believed_for_a_moment_however_often_it_comes() -> None:
    cluster = OneNode(named("a"), named("b"))
    cluster.doubts = Doubts()
    assert numa_of(await cluster.bind("a")) == [0]
    first = cluster.keeper.assumed_by("default/a")
    assert first is not None
    assert first.expires < monotonic() + 2
    for _ in range(3):
        await cluster.bind("a")
    again = cluster.keeper.assumed_by("default/a")
    assert again is not None
    assert again.expires == first.expires


async def test_a_pod_whose_reviews_came_to_nothing_is_answered_and_stands_in_nobodys_way() -> None:
    cluster = OneNode(named("a"), named("b"))
    cluster.doubts = Doubts()
    for _ in range(2):
        cluster.doubts.came_to_nothing("default/a", "u", monotonic())
    answer = await cluster.bind("a")
    assert (numa_of(answer), answer.unreserved) == ([0], Unreserved.DOUBTED)
    assert cluster.keeper.assumed_count == 0
    assert numa_of(await cluster.bind("b")) == [0]


def rejected_on_n3(node: OneNode) -> None:
    """A kubelet rejects a pod of the ReplicaSet."""
    groups = (controllers_group("default", "rs"),)
    rejection = KubeletRejection(RejectionReason.TOPOLOGY_AFFINITY, managed=True)
    node.avoided.saw(RejectedPod("default", "first", "u", "1", rejection, "n3", 1000, None, groups, False), True)


def of_the_replica_set(raw: Raw) -> Raw:
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "rs", "uid": "rs", "controller": True}
    return {**raw, "metadata": {**raw["metadata"], "ownerReferences": [owner]}}


@pytest.mark.parametrize("state", [LeaderState.ALL, LeaderState.ELSEWHERE])
async def test_a_node_that_rejected_a_pod_of_the_same_controller_is_refused_until_its_time_has_passed(
    state: LeaderState,
) -> None:
    node = OneNode(of_the_replica_set(assigned("a")), assigned("b", numa_id=0))
    rejected_on_n3(node)
    if state is LeaderState.ALL:
        answer = denied(await node.bind("a", leader_state=state))
    else:
        answer = denied((await needed(node, "a")).otherwise)
    assert answer.message.startswith("node n3 is avoided: its kubelet rejected a pod of the same controller or gang")
    assert isinstance(await node.bind("b", leader_state=state), Patched)
    node.show_bound("b")
    node.now += 120
    node.avoided.advance()
    assert isinstance(await node.bind("a", leader_state=state), Patched)


def test_of_the_namespace_that_has_most_the_oldest_goes() -> None:
    waiting = WaitingReviews(most=4)
    with ExitStack() as stack:
        good = stack.enter_context(waiting.one("good", "good/p"))
        bad = [stack.enter_context(waiting.one("bad", f"bad/p{number}")) for number in range(10)]
        assert not good.displaced
        assert [each.displaced for each in bad] == [True] * 7 + [False] * 3


def test_a_pod_waits_once_and_its_latest_review_is_the_one() -> None:
    waiting = WaitingReviews()
    with waiting.one("ns", "ns/p") as first:
        with waiting.one("ns", "ns/p") as second:
            assert (first.displaced, second.displaced) == (True, False)
        with waiting.one("ns", "ns/q") as third:
            assert not third.displaced


def test_those_that_are_answered_make_room() -> None:
    waiting = WaitingReviews(most=1)
    for _ in range(3):
        with waiting.one("ns", "ns/p") as one:
            assert not one.displaced


async def test_the_pod_that_a_review_waits_for_wakes_it_and_no_other_pod_does() -> None:
    waiting = WaitingReviews()
    with waiting.one("ns", "ns/p", {"ns/a", "ns/b"}) as one, waiting.one("ns", "ns/q", {"ns/c"}) as other:
        tasks = [asyncio.create_task(each.woken(60)) for each in (one, other)]
        await asyncio.sleep(0)
        waiting.bound_or_gone("ns/x", "x")
        waiting.bound_or_gone("ns/b", "b")
        await tasks[0]
        assert not tasks[1].done()
        waiting.bound_or_gone("ns/c", "c")
        await tasks[1]
    waiting.bound_or_gone("ns/a", "a")


async def test_a_displaced_review_is_woken() -> None:
    waiting = WaitingReviews()
    with waiting.one("ns", "ns/p", {"ns/a"}) as first, waiting.one("ns", "ns/p", {"ns/a"}):
        await first.woken(60)
        assert first.displaced


class RecreatedPods:
    """n0 ── NUMA 0 [8]      [free cpus]"""

    def __init__(self) -> None:
        self.cache = cluster_cache(*machine(name="n0", free=(8,)), *machine(name="n1", free=(8,)))
        self.server: dict[str, Mapping[str, Any]] = {}
        self.guard = BindingGuard(self.cache, self.fetch, lambda _: LeaderState.ALL, Rules(), 70, lambda *_: None, None)

    async def fetch(self, namespace: str, name: str) -> Mapping[str, Any] | None:
        return self.server.get(f"{namespace}/{name}")

    async def bind(self, name: str, uid: str) -> Response:
        deadline = asyncio.get_running_loop().time() + 0.4
        return await self.guard.handle(binding_review(name, "n0", uid, deadline=deadline))


@pytest.mark.parametrize("before", ["bound", "gated", "nothing"])
@pytest.mark.parametrize("event", ["deleting", "deleted", "another in between"])
async def test_what_a_recreated_pod_was_given_stays_reserved_when_its_predecessor_is_shown_to_end(
    before: str, event: str
) -> None:
    site = RecreatedPods()
    first = {
        "bound": bound(name="w-0", node="n1", metadata={"uid": "first"}),
        "gated": gated(name="w-0", metadata={"uid": "first"}),
        "nothing": None,
    }[before]
    if first is not None:
        put(site.cache, first)
    # The scheduler has seen the next pod of this name before we do.
    second = created(name="w-0", metadata={"uid": "second"})
    site.server["default/w-0"] = second
    assert isinstance(await site.bind("w-0", "second"), Patched)
    assert site.cache.assumed_node("default/w-0") == "n0"
    # The last events of the first one arrive.
    if first is not None and event == "deleting":
        deleting = {"deletionTimestamp": "2030-01-01T00:00:30Z"}
        put(site.cache, {**first, "metadata": {**first["metadata"], **deleting}})
    if first is not None and event == "deleted":
        site.cache.pods.delete("default/w-0")
    if event == "another in between":
        site.cache.pods.delete("default/w-0")
        put(site.cache, gated(name="w-0", metadata={"uid": "between"}))
        site.cache.pods.delete("default/w-0")
    put(site.cache, second)
    other = created(name="other")
    site.server["default/other"] = other
    put(site.cache, other)
    answer = await site.bind("other", "other")
    assert not isinstance(answer, Patched), "its only NUMA node was given to w-0"


class FakeApiServer:
    def __init__(self, **on_the_server: Raw) -> None:
        self.cache = ClusterCache()
        self.on_the_server = on_the_server
        self.asked = 0
        self.asking = self.most = 0
        self.lookup = PodLookup(self.cache, self.fetch)

    def show(self, raw: Raw) -> None:
        self.cache.pods.upsert("ns/a", dict(raw))

    async def fetch(self, namespace: str, name: str) -> Raw | None:
        assert namespace == "ns"
        self.asked += 1
        self.asking += 1
        self.most = max(self.most, self.asking)
        await asyncio.sleep(0)
        self.asking -= 1
        return self.on_the_server.get(name)

    async def find(self, name: str, uid: str = "u", seconds: float = 5.0) -> Raw | None:
        return await self.lookup.find("ns", name, uid, asyncio.get_running_loop().time() + seconds)


def seen(uid: str = "u", gated: bool = False) -> Raw:
    """The seen ns/a, which is managed."""
    gates = GATES if gated else []
    return pod(name="a", namespace="ns", metadata={"uid": uid}, schedulingGates=gates)


async def test_a_pod_that_is_seen_a_moment_later_costs_no_call() -> None:
    cluster = FakeApiServer()
    cluster.show(seen(gated=True))
    finding = asyncio.create_task(cluster.find("a"))
    await asyncio.sleep(0)
    cluster.show(seen())
    assert (await finding, cluster.asked) == (seen(), 0)


async def test_a_pod_that_is_not_seen_is_asked_for() -> None:
    cluster = FakeApiServer(a=seen())
    assert (await cluster.find("a"), cluster.asked) == (seen(), 1)


async def test_an_incarnation_that_is_not_there_is_asked_for_once_and_a_name_each_time() -> None:
    cluster = FakeApiServer(a=seen("another"))
    for _ in range(3):
        assert await cluster.find("a") is None
    assert cluster.asked == 1
    for _ in range(3):
        assert await cluster.find("b", uid="") is None
    assert cluster.asked == 4


async def test_however_many_ask_the_api_server_answers_a_few_at_a_time() -> None:
    cluster = FakeApiServer()
    answers = await asyncio.gather(*(cluster.find(f"p{number}", str(number)) for number in range(40)))
    assert (answers, cluster.asked, cluster.most <= 4) == ([None] * 40, 40, True)


async def test_who_cannot_be_asked_for_in_time_is_not_taken_for_absent() -> None:
    cluster = FakeApiServer()
    held = asyncio.Event()

    async def stuck(*_: str) -> None:
        await held.wait()

    lookup = PodLookup(cluster.cache, stuck)
    deadline = asyncio.get_running_loop().time() + 0.2
    others = [asyncio.create_task(lookup.find("ns", f"p{number}", "u", deadline)) for number in range(4)]
    await asyncio.sleep(0.1)
    with pytest.raises(TimeoutError):
        await lookup.find("ns", "a", "u", deadline)
    held.set()
    await asyncio.gather(*others)


def test_a_pod_whose_reviews_come_to_nothing_is_believed_less_each_time_and_then_not_at_all() -> None:
    doubts = Doubts()
    seconds = []
    for now in range(4):
        seconds.append(doubts.believed_seconds("ns/p", "u", now))
        doubts.came_to_nothing("ns/p", "u", now)
    assert seconds == [1.5, 0.3, 0.0, 0.0]


def test_many_pods_of_one_namespace_are_believed_no_more_than_one_and_others_are() -> None:
    doubts = Doubts()
    seconds = []
    for now in range(5):
        seconds.append(doubts.believed_seconds(f"ns/p{now}", "u", now))
        doubts.came_to_nothing(f"ns/p{now}", "u", now)
    assert seconds == [1.5, 0.3, 0.3, 0.0, 0.0]
    assert doubts.believed_seconds("other/p", "u", 5) == 1.5


def test_another_pod_of_that_name_is_no_worse_than_its_namespace() -> None:
    doubts = Doubts()
    for _ in range(2):
        doubts.came_to_nothing("ns/p", "u", 0)
    assert (doubts.believed_seconds("ns/p", "u", 1), doubts.believed_seconds("ns/p", "v", 1)) == (0.0, 0.3)


def test_doubt_lasts_as_long_as_the_attack_and_a_minute() -> None:
    doubts = Doubts()
    for _ in range(3):
        doubts.came_to_nothing("ns/p", "u", 0)
    assert [doubts.believed_seconds("ns/p", "u", now) for now in (50, 100, 150, 210)] == [0.0, 0.0, 0.0, 1.5]


def test_what_is_remembered_is_bounded() -> None:
    doubts = Doubts()
    for number in range(10_000):
        doubts.came_to_nothing(f"ns{number}/p", "u", 0)
    assert len(doubts) == 2 * 4096
