"""The simulated kubelet says of recorded sequences what the kubelet's own managers said."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.cluster.replay import differences, replay

if TYPE_CHECKING:
    from collections.abc import Mapping

RECORDINGS = Path(__file__).parents[1] / "conformance" / "golden" / "kubelet_admission.jsonl.gz"


def test_every_recorded_admission_comes_out_again(programs: Mapping[str, Path]) -> None:
    found = replay(programs["kubelets"], RECORDINGS)
    assert found.differences == []
    assert (found.sequences, found.pods) == (3000, 21551)


@pytest.mark.parametrize(
    ("recorded", "replayed", "places"),
    [
        ({"admit": True}, {"admit": False}, ["s admit"]),
        ({"pods": [{"pod": "p0"}]}, {"pods": []}, ["s pods"]),
        ({"cpusPerNuma": {"0": 2}}, {}, ["s cpusPerNuma"]),
        ({"affinity": None}, {"affinity": [0]}, ["s affinity"]),
        ({"affinity": [0, 1]}, {"affinity": [1, 0]}, ["s affinity 0", "s affinity 1"]),
        ({"reason": "TopologyAffinityError"}, {"admit": False}, ["s reason"]),
        ({"zones": [{"resources": [{"name": "cpu", "available": "1"}]}]},) * 2 + ([],),
        (
            {"attributes": [{"name": "a", "value": "1"}, {"name": "b", "value": "2"}]},
            {"attributes": [{"name": "b", "value": "2"}, {"name": "a", "value": "3"}]},
            ["s attributes a value"],
        ),
        ({"devices": {"gpu": {"0": 1}}}, {"devices": {"gpu": {"1": 1}}}, ["s gpu 0"]),
    ],
)
def test_a_difference_is_found_and_placed(recorded: Any, replayed: Any, places: list[str]) -> None:
    assert [difference.partition(":")[0] for difference in differences("s", recorded, replayed)] == places


def test_what_the_kubelet_decides_at_random_is_not_compared() -> None:
    assert list(differences("s", {"devices": {"gpu": None}}, {"devices": {"gpu": {"0": 2}}})) == []
    assert list(differences("s", {"admit": False}, {"admit": False, "message": "varies"})) == []
