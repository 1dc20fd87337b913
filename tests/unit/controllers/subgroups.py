"""Pods in the subgroups of a PodGroup that a user wrote."""

from typing import Any

from tests.builders.pods import gated
from tests.unit.controllers.leader import Leader

SUBGROUP = "kai.scheduler/subgroup-name"


def pods(subgroup: str, count: int, **how: Any) -> list[dict[str, Any]]:
    """Gated pods of one CPU. how: what else they have."""
    metadata = {"labels": {SUBGROUP: subgroup}} if subgroup else {}
    given: dict[str, Any] = {"group": "g", "cpu": 1, "numa": None, "metadata": metadata, **how}
    return [gated(name=f"{subgroup or 'p'}-{n}", **given) for n in range(count)]


def said(leader: Leader, name: str) -> str:
    """What the pod's placement will say."""
    report = leader.reporter._to_report.get("default", f"default/{name}")
    assert report is not None
    return report.why.text
