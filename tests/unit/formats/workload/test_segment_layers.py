"""Segments inside segments, as annotations list them, and what is refused with which words."""

import pytest

from tests.builders.gangs import topology_of
from tests.builders.workloads import template, workload
from webhook.formats.workload.readers import read_workload
from webhook.formats.workload.topology_request import SegmentRequest, segment_request
from webhook.model.errors import UserError
from webhook.model.names import (
    KAI_SEGMENT_PREFERRED_PLACEMENT,
    KAI_SEGMENT_REQUIRED_PLACEMENT,
    KAI_SEGMENT_SIZE,
    KAI_TOPOLOGY,
)

TOPOLOGY = topology_of("example.com/zone", "example.com/rack", "kubernetes.io/hostname")


def asked(sizes: str, levels: str | None, preferred: str | None = None) -> SegmentRequest | None:
    texts = {
        KAI_SEGMENT_SIZE: sizes,
        KAI_SEGMENT_REQUIRED_PLACEMENT: levels,
        KAI_SEGMENT_PREFERRED_PLACEMENT: preferred,
    }
    return segment_request(({key: text for key, text in texts.items() if text is not None}, "annotations"))


def test_sizes_and_levels_are_listed_from_coarse_to_fine() -> None:
    found = asked(" 48, 16,2", "zone,rack , hostname")
    layers = []
    while found is not None:
        layers.append((found.size, found.required, found.resolve(TOPOLOGY).required))
        found = found.inner
    assert layers == [(48, "zone", 0), (16, "rack", 1), (2, "hostname", 2)]


@pytest.mark.parametrize(
    ("sizes", "levels", "preferred", "key", "says"),
    [
        (
            "48,",
            "zone,rack",
            None,
            KAI_SEGMENT_SIZE,
            '"" is not a size. Write a whole number of pods, such as 4, or up',
        ),
        (
            "48,x",
            "zone,rack",
            None,
            KAI_SEGMENT_SIZE,
            '"x" is not a size. Write a whole number of pods, such as 4, or up',
        ),
        ("8,4,2,1", "zone,rack", None, KAI_SEGMENT_SIZE, '"8,4,2,1" has too many sizes. Write 3 at most.'),
        ("," * 200_000, "zone,rack", None, KAI_SEGMENT_SIZE, "too many sizes"),
        ("16,5", "zone,rack", None, KAI_SEGMENT_SIZE, "Segments of 5 pods do not divide those of 16 before them."),
        ("16,5", "zone,rack", None, KAI_SEGMENT_SIZE, "such as 4."),
        ("4,8", "zone,rack", None, KAI_SEGMENT_SIZE, "Write the sizes from large to small"),
        ("4,4", "zone,rack", None, KAI_SEGMENT_SIZE, "Segments of 4 pods do not divide those of 4"),
        (
            "8,4",
            "rack",
            None,
            KAI_SEGMENT_REQUIRED_PLACEMENT,
            '"rack" does not name one level for each of the sizes "8,4"',
        ),
        ("8,4", "rack,", None, KAI_SEGMENT_REQUIRED_PLACEMENT, "does not name one level for each"),
        ("8", "zone,rack", None, KAI_SEGMENT_REQUIRED_PLACEMENT, "Write as many levels as sizes"),
        ("8,4", None, "rack", KAI_SEGMENT_REQUIRED_PLACEMENT, "does not name one level for each"),
        (
            "8,4",
            "zone,rack",
            "rack",
            KAI_SEGMENT_PREFERRED_PLACEMENT,
            "have required levels only. Remove this annotation.",
        ),
    ],
)
def test_a_bad_list_is_refused_by_field_value_and_what_is_allowed(
    sizes: str, levels: str | None, preferred: str | None, key: str, says: str
) -> None:
    with pytest.raises(UserError) as refused:
        asked(sizes, levels, preferred)
    assert refused.value.path == f"annotations[{key}]"
    assert says in refused.value.message
    assert len(refused.value.message) < 400


@pytest.mark.parametrize("levels", ["rack,zone", "rack,rack"])
def test_levels_out_of_order_are_refused(levels: str) -> None:
    found = asked("8,4", levels)
    assert found is not None
    with pytest.raises(UserError) as refused:
        found.resolve(TOPOLOGY)
    first, second = levels.split(",")
    assert str(refused.value) == (
        f'annotations[{KAI_SEGMENT_REQUIRED_PLACEMENT}]: "{second}" is not finer than "{first}" in topology '
        f"{TOPOLOGY.name}. Name the levels from coarse to fine, each only once."
    )


def test_an_unknown_level_of_any_layer_is_refused() -> None:
    found = asked("8,4", "zone,rak")
    assert found is not None
    with pytest.raises(UserError, match='"rak" is no level of topology') as refused:
        found.resolve(TOPOLOGY)
    assert refused.value.path == f"annotations[{KAI_SEGMENT_REQUIRED_PLACEMENT}]"


@pytest.mark.parametrize("excluded", [False, True])
def test_a_leader_worker_set_has_layers_only_without_its_leader(excluded: bool) -> None:
    annotations = {KAI_TOPOLOGY: "t", KAI_SEGMENT_SIZE: "4,2", KAI_SEGMENT_REQUIRED_PLACEMENT: "zone,rack"}
    policy = {"subGroupPolicyType": "LeaderExcluded"} if excluded else {}
    below = {"size": 9, "workerTemplate": template(annotations=annotations), "subGroupPolicy": policy}
    raw = workload(kind="LeaderWorkerSet", spec={"replicas": 1, "leaderWorkerTemplate": below})
    if excluded:
        found = read_workload(raw)
        assert found is not None
        (workers,) = (each for each in found.gangs[0].all_pod_sets() if each.name == "workers")
        assert workers.segments is not None
        assert (workers.segments.size, workers.segments.inner is not None) == (4, True)
        return
    with pytest.raises(UserError, match="The leader is in the first segment") as refused:
        read_workload(raw)
    assert refused.value.path == (
        f"spec.leaderWorkerTemplate.workerTemplate.metadata.annotations[{KAI_SEGMENT_REQUIRED_PLACEMENT}]"
    )
