"""The list of gangs: members with and without a node, and the domain that they share."""

import json

import pytest

from tests.builders.clusters import cluster_cache
from tests.builders.nodes import node
from tests.builders.pods import bound, gated
from webhook.views.gangs import gang_views

DOMAIN = "topology-webhook.dev/domain"
ZONE, RACK = "topology.kubernetes.io/zone", "example.com/rack"


def member(number: int, domain: str) -> dict[str, object]:
    return bound(name=f"m{number}", node=f"n{number % 2}", cpu=1, group="train", annotations={DOMAIN: domain})


def domains(zone: str, rack: str) -> str:
    return json.dumps({ZONE: zone, RACK: rack})


@pytest.mark.parametrize(
    ("texts", "shared"),
    [
        ([domains("z", "r"), domains("z", "r"), domains("z", "r")], ((ZONE, "z"), (RACK, "r"))),
        ([domains("z", "r"), domains("z", "other"), domains("z", "r")], ((ZONE, "z"),)),
        ([domains("z", "r"), domains("other", "r")], ()),
        ([domains("z", "r"), json.dumps({ZONE: "z"})], ((ZONE, "z"),)),
        ([domains("z", "r"), ""], ()),
        ([domains("z", "r"), "not JSON"], ()),
    ],
)
def test_a_gang_is_in_the_finest_domain_that_all_its_members_share(
    texts: list[str], shared: tuple[tuple[str, str], ...]
) -> None:
    members = [member(number, text) for number, text in enumerate(texts)]
    (gang,) = gang_views(cluster_cache(node(name="n0"), node(name="n1"), *members))
    assert (gang.namespace, gang.name, gang.assigned, gang.waiting, gang.nodes) == (
        "default", "train", len(texts), 0, 2,
    )  # fmt: skip
    assert gang.domain == shared


def test_waiting_gangs_come_first_the_oldest_first() -> None:
    def waiting(name: str, group: str, day: int) -> dict[str, object]:
        text = {"topology-webhook.dev/placement": f"waiting: {name}"}
        created = {"creationTimestamp": f"2026-11-{day:02}T00:00:00Z"}
        return gated(name=name, group=group, annotations=text, metadata=created)

    found = gang_views(
        cluster_cache(
            node(name="n0"),
            member(0, ""),
            waiting("new", "b", 20),
            waiting("later", "c", 10),
            waiting("old", "c", 5),
        )
    )
    assert [(gang.name, gang.waiting, gang.since[:10], gang.text) for gang in found] == [
        ("c", 2, "2026-11-05", "waiting: old"),
        ("b", 1, "2026-11-20", "waiting: new"),
        ("train", 0, "", ""),
    ]
