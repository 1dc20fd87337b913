"""Gated pods: read, told apart, put in order, put together."""

from functools import partial
from time import monotonic
from typing import Any

import pytest

from tests.builders.pods import gated
from tests.builders.workloads import job, of
from webhook.formats.kubernetes.owner_chain import OwnerChain
from webhook.formats.patches.affinity_patch import Constraint
from webhook.formats.patches.managed_fields import ManagedFields
from webhook.model.names import INHERIT, KAI_TOPOLOGY, MANAGED, MANAGED_FIELDS, NUMA_DEFAULTS, NUMA_TOPOLOGY_SPEC
from webhook.model.policy import Exclusive, NUMAPolicy
from webhook.placing.gang.gang_search import GatedGang
from webhook.placing.pod.gated_pods import ASKS_FOR_NOTHING, GatedPod, GatedPods, GroupBasis
from webhook.placing.retry_delays import RetryDelays
from webhook.placing.waiting_unit import units_of
from webhook.state.rules import Rules
from webhook.steps import result_of

OWNER = {"apiVersion": "batch/v1", "kind": "Job", "name": "w", "uid": "uid-Job", "controller": True}


def all_pods() -> GatedPods:
    return GatedPods(Rules(), RetryDelays(lambda _: None, monotonic))


def no_group(namespace: str, name: str) -> GroupBasis:
    return GroupBasis(None, {}, is_served=False)


