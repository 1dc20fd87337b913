"""What the members of a gang get on their nodes, each beside those before it."""

from typing import Any

import pytest

from tests.builders.nodes import node, nrt
from tests.builders.pods import gated
from tests.unit.controllers.leader import Leader
from webhook.formats.koordinator.hint import NUMAHint
from webhook.model.names import MIN_MEMBER, NUMA_HINT
from webhook.placing.gang.gated_gang import ExactHints


# n0 to n3 ── NUMA 0 [16]  NUMA 1 [16]      [free cpus]: six members on each
def _leader(count: int, **spec: Any) -> Leader:
    names = [f"n{number}" for number in range(4)]
    nodes = (node(name=name, cpus=32, labels={"pool": name}) for name in names)
    leader = Leader(*nodes, *(nrt(node=name, free=(16, 16)) for name in names))
    members = [gated(name=f"g-{number:02}", cpu=5, group="g", **spec) for number in range(count)]
    for raw in members:
        raw["metadata"]["annotations"][MIN_MEMBER] = str(count)
    leader.api.has(*members)
    return leader


def _hints(leader: Leader) -> list[tuple[str, int]]:
    """(node, NUMA node) of each pod."""
    hints = [NUMAHint.parse(raw["metadata"]["annotations"][NUMA_HINT]) for raw in leader.api.pods.values()]
    return sorted((hint.node, hint.numa_nodes[0][0]) for hint in hints)


@pytest.fixture
def decided(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The members for which a decision is made."""
    names: list[str] = []
    decide = ExactHints._decided

    def noted(self: ExactHints, gated: Any, *others: Any) -> Any:
        names.append(gated.pod.name)
        return decide(self, gated, *others)

    monkeypatch.setattr(ExactHints, "_decided", noted)
    return names


async def test_equal_members_on_equal_nodes_are_decided_once(decided: list[str]) -> None:
    leader = _leader(24)
    await leader.cycle()
    assert _hints(leader) == [(f"n{number}", numa_id) for number in range(4) for numa_id in (0, 0, 0, 1, 1, 1)]
    assert len(decided) == 6


async def test_the_node_counts_for_members_that_select_nodes(decided: list[str]) -> None:
    leader = _leader(18, nodeSelector={"of": "some"})
    await leader.cycle()
    assert not decided
    for number in range(3):
        leader.cache.nodes.upsert(f"n{number}", node(name=f"n{number}", cpus=32, labels={"of": "some"}))
    await leader.cycle()
    assert {at for at, _ in _hints(leader)} == {"n0", "n1", "n2"}
    assert len(decided) == 18
