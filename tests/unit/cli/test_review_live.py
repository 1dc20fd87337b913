"""`review` gives the same answer for a live cluster and for its snapshot."""

from tests.cluster.control_plane import ControlPlane
from tests.demo.example import POD, example_cluster
from tests.unit.cli.conftest import Review


def test_a_live_cluster_is_judged_like_a_snapshot_of_it(review: Review, control_plane: ControlPlane) -> None:
    with example_cluster(control_plane):
        live = review("-f", POD, "-o", "json", "--kubeconfig", control_plane.kubeconfig, cluster=None)
    assert live.stderr == ""
    assert live.json == review("-f", POD, "-o", "json").json


def test_a_context_that_does_not_exist_is_told(review: Review, control_plane: ControlPlane) -> None:
    outcome = review("-f", POD, "--kubeconfig", control_plane.kubeconfig, "--context", "elsewhere", cluster=None)
    assert outcome.code == 2
    assert "elsewhere" in outcome.stderr
