"""Which pods count as rejected by their kubelets."""

from typing import Any

import pytest

from tests.builders.pods import pod
from webhook.formats.kubernetes.rejected_pod import KubeletRejection
from webhook.model.names import NUMA_TOPOLOGY_SPEC
from webhook.state.cluster_cache import ClusterCache

ASKS = {NUMA_TOPOLOGY_SPEC: "{}"}


class FakeCluster:
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
    cluster = FakeCluster()
    for _ in range(2):
        cluster.has(annotations=annotations, phase="Failed", reason=reason)
    assert cluster.seen == [(reason, managed)]


STARTED = {"terminated": {"startedAt": "2030-01-01T00:00:00Z"}}
NEVER_STARTED = [{"state": {"terminated": {"startedAt": None}}, "lastState": None}]


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        ({"reason": "Evicted"}, None),
        ({"reason": "Terminated", "message": "Pod was terminated in response to a shutdown."}, None),
        ({"reason": "DeadlineExceeded"}, None),
        ({"reason": "Strange", "containerStatuses": [{"name": "c", "restartCount": 1}]}, None),
        ({"reason": "Strange", "containerStatuses": [{"name": "c", "state": STARTED}]}, None),
        ({"reason": ""}, None),
        ({"reason": ["TopologyAffinityError"]}, None),
        ({}, None),
        ({"phase": "Running", "reason": "TopologyAffinityError"}, None),
        ({"phase": ""}, None),
        ({"reason": "Evicted", "message": "Pod was rejected: The node had condition: [MemoryPressure]."}, "Evicted"),
        (
            {"reason": "UnexpectedAdmissionError", "containerStatuses": [{"restartCount": 1}]},
            "UnexpectedAdmissionError",
        ),
        ({"reason": "a\nforged text"}, "Other"),
        ({"reason": "SysctlForbidden", "containerStatuses": NEVER_STARTED}, "SysctlForbidden"),
    ],
)
def test_what_its_kubelet_never_started_was_rejected_and_a_pod_that_ended_otherwise_was_not(
    status: dict[str, Any], reason: str | None
) -> None:
    cluster = FakeCluster()
    cluster.has(**{"phase": "Failed", **status})
    assert cluster.seen == ([] if reason is None else [(reason, False)])


def test_a_new_pod_of_the_same_name_counts_again_and_one_without_a_node_or_from_before_does_not() -> None:
    cluster = FakeCluster()
    for uid in ("u1", "u2"):
        cluster.has(uid, phase="Failed", reason="TopologyAffinityError")
    cluster.cache.failed_pods.delete("default/p")
    cluster.has("u2", phase="Failed", reason="TopologyAffinityError")
    assert len(cluster.seen) == 3
    nowhere, before = FakeCluster(), FakeCluster()
    status = {"phase": "Failed", "reason": "Strange"}
    nowhere.cache.failed_pods.upsert("default/p", {**pod(metadata={"uid": "u"}), "status": status})
    for before.in_order in (False, True):  # the first list, then a watch
        before.has(phase="Failed", reason="TopologyAffinityError")
    assert (nowhere.seen, before.seen) == ([], [])
