from typing import Any

import pytest

from webhook.formats.topology import Level, Topology, TopologySource
from webhook.model.errors import UserError


def raw(*levels: dict[str, Any], api_version: str = "kai.scheduler/v1alpha1") -> dict[str, Any]:
    return {
        "apiVersion": api_version,
        "kind": "Topology",
        "metadata": {"name": "fabric"},
        "spec": {"levels": list(levels)},
    }


# zone ─ block (alias: spine) ─ rack ─ host
FABRIC = Topology.from_object(
    raw(
        {"nodeLabel": "topology.kubernetes.io/zone"},
        {"nodeLabel": "example.com/block", "alias": "spine"},
        {"nodeLabel": "example.com/rack"},
        {"nodeLabel": "kubernetes.io/hostname"},
    )
)


def test_levels_stand_from_coarse_to_fine() -> None:
    assert (FABRIC.name, FABRIC.source) == ("fabric", TopologySource.KAI)
    assert FABRIC.levels[1] == Level("example.com/block", "spine")
    assert FABRIC.levels[2] == Level("example.com/rack", None)


def test_kueues_topology_has_the_same_shape() -> None:
    read = Topology.from_object(raw({"nodeLabel": "rack"}, api_version="kueue.x-k8s.io/v1beta1"))
    assert (read.source, read.levels) == (TopologySource.KUEUE, (Level("rack"),))


@pytest.mark.parametrize(
    ("reference", "index"),
    [("topology.kubernetes.io/zone", 0), ("zone", 0), ("spine", 1), ("block", 1), ("rack", 2), ("hostname", 3)],
)
def test_a_level_is_named_by_its_label_its_alias_or_the_last_segment(reference: str, index: int) -> None:
    assert FABRIC.level(reference) == index


def test_a_label_goes_before_an_alias_and_an_alias_before_a_last_segment() -> None:
    levels = (
        {"nodeLabel": "a.com/rack"},
        {"nodeLabel": "rack"},
        {"nodeLabel": "c.com/x", "alias": "y"},
        {"nodeLabel": "d.com/y"},
    )
    topology = Topology.from_object(raw(*levels))
    assert (topology.level("rack"), topology.level("y")) == (1, 2)


def test_an_unknown_level_is_told_with_the_levels_and_the_nearest() -> None:
    with pytest.raises(UserError) as caught:
        FABRIC.level("racks", "metadata.annotations[x]")
    assert str(caught.value) == (
        'metadata.annotations[x]: "racks" is no level of topology fabric. Its levels are, from coarse to fine: '
        "topology.kubernetes.io/zone, example.com/block (spine), example.com/rack, kubernetes.io/hostname. "
        "Did you mean rack?"
    )


def test_an_ambiguous_last_segment_is_told_with_the_labels_it_fits() -> None:
    topology = Topology.from_object(raw({"nodeLabel": "a.com/rack"}, {"nodeLabel": "b.com/rack"}))
    with pytest.raises(UserError, match=r'"rack" is ambiguous in topology fabric: a\.com/rack and b\.com/rack'):
        topology.level("rack")


@pytest.mark.parametrize(
    ("bad", "path"),
    [
        (raw(), "spec.levels"),
        (raw({"alias": "rack"}), "spec.levels[0].nodeLabel"),
        (raw({"nodeLabel": "rack"}, {"nodeLabel": "rack"}), "spec.levels[1].nodeLabel"),
        (raw({"nodeLabel": "rack"}, api_version="v1"), "apiVersion"),
    ],
)
def test_a_topology_that_cannot_be_used_is_a_fault(bad: dict[str, Any], path: str) -> None:
    with pytest.raises(UserError) as caught:
        Topology.from_object(bad)
    assert caught.value.path == path
