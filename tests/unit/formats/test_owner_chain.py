"""What pods inherit from their owners, and the gangs that owners define."""

from typing import Any

import pytest

from tests.builders.pods import plain
from tests.builders.workloads import TEMPLATE, job, of, owned
from webhook.formats.kubernetes import owner_chain as owner_chain_module
from webhook.formats.kubernetes.membership import membership_of
from webhook.formats.kubernetes.owner_chain import owner_above, ranked, taken_from_owners
from webhook.model.errors import UserError
from webhook.model.names import (
    INHERIT,
    JOBSET_REPLICATED_JOB,
    KAI_BATCH_MIN_MEMBER,
    KAI_TOPOLOGY,
    LWS_GROUP_INDEX,
    NUMA_TOPOLOGY_SPEC,
    POD_GROUP_NAME,
    RESOURCE_SPEC,
)


def test_the_controller_comes_before_other_owners_and_the_first_of_those_before_the_rest() -> None:
    first, second = {"name": "a", "uid": "a"}, {"name": "b", "uid": "b", "controller": True}
    for references, wanted in (([first, second], "b"), ([first, {**first, "name": "c"}], "a")):
        owner = owner_above({"metadata": {"ownerReferences": references}})
        assert owner is not None
        assert owner.name == wanted
    assert owner_above(plain()) is None


def test_a_pods_own_annotation_comes_first_then_that_of_the_nearest_owner() -> None:
    replica_set = owned("ReplicaSet", "apps/v1", {}, "Deployment", **{KAI_BATCH_MIN_MEMBER: "2"})
    deployment = owned("Deployment", "apps/v1", {}, **{KAI_BATCH_MIN_MEMBER: "3", KAI_TOPOLOGY: "far", "note": "x"})
    owner_chain = of(replica_set, deployment)
    assert owner_chain.top.kind == "Deployment"
    taken = taken_from_owners(plain(annotations={KAI_TOPOLOGY: "own"}), owner_chain)
    assert taken == {KAI_BATCH_MIN_MEMBER: "2", POD_GROUP_NAME: "pg-w-uid-Deployment"}


def test_numa_wishes_are_taken_only_by_a_pod_that_has_none_and_make_no_group() -> None:
    owner_chain = of(job(**{NUMA_TOPOLOGY_SPEC: "{}"}))
    assert taken_from_owners(plain(), owner_chain) == {NUMA_TOPOLOGY_SPEC: "{}"}
    assert taken_from_owners(plain(annotations={RESOURCE_SPEC: "{}"}), owner_chain) == {}


def test_a_group_that_a_pod_names_itself_stays_its_group() -> None:
    assert POD_GROUP_NAME not in taken_from_owners(
        plain(annotations={POD_GROUP_NAME: "own"}), of(job(**{KAI_TOPOLOGY: "t"}))
    )


def test_what_only_makes_workloads_is_not_the_top_but_its_wishes_hold() -> None:
    owner_chain = of(job("CronJob"), owned("CronJob", "batch/v1", {}, **{KAI_TOPOLOGY: "t"}))
    assert (owner_chain.top.kind, owner_chain.annotations) == ("Job", {KAI_TOPOLOGY: "t"})
    # all four start together: the job asks for a topology, by what stands above it
    assert owner_chain.minimum({}, None) == 1
    assigned = {KAI_TOPOLOGY: "t", "kai.scheduler/topology-required-placement": "rack"}
    assert of(job("CronJob"), owned("CronJob", "batch/v1", {}, **assigned)).minimum({}, None) == 4


@pytest.mark.parametrize("kueues", [{}, {"labels": {"kueue.x-k8s.io/queue-name": "q"}}], ids=["", "kueue's"])
def test_a_gang_is_that_of_the_highest_kind_that_is_read_and_what_wraps_it_only_passes_on(kueues: Any) -> None:
    rack = {KAI_TOPOLOGY: "t", "kai.scheduler/topology-required-placement": "rack"}
    above = owned("AppWrapper", "workload.codeflare.dev/v1beta2", {}, **rack)
    above["metadata"] |= kueues
    owner_chain = of(job("AppWrapper"), above)
    assert (owner_chain.top.kind, owner_chain.annotations) == ("Job", rack)
    assert owner_chain.group_name({}) == "pg-w-uid-Job"
    assert owner_chain.minimum({}, None) == 4
    assert bool(owner_chain.why_kueues) is bool(kueues)
    # a Deployment is above its ReplicaSet, and an operator's own kind above that
    replica_set, deployment = owned("ReplicaSet", "apps/v1", {}), owned("Deployment", "apps/v1", {})
    assert of(replica_set, deployment, owned("Service", "example.com/v1", {})).top.kind == "Deployment"


