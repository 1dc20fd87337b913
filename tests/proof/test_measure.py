"""How rows are computed from histories."""

from __future__ import annotations

import pytest

from tests.cluster.kubelets import even_machine
from tests.cluster.nodes import RACK_LABEL
from tests.proof.measure import in_domain, measure, utilisation, waiting_times
from tests.proof.observe import History
from tests.proof.scenario import ProofScenario
from tests.proof.workload import Burst, ControllerKind
from webhook.simulation.run_metrics import percentile

# rack-0 ── n0 [4 4]  n1 [4 4]
# rack-1 ── n2 [4 4]             [cpus per NUMA node]
MACHINES = [even_machine(f"n{number}", cpus=4, labels={RACK_LABEL: f"rack-{number // 2}"}) for number in range(3)]
SCENARIO = ProofScenario(
    "some",
    MACHINES,
    [
        Burst("pair", 2, [{"cpu": "3", "memory": "1Gi"}], at=1.0),
        Burst("gang", 3, [{"cpu": "2", "memory": "1Gi"}], kind=ControllerKind.JOB, at=2.0, one_rack=True),
    ],
    seconds=20.0,
    steady_from=10.0,
)


def ran(workload: str, start: float, end: float | None = None, node: str = "n0") -> History:
    return History(f"{workload}-x", workload, start - 0.5, node, start - 0.2, start, end)


def rejected(workload: str) -> History:
    return History(f"{workload}-y", workload, 1.0, "n1", 1.1, None, 1.2, "TopologyAffinityError")


def test_what_a_kubelet_rejected_was_created_but_never_ran() -> None:
    row = measure(SCENARIO, [rejected("pair"), ran("pair", 4.0), ran("pair", 5.0)], webhook=False, refused_binds=0)
    assert (row.created, row.running, row.rejected) == (3, 2, 1)


def test_time_to_running_counts_from_the_workloads_creation_over_all_rejected_pods() -> None:
    assert waiting_times(SCENARIO, [rejected("pair"), ran("pair", 4.0), ran("gang", 7.0)]) == [3.0, 5.0]


@pytest.mark.parametrize(
    ("pod", "used"),
    [
        (ran("pair", 1.0), 1.0),  # all of the steady time
        (ran("pair", 15.0), 0.5),
        (ran("pair", 1.0, end=12.5), 0.25),
        (ran("pair", 1.0, end=9.0), 0.0),
        (ran("pair", 1.0, end=25.0), 1.0),
        (rejected("pair"), 0.0),
    ],
)
def test_utilisation_is_the_steady_times_average_of_what_running_pods_asked_for(pod: History, used: float) -> None:
    assert utilisation(SCENARIO, [pod]) == pytest.approx(used * 3 / 24)


def test_in_their_rack_are_those_in_the_rack_with_most_of_their_group() -> None:
    pods = [ran("gang", 3.0, node="n0"), ran("gang", 3.0, node="n2"), ran("gang", 3.0, node="n1"), ran("pair", 3.0)]
    assert in_domain(SCENARIO, pods) == 2


def test_a_scenario_without_groups_has_nobody_in_a_rack() -> None:
    alone = ProofScenario("alone", MACHINES, SCENARIO.workloads[:1], 20.0, 10.0)
    assert in_domain(alone, [ran("pair", 3.0)]) is None


@pytest.mark.parametrize(("percent", "value"), [(50, 2.0), (99, 4.0), (25, 1.0), (26, 2.0)])
def test_percentiles_are_by_nearest_rank(percent: int, value: float) -> None:
    assert percentile([4.0, 1.0, 3.0, 2.0], percent) == value


def test_a_run_in_which_nothing_ran_has_no_times() -> None:
    row = measure(SCENARIO, [rejected("pair")], webhook=True, refused_binds=3)
    assert row.to_json() == {
        "scenario": "some",
        "kubelets": "simulated",
        "webhook": True,
        "created": 1,
        "running": 0,
        "rejected": 1,
        "inDomain": 0,
        "p50": None,
        "p99": None,
        "utilisation": 0.0,
        "refusedBinds": 3,
        "hints": 0,
        "wrongHints": 0,
        "claims": None,
        "apart": None,
    }
