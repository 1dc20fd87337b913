"""Odd manifests on the real control plane: `review` gives the answer of the API server and the service."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cluster.answers import DENIED
from tests.cluster.control_plane import CommandError
from tests.integration.example_cluster import cluster
from tests.unit.cli.conftest import run_review
from tests.unit.cli.odd_documents import ODD

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cluster.control_plane import ControlPlane

__all__ = ["cluster"]  # a fixture

NOT_AMONG = "is neither among the objects nor in the cluster"
DRY_RUN = ("create", "--dry-run=server", "--validate=ignore", "--filename", "-")


@pytest.mark.parametrize("name", ODD)
def test_of_an_odd_document(name: str, cluster: Path, control_plane: ControlPlane, tmp_path: Path) -> None:
    file = tmp_path / "odd.yaml"
    file.write_text(ODD[name])
    outcome = run_review("-f", file, "-o", "json", cluster=cluster)
    verdicts = [] if outcome.code == 2 else outcome.json
    denied = [entry["message"] for entry in verdicts if entry["verdict"] == "deny"]
    try:
        warnings = control_plane.kubectl_warnings(*DRY_RUN, input=ODD[name])
    except CommandError as error:
        # `review` does not know who will create the object.
        refusal = str(error).replace("admin may not", "the user of this manifest may not")
    else:
        assert (outcome.code in {0, 1}, denied) == (True, []), outcome.stderr
        foretold = [warning for entry in verdicts for warning in entry["warnings"]]
        # `review` misses what the service looks up, or waits for, after the creation.
        assert warnings == [warning for warning in foretold if NOT_AMONG not in warning]
        return
    # What the API server itself refuses, `review` may not know to be wrong; it ends with an answer all the same.
    if DENIED in refusal and outcome.code != 2:
        assert denied
        assert [message for message in denied if message not in refusal] == [], refusal