def test_of_owners_that_cannot_be_read_the_nearest_makes_the_group() -> None:
    owner_chain = of()
    assert owner_chain.group_name({}) == "pg-thing-uid-thing"
    assert (owner_chain.minimum({}, None), owner_chain.minimum({}, 5)) == (1, 5)


@pytest.mark.parametrize(("asked", "succeeded", "minimum"), [(None, 0, 4), (3, 0, 3), (9, 0, 4), (None, 3, 1)])
def test_a_job_waits_for_no_more_pods_than_it_will_still_have(asked: int | None, succeeded: int, minimum: int) -> None:
    rack = {KAI_TOPOLOGY: "t", "kai.scheduler/topology-required-placement": "rack"}
    assert of({**job(**rack), "status": {"succeeded": succeeded}}).minimum({}, asked) == minimum


def test_each_replica_of_a_leader_worker_set_is_a_group() -> None:
    spec = {"replicas": 2, "leaderWorkerTemplate": {"size": 3, "workerTemplate": TEMPLATE}}
    owner_chain = of(owned("LeaderWorkerSet", "leaderworkerset.x-k8s.io/v1", spec))
    assert owner_chain.group_name({LWS_GROUP_INDEX: "1"}) == "pg-w-uid-LeaderWorkerSet-group-1"
    assert owner_chain.minimum({LWS_GROUP_INDEX: "1"}, None) == 3
    assert [owner_chain.rank(name, {LWS_GROUP_INDEX: "1"}) for name in ("w-1", "w-1-2")] == [0, 2]


def test_what_stands_on_a_leader_is_not_what_its_workers_take() -> None:
    leader = owned("Pod", "v1", {}, "LeaderWorkerSet", **{NUMA_TOPOLOGY_SPEC: "{}", POD_GROUP_NAME: "own"})
    top = owned("LeaderWorkerSet", "leaderworkerset.x-k8s.io/v1", {}, **{KAI_TOPOLOGY: "t"})
    assert of(owned("StatefulSet", "apps/v1", {}, "Pod"), leader, top).annotations == {KAI_TOPOLOGY: "t"}
    assert of(leader).annotations.keys() == {NUMA_TOPOLOGY_SPEC, POD_GROUP_NAME}


def test_of_a_rollouts_surge_a_group_is_as_large_as_the_others_and_of_workers_that_wait_none_is_waited_for() -> None:
    spec: dict[str, Any] = {"replicas": 2, "leaderWorkerTemplate": {"size": 3, "workerTemplate": TEMPLATE}}
    for policy, minimum in (("LeaderCreated", 3), ("LeaderReady", 1)):
        top = owned("LeaderWorkerSet", "leaderworkerset.x-k8s.io/v1", {**spec, "startupPolicy": policy})
        assert of(top).minimum({LWS_GROUP_INDEX: "2"}, None) == minimum
        assert of(top).minimum({LWS_GROUP_INDEX: "0"}, 3) == minimum


def test_what_one_of_its_jobs_asks_is_not_asked_of_a_whole_job_set() -> None:
    jobs = [{"name": "a", "template": {"spec": {"template": TEMPLATE}}}]
    above = owned("JobSet", "jobset.x-k8s.io/v1alpha2", {"replicatedJobs": jobs}, **{KAI_TOPOLOGY: "t"})
    owner_chain = of(job("JobSet", **{KAI_BATCH_MIN_MEMBER: "2"}), above)
    assert owner_chain.annotations == {KAI_TOPOLOGY: "t", KAI_BATCH_MIN_MEMBER: "2"}
    assert owner_chain.raw is not None
    assert owner_chain.raw["metadata"]["annotations"] == {KAI_TOPOLOGY: "t"}


@pytest.mark.parametrize("order", ["InOrder", "AnyOrder"])
def test_the_jobs_of_a_job_set_are_one_group_unless_they_start_in_order(order: str) -> None:
    jobs = [
        {"name": name, "replicas": replicas, "template": {"spec": {"parallelism": 2, "template": TEMPLATE}}}
        for name, replicas in (("lead", 1), ("work", 2))
    ]
    spec = {"startupPolicy": {"startupPolicyOrder": order}, "replicatedJobs": jobs}
    owner_chain = of(owned("JobSet", "jobset.x-k8s.io/v1alpha2", spec))
    labels = {JOBSET_REPLICATED_JOB: "work"}
    found = (
        owner_chain.group_name(labels),
        owner_chain.minimum(labels, None),
        owner_chain.rank("w-work-1-0-abcde", labels),
    )
    in_order = ("pg-w-uid-JobSet-work", 4, 2)
    assert found == (in_order if order == "InOrder" else ("pg-w-uid-JobSet", 6, 4))


