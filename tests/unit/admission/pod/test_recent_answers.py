"""An answer that is given again is the one that would have been found again, or in a burst was a moment ago."""

import itertools
from collections.abc import Callable
from typing import Any, Final

import pytest

from tests.builders.clusters import cluster_cache, machine, put
from tests.builders.pods import SINGLE, bound, pod
from tests.builders.reviews import review
from webhook.admission.pod.mutate import MOMENT_SECONDS, PodMutator, key_of
from webhook.admission.response import Denied, Patched, Response
from webhook.formats.kubernetes.admission_review import AdmissionRequest
from webhook.model.names import MANAGE_LABEL, MIN_MEMBER, NUMA_ALLOCATION, NUMA_TOPOLOGY_SPEC, PLACEMENT, POD_GROUP_NAME
from webhook.state.cluster_cache import ClusterCache
from webhook.state.rules import Rules

# n0 ── NUMA 0 [8]  NUMA 1 [8]      [free cpus]; a pod asks for 8
MACHINE = machine(name="n0", free=(8, 8))
RULES = Rules(trusted_users=frozenset({"trusted"}))


def with_token(name: str, letters: str) -> dict[str, Any]:
    """A pod as the ServiceAccount admission changes it."""
    raw = pod(name=name, volumes=[{"name": f"kube-api-access-{letters}", "projected": {}}])
    mount = {"name": f"kube-api-access-{letters}", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}
    raw["spec"]["containers"][0]["volumeMounts"] = [mount]
    return raw


def test_equal_pods_have_one_answer_whatever_they_are_called() -> None:
    first, second = review(with_token("a", "x7k2p")), review(with_token("b", "9dqzz"))
    assert key_of(first) == key_of(second) is not None
    handler = PodMutator(cluster_cache(*MACHINE).snapshot, RULES)
    answer = handler.handle(first)
    assert isinstance(answer, Patched)
    assert handler.handle(second) is answer
    assert answer.to_object("2")["response"]["uid"] == "2"


def member(index: int, **metadata: Any) -> dict[str, Any]:
    """A pod of an indexed Job that is a gang, as the Job's controller makes it."""
    key = "batch.kubernetes.io/job-completion-index"
    annotations = {POD_GROUP_NAME: "g", MIN_MEMBER: "2", NUMA_TOPOLOGY_SPEC: SINGLE, key: str(index)}
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "job", "uid": "u", "controller": True}
    own = {"labels": {key: str(index)}, "annotations": annotations, "ownerReferences": [owner], **metadata}
    return pod(name=f"job-{index}-x7k2p", metadata=own, hostname=f"job-{index}")


def test_the_members_of_a_gang_have_one_answer_whatever_their_rank_is() -> None:
    handler = PodMutator(cluster_cache(*MACHINE).snapshot, RULES)
    answer = handler.handle(review(member(0)))
    assert isinstance(answer, Patched)
    assert handler.handle(review(member(1))) is answer
    assert answer == PodMutator(cluster_cache(*MACHINE).snapshot, RULES).handle(review(member(1)))


def test_a_text_in_place_of_a_rank_is_part_of_the_pod() -> None:
    key = "apps.kubernetes.io/pod-index"
    assert key_of(review(pod(annotations={key: "x" * 64}))) != key_of(review(pod(annotations={key: "y" * 64})))


VARIANTS: dict[str, AdmissionRequest] = {
    "member": review(member(0)),
    "next member": review(member(1)),
    "member of another gang": review(member(0, annotations={POD_GROUP_NAME: "h", NUMA_TOPOLOGY_SPEC: SINGLE})),
    "member of another Job": review(member(0, ownerReferences=[])),
    "bare member": review(pod(annotations={POD_GROUP_NAME: "g", MIN_MEMBER: "2"})),
    "bare member, invalid": review(pod(annotations={POD_GROUP_NAME: "g", MIN_MEMBER: "x"})),
    "hostname": review(pod(hostname="a")),
    "another hostname": review(pod(hostname="b")),
    "plain": review(pod()),
    "larger": review(pod(cpu=9)),
    "other annotation": review(pod(annotations={"a": "b"})),
    "no policy": review(pod(numa=None)),
    "best effort": review(pod(numa='{"numaTopologyPolicy": "BestEffort"}')),
    "invalid": review(pod(numa="no JSON")),
    "selector": review(pod(nodeSelector={"a": "kube-api-access-aaaaa"})),
    "another selector": review(pod(nodeSelector={"a": "kube-api-access-bbbbb"})),
    "volume": review(pod(volumes=[{"name": "data", "emptyDir": {}}])),
    "labels": review(pod(metadata={"labels": {"a": "b"}, "annotations": {NUMA_TOPOLOGY_SPEC: SINGLE}})),
    "gate": review(pod(schedulingGates=[{"name": "example.com/a"}])),
    "namespace": review(pod(namespace="other"), namespace="other"),
    "user": review(pod(), user="other"),
    "reserved": review(pod(annotations={NUMA_ALLOCATION: "{}"})),
    "reserved, by a trusted user": review(pod(annotations={NUMA_ALLOCATION: "{}"}), user="trusted"),
    "mutated before": review(pod(annotations={PLACEMENT: "x"})),
    "applied": review(
        pod(
            nodeSelector={"a": "b"},
            metadata={
                "annotations": {NUMA_TOPOLOGY_SPEC: SINGLE},
                "managedFields": [{"operation": "Apply", "fieldsV1": {"f:metadata": {}}}],
            },
        )
    ),
}


