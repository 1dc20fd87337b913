"""Which bindings a replica may answer that leads some shards of the nodes."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, cast

import pytest

from tests.builders.nodes import node
from webhook.admission.binding.guard import LeaderState
from webhook.app.binding_guard import leader_state_of
from webhook.formats.kubernetes.node import Node
from webhook.state.shards import NodeShards

if TYPE_CHECKING:
    from webhook.kube.leadership import Leadership

LABEL = "example.com/shard"


class Leads:
    """Leads the shards a and c; c since a moment ago. Another replica leads b, and none the default shard."""

    def is_leader(self, shard: str = "") -> bool:
        return shard in {"a", "c"}

    def is_elsewhere(self, shard: str = "") -> bool:
        return shard == "b"

    def seconds_until_settled(self, shard: str = "") -> float:
        return 60.0 if shard == "c" else 0.0


def shards(values: Mapping[str, str]) -> NodeShards:
    found = NodeShards(LABEL, 65.0, lambda: 0.0)
    for name, value in values.items():
        found.put(Node.from_object(node(name=name, labels={LABEL: value} if value else {})))
    return found


@pytest.mark.parametrize(
    ("node", "state"),
    [
        ("of-a", LeaderState.ALL),
        ("of-b", LeaderState.ELSEWHERE),
        ("of-c", LeaderState.ASSIGNED_ONLY),
        ("of-none", LeaderState.NONE),
        ("unknown", LeaderState.NONE),
        ("moved-to-a", LeaderState.ASSIGNED_ONLY),
    ],
)
def test_the_leader_of_the_nodes_shard_answers_its_bindings(node: str, state: LeaderState) -> None:
    known = shards({"of-a": "a", "of-b": "b", "of-c": "c", "of-none": "", "moved-to-a": "b"})
    known.put(Node.from_object({"metadata": {"name": "moved-to-a", "labels": {LABEL: "a"}}}))
    assert leader_state_of(cast("Leadership", Leads()), known, node) is state