def test_the_longest_name_still_gives_a_name() -> None:
    owner_chain = of(owned("Job", "batch/v1", {"template": TEMPLATE}, name="n" * 253))
    assert len(owner_chain.group_name({})) == 253
    assert owner_chain.group_name({}).endswith("-uid-Job")


def test_a_rank_that_the_user_or_a_placement_gave_stays() -> None:
    owner_chain = of(job())
    for annotations, wanted in (({}, 2), ({"topology-webhook.dev/rank": "7"}, 7)):
        raw = plain(name="w-2-abcde", annotations={POD_GROUP_NAME: "g", **annotations})
        membership = ranked(membership_of(raw), raw, owner_chain)
        assert membership is not None
        assert membership.rank == wanted


def test_a_group_is_of_the_roles_that_ask_where_the_whole_asks_for_nothing() -> None:
    rack = {KAI_TOPOLOGY: "t", "kai.scheduler/topology-required-placement": "rack"}
    asks = {"metadata": {"annotations": rack}, **TEMPLATE}
    replicas = {"Master": {"template": TEMPLATE}, "Worker": {"replicas": 3, "template": asks}}
    spec = {"pytorchReplicaSpecs": replicas}
    for above, minimum, rank in (({}, 3, 1), (rack, 4, 2)):
        owner_chain = of(owned("PyTorchJob", "kubeflow.org/v1", spec, **above))
        assert (owner_chain.minimum({}, None), owner_chain.rank("w-worker-1", {})) == (minimum, rank)


@pytest.mark.parametrize(
    ("master", "worker", "minimum"),
    [
        ({}, {}, 4),
        ({INHERIT: "true"}, {INHERIT: "true"}, 4),
        ({INHERIT: "false"}, {INHERIT: "true"}, 3),  # its user's wish
        ({}, {INHERIT: "true"}, 3),  # of another scheduler
        ({KAI_BATCH_MIN_MEMBER: "1"}, {INHERIT: "true"}, 4),
        ({INHERIT: "false"}, {INHERIT: "false"}, 4),
    ],
)
def test_of_a_group_are_no_roles_whose_pods_take_nothing_from_their_owners(
    master: dict[str, str], worker: dict[str, str], minimum: int
) -> None:
    replicas = {
        "Master": {"template": {"metadata": {"annotations": master}, **TEMPLATE}},
        "Worker": {"replicas": 3, "template": {"metadata": {"annotations": worker}, **TEMPLATE}},
    }
    rack = {KAI_TOPOLOGY: "t", "kai.scheduler/topology-required-placement": "rack"}
    owner_chain = of(owned("PyTorchJob", "kubeflow.org/v1", {"pytorchReplicaSpecs": replicas}, **rack))
    assert owner_chain.minimum({}, None) == minimum


@pytest.mark.parametrize(("mark", "minimum"), [("true", 3), ("false", 2), (None, 2)])
def test_a_leader_is_in_the_group_of_its_workers(mark: str | None, minimum: int) -> None:
    rack = {KAI_TOPOLOGY: "t", "kai.scheduler/topology-required-placement": "rack"}
    sets = {
        "size": 3,
        "leaderTemplate": {"metadata": {"annotations": {INHERIT: mark} if mark else {}}, **TEMPLATE},
        "workerTemplate": {"metadata": {"annotations": {**rack, NUMA_TOPOLOGY_SPEC: "{}"}}, **TEMPLATE},
    }
    owner_chain = of(owned("LeaderWorkerSet", "leaderworkerset.x-k8s.io/v1", {"leaderWorkerTemplate": sets}))
    labels = {LWS_GROUP_INDEX: "0"}
    assert owner_chain.minimum(labels, None) == minimum
    taken = taken_from_owners(plain(metadata={"labels": labels}), owner_chain)
    assert taken == {**rack, POD_GROUP_NAME: owner_chain.group_name(labels)}


def test_a_faulty_owner_is_read_once_for_all_its_pods(monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[Any] = []

    def read(raw: Any) -> None:
        reads.append(raw)
        raise UserError("spec.tasks[899].replicas", "This is not a number.")

    monkeypatch.setattr(owner_chain_module, "read_workload", read)
    owner_chain = of(job(**{KAI_TOPOLOGY: "t"}))
    for _ in range(2):
        with pytest.raises(UserError, match="This is not a number"):
            owner_chain.gang({})
    with pytest.raises(UserError, match="This is not a number"):
        owner_chain.taking({}).gang({})
    assert len(reads) == 1
