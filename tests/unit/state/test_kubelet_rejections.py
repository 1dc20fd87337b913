"""Which pods count as rejected by their kubelets."""

from typing import Any

import pytest

from tests.builders.pods import pod
from webhook.formats.kubernetes.rejected_pod import KubeletRejection
from webhook.model.names import NUMA_TOPOLOGY_SPEC
from webhook.state.cluster_cache import ClusterCache

ASKS = {NUMA_TOPOLOGY_SPEC: "{}"}


class Cluster:
    """A cache, and what it announced. in_order: whether objects come from a watch."""

    def __init__(self) -> None:
        self.in_order = True
        self.cache = ClusterCache(failed_in_order=lambda: self.in_order)
        self.seen: list[tuple[str, bool]] = []
        self.cache.rejections.seen.subscribe(self._saw)

    def _saw(self, rejection: KubeletRejection) -> None:
        self.seen.append((rejection.reason, rejection.managed))

    def has(self, uid: str = "u", annotations: dict[str, str] | None = None, **status: Any) -> None:
        raw = pod(metadata={"uid": uid, "annotations": annotations or {}}, nodeName="n0")
        self.cache.failed_pods.upsert("default/p", {**raw, "status": status})


REASONS = ["TopologyAffinityError", "UnexpectedAdmissionError", "SMTAlignmentError", "OutOfcpu", "OutOfexample.com/gpu"]
REASONS += ["NodeAffinity", "PodOSNotSupported", "OfAKubeletToCome"]


@pytest.mark.parametrize("reason", REASONS)
@pytest.mark.parametrize(("annotations", "managed"), [(ASKS, True), ({}, False)])
def test_a_pod_that_its_kubelet_rejects_counts_once(reason: str, annotations: dict[str, str], managed: bool) -> None:
    cluster = Cluster()
    for _ in range(2):
        cluster.has(annotations=annotations, phase="Failed", reason=reason)
    assert cluster.seen == [(reason, managed)]


@pytest.mark.parametrize(
    "status",
    [
        {"phase": "Failed", "reason": "Evicted"},
        {
            "phase": "Failed",
            "reason": "Terminated",
            "message": "Pod was terminated in response to a shutdown.",
        },
        {"phase": "Failed", "reason": "DeadlineExceeded"},
        {"phase": "Failed", "reason": "Strange", "containerStatuses": [{"name": "c", "restartCount": 1}]},
        {
            "phase": "Failed",
            "reason": "Strange",
            "containerStatuses": [{"name": "c", "state": {"terminated": {"startedAt": "2030-01-01T00:00:00Z"}}}],
        },
        {"phase": "Failed", "reason": ""},
        {"phase": "Failed", "reason": ["TopologyAffinityError"]},
        {"phase": "Failed"},
        {"phase": "Running", "reason": "TopologyAffinityError"},
        {},
    ],
)
def test_a_pod_that_ends_for_another_reason_does_not_count(status: dict[str, Any]) -> None:
    cluster = Cluster()
    cluster.has(**status)
    assert cluster.seen == []


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        ({"reason": "Evicted", "message": "Pod was rejected: The node had condition: [MemoryPressure]."}, "Evicted"),
        (
            {"reason": "UnexpectedAdmissionError", "containerStatuses": [{"restartCount": 1}]},
            "UnexpectedAdmissionError",
        ),
        ({"reason": "a\nforged text"}, "Other"),
        (
            {
                "reason": "SysctlForbidden",
                "containerStatuses": [{"state": {"terminated": {"startedAt": None}}, "lastState": None}],
            },
            "SysctlForbidden",
        ),
    ],
)
def test_what_its_kubelet_never_started_was_rejected(status: dict[str, Any], reason: str) -> None:
    cluster = Cluster()
    cluster.has(phase="Failed", **status)
    assert cluster.seen == [(reason, False)]


def test_a_pod_without_a_node_was_rejected_by_no_kubelet() -> None:
    cluster = Cluster()
    status = {"phase": "Failed", "reason": "Strange"}
    cluster.cache.failed_pods.upsert("default/p", {**pod(metadata={"uid": "u"}), "status": status})
    assert cluster.seen == []


def test_a_new_pod_of_the_same_name_counts_again() -> None:
    cluster = Cluster()
    for uid in ("u1", "u2"):
        cluster.has(uid, phase="Failed", reason="TopologyAffinityError")
    cluster.cache.failed_pods.delete("default/p")
    cluster.has("u2", phase="Failed", reason="TopologyAffinityError")
    assert len(cluster.seen) == 3


def test_a_pod_that_was_rejected_before_the_process_knew_it_does_not_count() -> None:
    cluster = Cluster()
    cluster.in_order = False  # the first list
    cluster.has(phase="Failed", reason="TopologyAffinityError")
    cluster.in_order = True
    cluster.has(phase="Failed", reason="TopologyAffinityError")
    assert cluster.seen == []
