"""Suggestions for mistyped annotation names."""

import pytest

from webhook.admission.annotation_warnings import READ, meant


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("kai.scheduler/topology-requierd-placement", "kai.scheduler/topology-required-placement"),
        ("kai.scheduler/topology-required", "kai.scheduler/topology-required-placement"),
        ("kai.scheduler/topology-require-placement", "kai.scheduler/topology-required-placement"),
        ("kai.scheduler/topology-prefered-placement", "kai.scheduler/topology-preferred-placement"),
        ("kai.scheduler/Topology", "kai.scheduler/topology"),
        ("kai.scheduler/topologies", "kai.scheduler/topology"),
        ("kai-scheduler/topology", "kai.scheduler/topology"),
        ("kai.schedular/topology", "kai.scheduler/topology"),
        ("kai.scheduler/segmentsize", "kai.scheduler/segment-size"),
        ("kai.scheduler/segment-topology-required", "kai.scheduler/segment-topology-required-placement"),
        ("kai.scheduler/batch-min-members", "kai.scheduler/batch-min-member"),
        ("scheduling.koordinator.sh/numa-topology-spce", "scheduling.koordinator.sh/numa-topology-spec"),
        ("scheduling.koordinator.sh/numa-topology", "scheduling.koordinator.sh/numa-topology-spec"),
        ("scheduling.koordinator.sh/numa-topology-policy", "scheduling.koordinator.sh/numa-topology-spec"),
        ("scheduler.koordinator.sh/numa-topology-spec", "scheduling.koordinator.sh/numa-topology-spec"),
        ("scheduling.koordinator.sh/resource-specs", "scheduling.koordinator.sh/resource-spec"),
        ("topology-webhook.dev/min-members", "topology-webhook.dev/min-member"),
        ("topology-webhook.dev/injectenv", "topology-webhook.dev/inject-env"),
        ("topology-webhook.io/inherit", "topology-webhook.dev/inherit"),
        ("pod-groupname", "pod-group-name"),
    ],
)
def test_a_mistyped_name_is_told_from_the_right_one(name: str, wanted: str) -> None:
    assert meant(name) == wanted


@pytest.mark.parametrize("name", sorted(READ))
def test_a_right_name_is_none(name: str) -> None:
    assert meant(name) is None


# Of KAI-Scheduler, Koordinator and others, by their sources: names with a meaning of their own.
KAI = """
    queue node-pool preemptibility task-priority type top-owner-metadata subgroup-name shard r1 accounting stale-
    podgroup-timestamp last-start-timestamp instance-type requires-env-vars ignore-workload-api
"""
KOORDINATOR = """
    resource-status scheduling-hint bind-gang-member-count bind-gang-group-id usage-thresholds reserve-pod
    topology-key-to-explain soft-eviction scheduling-phase scheduler-name reservation-restricted-options
    reservation-owners reservation-node reservation-affinity reservation-allocated questioned-object-key
    preemption-policy pre-allocation-required operating-mode network-topology-selector gpu-partition-spec gpu-
    partitions gpu-minors exact-match-reservation device-allocated device-allocate-hint diagnosis
"""
OTHERS = [
    *(f"kai.scheduler/{name}" for name in KAI.split()),
    *(f"scheduling.koordinator.sh/{name}" for name in KOORDINATOR.split()),
    "node.koordinator.sh/numa-topology-policy",
    "node.koordinator.sh/cpu-topology",
    "node.koordinator.sh/extended-resource-spec",
    "volcano.sh/numa-topology-policy",
    "scheduling.k8s.io/group-name",
    "kueue.x-k8s.io/podset-required-topology",
    "kueue.x-k8s.io/pod-group-name",
    "kubectl.kubernetes.io/last-applied-configuration",
    "topology-webhook.dev/placement",
    "topology-webhook.dev/rank",
    "pod-template-hash",
    "priorityClassName",
    "note",
    "topology",
    "",
    "/",
]


@pytest.mark.parametrize("name", OTHERS)
def test_names_of_others_are_left_alone(name: str) -> None:
    assert meant(name) is None


def test_a_name_that_is_far_too_long_is_not_compared() -> None:
    assert meant("kai.scheduler/topology-required-" + "placement" * 10_000) is None