def by_key(*raws: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {f"default/{raw['metadata']['name']}": raw for raw in raws}


def _first(owner_chain: OwnerChain, *_: object) -> OwnerChain:
    return owner_chain


def names(pods: GatedPods) -> list[str]:
    return [one.pod.name for one in pods.in_order()]


def test_higher_priority_comes_first_then_age_then_name() -> None:
    pods = all_pods()
    raws = (
        gated(name="c", second=1),
        gated(name="b", second=1),
        gated(name="old", second=0),
        gated(name="high", second=9, priority=100),
    )
    result_of(pods.update(by_key(*raws)))
    assert names(pods) == ["high", "old", "b", "c"]


def test_of_the_pods_being_written_only_those_are_left_out_for_which_no_other_waits() -> None:
    pods = all_pods()
    raws = by_key(gated(name="a"), gated(name="b"), gated(name="g-0", group="g"))
    raws["default/held"] = {**gated(name="held"), "status": {"nominatedNodeName": "n0"}}
    result_of(pods.update(raws))
    on_way = {"default/a", "default/g-0", "default/held"}
    assert [one.pod.name for one in pods.in_order(on_way)] == ["b", "g-0", "held"]


def test_each_new_pod_is_parsed_in_a_step_of_its_own() -> None:
    pods, raws = all_pods(), by_key(gated(name="a"), gated(name="b"))
    steps = pods.update(raws)
    next(steps)
    assert [pod.key for pod in pods.in_order()] == ["default/a"]
    result_of(steps)
    assert [pod.key for pod in pods.in_order()] == ["default/a", "default/b"]
    assert not list(pods.update(raws))


def test_what_is_gone_is_forgotten_and_what_changed_is_read_again() -> None:
    pods = all_pods()
    for raws in ([gated(name="a"), gated(name="b")], [gated(name="a", priority=7)]):
        result_of(pods.update(by_key(*raws)))
    assert [one.pod.priority for one in pods.in_order()] == [7]


def test_pods_that_end_or_that_others_place_are_not_ours_and_one_that_cannot_be_read_is_a_fault() -> None:
    pods = all_pods()
    ending = gated(name="ending")
    ending["metadata"]["deletionTimestamp"] = "2030-01-01T00:00:00Z"
    broken = gated(name="broken")
    broken["metadata"]["annotations"][NUMA_TOPOLOGY_SPEC] = "{"
    result_of(pods.update(by_key(ending, gated(name="other", schedulerName="other"), broken)))
    assert names(pods) == []
    assert list(pods.faults) == ["default/broken"]


SOME = {"weight": 1, "preference": {"matchExpressions": [{"key": "a", "operator": "Exists"}]}}


@pytest.mark.parametrize(
    ("other", "equal"),
    [
        (gated(name="b", second=5, priority=3), True),
        (gated(name="b", cpu="4"), False),
        (gated(name="b", nodeSelector={"a": "b"}), False),
        (gated(name="b", tolerations=[{"operator": "Exists"}]), False),
        (gated(name="b", affinity={"podAffinity": {}}), True),
        (gated(name="b", affinity={"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [SOME]}}), True),
    ],
)
def test_pods_have_the_same_signature_if_they_fit_on_the_same_nodes(other: dict[str, Any], *, equal: bool) -> None:
    assert (GatedPod.from_object(gated(name="a")).signature == GatedPod.from_object(other).signature) is equal


PREFERS_A, PREFERS_B = (
    {"weight": 5, "preference": {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]}}
    for name in "ab"
)


# Its manifest may be what `review -o yaml` made, applied while no replica answered.
def test_what_an_earlier_pass_preferred_is_not_its_users_wish() -> None:
    preferred = {"preferredDuringSchedulingIgnoredDuringExecution": [PREFERS_A, PREFERS_B]}
    raw = gated(name="p", affinity={"nodeAffinity": preferred})
    assert len(GatedPod.from_object(raw).pod.preferred_terms) == 2
    raw["metadata"]["annotations"][MANAGED_FIELDS] = ManagedFields.of(Constraint((), (PREFERS_B,)), 0).text()
    assert [term for _, term in GatedPod.from_object(raw).pod.preferred_terms] == [PREFERS_A["preference"]]


def test_members_of_a_group_have_the_turn_of_their_first() -> None:
    pods = all_pods()
    groups = {"a": "", "g-1": "g", "b": "", "g-2": "g"}
    raws = [gated(name=name, second=n, group=group) for n, (name, group) in enumerate(groups.items(), 1)]
    result_of(pods.update(by_key(*raws, gated(name="h", second=0, group="h"))))
    units = (unit.members if isinstance(unit, GatedGang) else (unit,) for unit in units_of(pods.in_order()))
    assert [[one.pod.name for one in members] for members in units] == [["h"], ["a"], ["g-1", "g-2"], ["b"]]


def test_what_owners_say_is_taken_in_and_a_pod_without_a_wish_asks_for_nothing() -> None:
    raw = gated(name="a")
    raw["metadata"] |= {"ownerReferences": [OWNER], "annotations": {INHERIT: "true"}}
    pods = all_pods()
    result_of(pods.update(by_key(raw)))
    assert [(namespace, owner.uid) for namespace, owner in pods.owners()] == [("default", "uid-Job")]
    for annotations, asks in (({}, False), ({KAI_TOPOLOGY: "t"}, True), ({NUMA_TOPOLOGY_SPEC: "{}"}, True)):
        owner_chain = of(job(**annotations))
        pods.take(partial(_first, owner_chain), no_group)
        (pod,) = pods.in_order()
        assert pod.asks is asks
        assert (pod.membership is not None) is (KAI_TOPOLOGY in annotations)
        assert pod.taken.items() >= annotations.items()


def test_owners_that_say_something_wrong_are_a_fault_of_the_pod_until_they_do_no_more() -> None:
    raw = gated(name="a")
    raw["metadata"] |= {"ownerReferences": [OWNER], "annotations": {INHERIT: "true"}}
    pods = all_pods()
    result_of(pods.update(by_key(raw)))
    pods.take(lambda *_: of(job(**{NUMA_TOPOLOGY_SPEC: "{"})), no_group)
    assert list(pods.faults) == ["default/a"]
    pods.take(lambda *_: of(job(**{NUMA_TOPOLOGY_SPEC: "{}"})), no_group)
    assert pods.faults == {}


def test_a_gate_on_a_pod_that_is_not_ours_is_told_with_the_reason() -> None:
    pods = all_pods()
    unasked = gated(name="unasked")
    del unasked["metadata"]["annotations"]
    result_of(pods.update(by_key(unasked, gated(name="other", schedulerName="other"))))
    assert {key: why for key, (_, why) in pods.unmanaged.items()} == {
        "default/unasked": "no annotation scheduling.koordinator.sh/numa-topology-spec or "
        "scheduling.koordinator.sh/resource-spec, and none of a gang",
        "default/other": "the scheduler other places it",
    }
    result_of(pods.update({}))
    assert pods.unmanaged == {}


RESTRICTED = '{"numaTopologyPolicy":"Restricted","singleNUMANodeExclusive":"Preferred"}'


def marked(**annotations: str) -> GatedPod:
    """A pod that asks for nothing itself, with marks of its creation."""
    raw = gated(name="p")
    raw["metadata"]["annotations"] = annotations
    return GatedPod.from_object(raw)


def test_a_pod_that_is_managed_by_its_mode_is_placed_and_one_whose_owners_ask_for_nothing_is_not() -> None:
    assert marked(**{MANAGED: "aligned"}).asks
    assert marked(**{MANAGED: "all", INHERIT: "true"}).asks
    assert not marked(**{NUMA_DEFAULTS: RESTRICTED, INHERIT: "true"}).asks


def test_the_owners_annotation_comes_before_the_defaults_and_they_before_none() -> None:
    raw = gated(name="p")
    raw["metadata"]["annotations"] = {NUMA_DEFAULTS: RESTRICTED, INHERIT: "true"}
    single = '{"numaTopologyPolicy": "SingleNUMANode"}'
    asking = GatedPod.from_object(raw, of(job(**{NUMA_TOPOLOGY_SPEC: single})))
    assert (asking.intent.policy, asking.intent.exclusive) == (NUMAPolicy.SINGLE_NUMA_NODE, Exclusive.PREFERRED)
    silent = GatedPod.from_object(raw, of(job(**{KAI_TOPOLOGY: "t"})))
    assert (silent.intent.policy, silent.intent.exclusive) == (NUMAPolicy.RESTRICTED, Exclusive.PREFERRED)


def test_pods_of_other_defaults_do_not_have_the_same_answer() -> None:
    assert marked(**{MANAGED: "all"}).signature != marked(**{MANAGED: "all", NUMA_DEFAULTS: RESTRICTED}).signature
    assert marked(**{MANAGED: "all"}).signature == marked(**{MANAGED: "aligned"}).signature


KUEUE_READ = {
    "kueue.x-k8s.io/podset-required-topology": "rack",
    "kai.scheduler/topology": "network",
    "kai.scheduler/topology-required-placement": "rack",
}


def of_job(labels: dict[str, str], *, numa: str | None = None, reads_kueue: bool = True) -> GatedPod:
    owner: dict[str, Any] = job()
    owner["metadata"]["labels"] = labels
    raw = gated(annotations=KUEUE_READ, numa=numa, metadata={"ownerReferences": [OWNER]})
    return GatedPod.from_object(raw, of(owner), reads_kueue=reads_kueue)


def test_a_pod_of_a_workload_with_a_queue_asks_for_nothing_and_its_text_says_why() -> None:
    pod = of_job({"kueue.x-k8s.io/queue-name": "team"})
    assert not pod.asks
    assert pod.why_unasked == (
        "its topology annotations are left to Kueue, which manages its owner (label kueue.x-k8s.io/queue-name)"
    )
    assert pod.owner is not None  # it is read again when it changes


def test_its_numa_policy_still_counts() -> None:
    pod = of_job({"kueue.x-k8s.io/queue-name": "team"}, numa='{"numaTopologyPolicy": "SingleNUMANode"}')
    assert pod.asks
    assert pod.membership is None


def test_without_a_queue_or_without_the_setting_nothing_changes() -> None:
    assert of_job({}).membership is not None
    assert of_job({"kueue.x-k8s.io/queue-name": "team"}, reads_kueue=False).membership is not None
    assert of_job({}).why_unasked == ASKS_FOR_NOTHING
