"""A small scenario end to end: pods are rejected without the webhook, and none with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cluster.kubelets import even_machine
from tests.cluster.real_kubelets import ImpossibleError
from tests.cluster.up import tell
from tests.proof.__main__ import LETTERS, UsageError, parser, wanted
from tests.proof.run import run
from tests.proof.scenario import ProofScenario
from tests.proof.scenarios import SCENARIOS
from tests.proof.workload import Burst

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

# n0 [16 16]  n1 [16 16]: five pods of 10 CPUs fit in sum, four by NUMA node
SMALL = ProofScenario(
    "small",
    [even_machine("n0"), even_machine("n1")],
    [Burst("large", 5, [{"cpu": "10", "memory": "10Gi"}])],
    seconds=8.0,
    steady_from=6.0,
    lag=0.5,
)


def test_without_the_webhook_the_kubelets_reject_one_pod_after_the_other(programs: Mapping[str, Path]) -> None:
    row = run(SMALL, programs, tell, webhook=False, seed=0)
    assert row.running == 4
    assert row.rejected > 10
    assert row.created > row.rejected
    assert row.utilisation == pytest.approx(40 / 64)


def test_with_the_webhook_the_kubelets_reject_none(programs: Mapping[str, Path]) -> None:
    row = run(SMALL, programs, tell, webhook=True, seed=0)
    assert (row.created, row.running, row.rejected) == (5, 4, 0)


def test_every_scenario_has_a_letter_and_a_name() -> None:
    assert list(LETTERS) == list("abcdefg")
    assert list(LETTERS.values()) == [*SCENARIOS, "trace"]
    assert parser().parse_args(["--scenario", "a", "--scenario", "churn"]).scenario == ["a", "churn"]


def test_both_runs_are_made_unless_one_is_asked_for() -> None:
    assert parser().parse_args([]).webhook is None
    assert parser().parse_args(["--no-webhook"]).webhook is False


@pytest.mark.parametrize(
    ("arguments", "reals", "simulateds"),
    [
        (["--scenario", "replicaset"], 1, 1),
        (["--scenario", "a", "--kubelets", "real"], 1, 0),
        (["--scenario", "a", "--kubelets", "simulated"], 0, 1),
        (["--scenario", "burst"], 0, 1),
        ([], 7, 7),
    ],
)
def test_a_scenario_runs_on_both_kinds_of_kubelets_unless_one_is_asked_for(
    arguments: list[str], reals: int, simulateds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.proof.__main__.reason_against", lambda scenarios: "")
    scenarios = wanted(parser().parse_args(arguments))
    assert [scenario.exporter is not None for scenario in scenarios] == [True] * reals + [False] * simulateds


def test_where_real_kubelets_cannot_run_one_line_says_so_and_the_simulated_half_runs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("tests.proof.__main__.reason_against", lambda scenarios: "no namespaces here")
    (scenario,) = wanted(parser().parse_args(["--scenario", "mixed"]))
    assert scenario.exporter is None
    assert capsys.readouterr().err == "==> simulated kubelets only: no namespaces here\n"
    with pytest.raises(ImpossibleError, match="no namespaces here"):
        wanted(parser().parse_args(["--scenario", "mixed", "--kubelets", "real"]))


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--scenario", "burst", "--kubelets", "real"], "none of burst has real kubelets"),
        (["--scenario", "mixed", "--exporter", "koordlet"], "koordlet asks the kubelet's own server"),
        (["--scenario", "autoscale", "--exporter", "nfd"], "those of autoscale are not"),
    ],
)
def test_what_cannot_run_is_refused_before_anything_starts(
    arguments: list[str], told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.proof.__main__.reason_against", lambda scenarios: "")
    with pytest.raises(UsageError, match=told):
        wanted(parser().parse_args(arguments))