def test_every_difference_has_its_own_answer() -> None:
    cache = cluster_cache(*MACHINE)
    remembering = PodMutator(cache.snapshot, RULES)
    for (one, first), (other, second) in itertools.permutations(VARIANTS.items(), 2):
        for request in (first, second, first):
            assert remembering.handle(request) == PodMutator(cache.snapshot, RULES).handle(request), (one, other)


def _node(cache: ClusterCache) -> None:
    for raw in machine(name="n1", free=(8,)):
        put(cache, raw)


def _namespace(cache: ClusterCache) -> None:
    annotations = {NUMA_TOPOLOGY_SPEC: "no JSON"}
    cache.namespaces.upsert("default", {"metadata": {"name": "default", "annotations": annotations}})


def _mode(cache: ClusterCache) -> None:
    cache.namespaces.upsert("default", {"metadata": {"name": "default", "labels": {MANAGE_LABEL: "all"}}})


@pytest.mark.parametrize(
    ("change", "raw"),
    [(_node, pod()), (_namespace, pod(numa="{}")), (_mode, pod(numa=None))],
    ids=["node", "defaults", "mode"],
)
def test_a_change_of_the_cluster_has_a_new_answer(change: Callable[[ClusterCache], None], raw: dict[str, Any]) -> None:
    cache = cluster_cache(*MACHINE)
    handler = PodMutator(cache.snapshot, RULES)
    before = handler.handle(review(raw))
    change(cache)
    after = handler.handle(review(raw))
    assert after == PodMutator(cache.snapshot, RULES).handle(review(raw))
    assert after != before


def test_a_denial_is_found_again() -> None:
    handler = PodMutator(cluster_cache(*MACHINE).snapshot, RULES)
    first, second = (handler.handle(VARIANTS["invalid"]) for _ in range(2))
    assert isinstance(first, Denied)
    assert second == first
    assert second is not first


@pytest.mark.parametrize(
    "raw",
    [
        pod(schedulingGroup={"podGroupName": "g"}),
        pod(annotations={"a": "x" * 20_000}),
        {**pod(), "spec": {"containers": "none", "volumes": [{"name": "kube-api-access-aaaaa"}]}},
        {**pod(), "spec": {"volumes": [7]}},
        {"metadata": {}},
    ],
    ids=["Kubernetes' own PodGroup", "large", "containers", "volumes", "no spec"],
)
def test_no_answer_is_kept_for_odd_pods_and_members_of_kubernetes_own_pod_groups(raw: dict[str, Any]) -> None:
    assert key_of(review(raw)) is None


# A little more, so that ten of them are more than a moment whatever rounding does.
TENTH: Final = MOMENT_SECONDS / 9.9


class Burst:
    """Equal pods that are created, each after a pod was bound. n0 ── NUMA 0 [16]  NUMA 1 [16]    [free cpus]"""

    def __init__(self, rules: Rules | None = None, **how: Any) -> None:
        self.cache = cluster_cache(*machine(name="n0", free=(16, 16)))
        self.now = 0.0
        self.rules = rules or Rules()
        self.handler = PodMutator(self.cache.snapshot, self.rules, lambda: self.now)
        self._raw = pod(cpu=4, **how)
        self._bound = 0

    def creates(self, count: int, seconds: float) -> list[Response]:
        """So many, so many seconds apart."""
        answers = []
        for _ in range(count):
            self.now += seconds
            self._bound += 1
            put(self.cache, bound(name=f"b{self._bound}", node="n0", cpu=1))
            answers.append(self.handler.handle(review(self._raw)))
        return answers

    def found(self) -> Response:
        """The answer for the cluster as it is now."""
        return PodMutator(self.cache.snapshot, self.rules).handle(review(self._raw))


def distinct(answers: list[Response]) -> int:
    return len({id(answer) for answer in answers})


def test_equal_pods_of_a_burst_get_one_answer_for_a_moment() -> None:
    burst = Burst()
    first = burst.creates(10, TENTH)
    assert distinct(first) == 10  # it is not known yet that more come
    then = burst.creates(20, TENTH)
    assert distinct(then) == 2
    assert then[-1] != burst.found()
    assert burst.creates(1, MOMENT_SECONDS)[0] == burst.found()


def test_pods_that_come_one_by_one_get_an_answer_each() -> None:
    burst = Burst()
    for answer in [burst.creates(1, MOMENT_SECONDS)[0] for _ in range(10)]:
        assert answer is not None
    assert distinct(burst.creates(10, MOMENT_SECONDS)) == 10
    assert burst.creates(1, MOMENT_SECONDS)[0] == burst.found()


def test_a_burst_after_a_pause_begins_with_an_answer_each() -> None:
    burst = Burst()
    burst.creates(20, TENTH)
    burst.now += 3 * MOMENT_SECONDS
    assert distinct(burst.creates(9, TENTH)) == 9


@pytest.mark.parametrize(
    "rules",
    [Rules(gate="WhenNeeded"), Rules(gate="Never"), Rules(no_capacity="Allow"), Rules(no_capacity="Deny")],
    ids=["WhenNeeded", "Never", "Allow", "Deny"],
)
def test_an_answer_that_depends_on_what_is_free_is_not_given_again(rules: Rules) -> None:
    burst = Burst(rules)
    assert distinct(burst.creates(30, TENTH)) == 30
    assert burst.creates(1, 0)[0] == burst.found()


def test_a_pod_that_gets_no_gate_is_not_given_an_old_answer() -> None:
    burst = Burst(nodeSelector={"no": "node"})
    assert distinct(burst.creates(30, TENTH)) == 30
