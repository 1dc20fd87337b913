"""An answer that is given again is the one that would have been found again."""

import itertools
from collections.abc import Callable
from typing import Any

import pytest

from tests.builders.clusters import cluster_cache, machine, put
from tests.builders.pods import SINGLE, pod
from tests.unit.admission.pod.creations import review
from webhook.admission.pod.mutate import PodMutator
from webhook.admission.pod.recent_answers import key_of
from webhook.admission.response import Denied, Patched
from webhook.formats.kubernetes.admission_review import AdmissionRequest
from webhook.model.names import MANAGE_LABEL, MIN_MEMBER, NUMA_HINT, NUMA_TOPOLOGY_SPEC, PLACEMENT, POD_GROUP_NAME
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
    "reserved": review(pod(annotations={NUMA_HINT: "{}"})),
    "reserved, by a trusted user": review(pod(annotations={NUMA_HINT: "{}"}), user="trusted"),
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
