"""Kueue's AdmissionChecks: which Workloads are told that there is room, and which are to try again."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from tests.builders.clusters import cluster_cache, machine
from tests.builders.pods import SINGLE, gated
from tests.builders.topologies import topology
from tests.builders.workloads import template
from webhook.controllers.admission_checks import FIRST_PAUSE, LONGEST_PAUSE, AdmissionChecks
from webhook.engine.topology.tree_cache import TopologyTrees
from webhook.formats.kubernetes.pod import Owner
from webhook.formats.kueue_admission import CONTROLLER, AdmissionCheck, PendingWorkload
from webhook.kube.api_errors import APIError
from webhook.kube.write import WRITTEN, Outcome, Write
from webhook.model.names import NUMA_TOPOLOGY_SPEC
from webhook.state.rules import Rules

RACK = "example.com/rack"
NUMA = {NUMA_TOPOLOGY_SPEC: SINGLE}
IN_A_RACK = {"kai.scheduler/topology": "network", "kai.scheduler/topology-required-placement": "rack", **NUMA}

# rack r1 ── n0 [16, 16]      [free cpus per NUMA node]
# rack r2 ── n1 [16, 16]  n2 [16, 16]
RACKS = (
    *machine(name="n0", free=[16, 16], labels={RACK: "r1"}),
    *machine(name="n1", free=[16, 16], labels={RACK: "r2"}),
    *machine(name="n2", free=[16, 16], labels={RACK: "r2"}),
    topology(labels=[RACK]),
)


def check(controller: str = CONTROLLER, active: int = 1) -> dict[str, Any]:
    condition = {"type": "Active", "status": "True", "observedGeneration": active}
    metadata = {"name": "fit", "generation": 1}
    return {"metadata": metadata, "spec": {"controllerName": controller}, "status": {"conditions": [condition]}}


def pod_set(
    *, cpus: int = 16, count: int = 1, name: str = "main", annotations: Mapping[str, str] = NUMA
) -> dict[str, Any]:
    return {"name": name, "count": count, "template": template(annotations=annotations, cpu=cpus)}


def workload(
    *pod_sets: dict[str, Any],
    name: str = "w",
    state: str = "Pending",
    priority: int = 0,
    conditions: tuple[str, ...] = ("QuotaReserved",),
    flavors: Mapping[str, str] | None = None,
    owner: str = "",
) -> dict[str, Any]:
    owners = (
        [{"apiVersion": "batch/v1", "kind": "Job", "name": owner, "uid": owner, "controller": True}] if owner else []
    )
    assignments = [{"name": one["name"], "count": one["count"], "flavors": flavors or {}} for one in pod_sets]
    return {
        "metadata": {
            "namespace": "default",
            "name": name,
            "uid": name,
            "resourceVersion": "7",
            "creationTimestamp": "2030-01-01T00:00:00Z",
            "ownerReferences": owners,
        },
        "spec": {"podSets": list(pod_sets), "priority": priority},
        "status": {
            "conditions": [{"type": one, "status": "True"} for one in conditions],
            "admission": {"podSetAssignments": assignments},
            "admissionChecks": [{"name": "other", "state": "Pending"}, {"name": "fit", "state": state}],
        },
    }


class Kueue:
    """The controller with what it wrote. The API server takes what `outcome` says."""

    def __init__(self, *workloads: dict[str, Any], checks: tuple[dict[str, Any], ...] = (check(),)) -> None:
        self.cache = cluster_cache(*RACKS)
        self.owners: dict[str, Any] = {}
        self.outcome = WRITTEN
        self.activated: list[str] = []
        self.answers: dict[str, dict[str, Any]] = {}
        for one in checks:
            self.cache.kueue.checks.feed.upsert(one["metadata"]["name"], one)
        self.has(*workloads)
        self.now = 0.0
        self.loop = AdmissionChecks(self.cache, self, TopologyTrees(), Rules(), self._read, lambda: True)  # type: ignore[arg-type] # it writes to lists

    def has(self, *workloads: dict[str, Any]) -> None:
        for one in workloads:
            self.cache.kueue.workloads.feed.upsert(f"default/{one['metadata']['name']}", one)

    def sweep(self, seconds: float = 1.0) -> dict[str, str]:
        """One sweep, after so many seconds; the states that it wrote."""
        self.now += seconds
        self.answers.clear()
        asyncio.run(self.loop.sweep(self.now))
        return {name: fields["state"] for name, fields in self.answers.items()}

    async def activate(self, one: AdmissionCheck, _version: str, _now: str) -> Write:
        self.activated.append(one.name)
        return self.outcome

    async def answer(self, one: PendingWorkload, _version: str, at: int, fields: dict[str, Any]) -> Write:
        assert at == 1
        self.answers[one.name] = fields
        return self.outcome

    async def _read(self, _namespace: str, owner: Owner) -> Mapping[str, Any] | None:
        found = self.owners.get(owner.name)
        if isinstance(found, Exception):
            raise found
        return found


@pytest.mark.parametrize(
    ("pod_sets", "state", "message"),
    [
        ([pod_set(count=6)], "Ready", "gang w: 6 pods on 3 nodes"),
        ([pod_set(count=7)], "Retry", "gang w does not fit now: the cluster holds 6 of 7 pods: cpu"),
        ([pod_set(cpus=20)], "Retry", "gang w does not fit now: the cluster holds 0 of 1 pod"),
        ([pod_set(count=4, annotations=IN_A_RACK)], "Ready", "gang w: 4 pods on 2 nodes in rack r2"),
        ([pod_set(count=5, annotations=IN_A_RACK)], "Retry", "gang w does not fit now: rack r2 holds 4 of 5 pods: cpu"),
        ([pod_set(name="a", count=3), pod_set(name="b", count=4)], "Retry", "gang w does not fit now"),
        ([pod_set(count=0)], "Ready", "not checked: it has no pods"),
        ([pod_set(count=9, annotations={})], "Ready", "not checked: its pods are unmanaged: no annotation"),
        ([pod_set(annotations={**NUMA, "kai.scheduler/topology": "none"})], "Retry", 'There is no topology "none"'),
        (
            [{**pod_set(), "template": []}, {**pod_set(), "template": "x"}],
            "Ready",
            "not checked: spec.podSets[1].template",
        ),
        ([pod_set()] * 9, "Ready", "not checked: spec.podSets: There are 9 pod sets"),
    ],
)
def test_a_workload_is_ready_if_all_its_pods_fit_now(pod_sets: list[Any], state: str, message: str) -> None:
    kueue = Kueue(workload(*pod_sets))
    assert kueue.sweep() == {"w": state}
    assert message in kueue.answers["w"]["message"]
    assert kueue.answers["w"].get("requeueAfterSeconds") == (FIRST_PAUSE if state == "Retry" else None)


def test_a_flavors_labels_and_tolerations_count() -> None:
    kueue = Kueue(workload(pod_set(count=4), flavors={"cpu": "small", "memory": "unknown"}))
    flavor = {"metadata": {"name": "small"}, "spec": {"nodeLabels": {RACK: "r1"}, "tolerations": [{"key": "a"}]}}
    kueue.cache.kueue.flavors.feed.upsert("small", flavor)
    assert kueue.sweep() == {"w": "Retry"}
    assert "holds 2 of 4 pods" in kueue.answers["w"]["message"]


def test_the_annotations_of_the_workload_that_it_stands_for_count() -> None:
    kueue = Kueue(workload(pod_set(count=5, annotations={"topology-webhook.dev/inherit": "true"}), owner="train"))
    kueue.owners["train"] = APIError(500, "InternalError", "not now")
    assert kueue.sweep() == {}
    kueue.owners["train"] = {"metadata": {"annotations": IN_A_RACK}}
    assert kueue.sweep() == {"w": "Retry"}
    assert "rack r2 holds 4 of 5 pods" in kueue.answers["w"]["message"]


def test_the_room_of_a_workload_is_kept_until_its_first_pod_is_there() -> None:
    kueue = Kueue(workload(pod_set(count=4), name="a", priority=5, owner="job-a"), workload(pod_set(count=4), name="b"))
    assert kueue.sweep() == {"a": "Ready", "b": "Retry"}
    kueue.cache.kueue.workloads.feed.delete("default/a")
    assert kueue.sweep(FIRST_PAUSE + 1) == {"b": "Retry"}
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "a", "uid": "job-a", "controller": True}
    pod = gated(name="a-0", cpu=16)
    pod["metadata"]["ownerReferences"] = [owner]
    kueue.cache.pods.upsert("default/a-0", pod)
    # What its pods get from here on is theirs by the gate; here none is assigned.
    assert kueue.sweep(LONGEST_PAUSE) == {"b": "Ready"}


def test_the_room_is_kept_for_some_seconds() -> None:
    kueue = Kueue(workload(pod_set(count=6), name="a", priority=5), workload(pod_set(count=6), name="b"))
    assert kueue.sweep() == {"a": "Ready", "b": "Retry"}
    kueue.cache.kueue.workloads.feed.delete("default/a")
    assert kueue.sweep(16) == {"b": "Ready"}


def test_what_does_not_fit_is_tried_again_after_growing_pauses() -> None:
    kueue = Kueue(workload(pod_set(count=7)))
    pauses = []
    for _ in range(6):
        assert kueue.sweep() == {"w": "Retry"}
        pauses.append(kueue.answers["w"]["requeueAfterSeconds"])
        assert kueue.sweep(0.5) == {}
        kueue.now += pauses[-1]
    assert pauses == [5, 10, 20, 40, 60, 60]


@pytest.mark.parametrize(
    "other",
    [
        workload(pod_set(), conditions=()),
        workload(pod_set(), conditions=("QuotaReserved", "Evicted")),
        workload(pod_set(), conditions=("QuotaReserved", "Admitted")),
        workload(pod_set(), conditions=("QuotaReserved", "Finished")),
        workload(pod_set(), state="Ready"),
        workload(pod_set(), state="Retry"),
    ],
)
def test_only_workloads_that_wait_for_a_check_of_ours_are_answered(other: dict[str, Any]) -> None:
    assert Kueue(other).sweep() == {}
    assert Kueue(workload(pod_set()), checks=(check("kueue.x-k8s.io/multikueue"),)).sweep() == {}


def test_our_checks_become_active_and_those_of_others_do_not() -> None:
    kueue = Kueue(checks=(check(active=0), {**check("other"), "metadata": {"name": "other", "generation": 1}}))
    kueue.outcome = Write(Outcome.UNKNOWN)
    kueue.sweep()
    kueue.sweep()
    assert kueue.activated == ["fit"]
    kueue.sweep(11)
    assert kueue.activated == ["fit", "fit"]


@pytest.mark.parametrize(("outcome", "again"), [(Outcome.STALE, True), (Outcome.REFUSED, False)])
def test_an_answer_that_was_not_written_keeps_no_room(outcome: Outcome, *, again: bool) -> None:
    kueue = Kueue(workload(pod_set(count=6), name="a", priority=5), workload(pod_set(count=6), name="b"))
    kueue.outcome = Write(outcome)
    assert kueue.sweep() == {"a": "Ready", "b": "Ready"}
    assert bool(kueue.sweep()) is again
    kueue.outcome = WRITTEN
    assert kueue.sweep(11) == {"a": "Ready", "b": "Retry"}
