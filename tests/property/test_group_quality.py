"""How close to the optimum gangs are placed: a mixed-integer program (HiGHS) computes the optimum on random clusters.

pytest -s tests/property/test_group_quality.py      prints the figures
"""

import sys
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.optimize import Bounds, LinearConstraint, milp

from tests.builders.gangs import GPU, RACK, ZONE, group, podset, whole_nodes
from tests.builders.records import pod
from tests.unit.engine.gang.assignments import assigned
from webhook.engine.gang.gang_spec import Constraint

CLUSTERS = 60
ZONES, RACKS, NODES = 2, 3, 3
"""Zones, racks in each, nodes in each of those."""


@dataclass(frozen=True)
class Case:
    """A cluster and a gang of leaders and workers."""

    free: npt.NDArray[np.int64]
    """[zone, rack, node, (cpu, gpu)]."""
    wants: tuple[tuple[int, int], tuple[int, int]]
    counts: tuple[int, int]


def case(rng: np.random.Generator) -> Case:
    """A random case."""
    free = np.stack([rng.integers(0, 13, (ZONES, RACKS, NODES)), rng.integers(0, 9, (ZONES, RACKS, NODES))], axis=-1)
    wants = (int(rng.integers(1, 7)), int(rng.integers(0, 2))), (int(rng.integers(1, 5)), int(rng.integers(1, 4)))
    return Case(free, wants, (int(rng.integers(1, 4)), int(rng.integers(2, 12))))


def fewest_racks(case: Case) -> int | None:
    """The fewest racks of one zone that hold the gang; None if no zone holds it."""
    found = [racks for zone in range(ZONES) if (racks := _fewest_in_zone(case, zone)) is not None]
    return min(found, default=None)


def _fewest_in_zone(case: Case, zone: int) -> int | None:
    """Pods x[node, kind], racks used y[rack]: minimise the sum of y."""
    nodes = RACKS * NODES
    pods = nodes * 2
    variables = pods + RACKS
    rows: list[npt.NDArray[np.float64]] = []
    lows: list[float] = []
    highs: list[float] = []
    for kind in range(2):
        row = np.zeros(variables)
        row[kind:pods:2] = 1
        rows.append(row)
        lows.append(case.counts[kind])
        highs.append(case.counts[kind])
    total = sum(case.counts)
    for node in range(nodes):
        for resource in range(2):
            row = np.zeros(variables)
            row[2 * node : 2 * node + 2] = [want[resource] for want in case.wants]
            rows.append(row)
            lows.append(-np.inf)
            highs.append(case.free[zone].reshape(nodes, 2)[node, resource])
    for rack in range(RACKS):
        row = np.zeros(variables)
        row[2 * NODES * rack : 2 * NODES * (rack + 1)] = 1
        row[pods + rack] = -total
        rows.append(row)
        lows.append(-np.inf)
        highs.append(0)
    result = milp(
        np.concatenate([np.zeros(pods), np.ones(RACKS)]),
        constraints=LinearConstraint(np.array(rows), np.array(lows), np.array(highs)),
        bounds=Bounds(0, np.concatenate([np.full(pods, total), np.ones(RACKS)])),
        integrality=np.ones(variables, dtype=np.int64),
    )
    return None if result.x is None else round(float(result.fun))


def racks_used(case: Case) -> int | None:
    """The racks that our assignment uses; None if there is none."""
    places, free = {}, {}
    for zone, rack, node in np.ndindex(ZONES, RACKS, NODES):
        name = f"n{zone}{rack}{node}"
        places[name] = (f"zone-{zone}", f"rack-{rack}")
        cpu, gpu = case.free[zone, rack, node].tolist()
        free[name] = {"cpu": 1000 * cpu, GPU: gpu}
    sets = [
        podset(name=name, of=pod({"cpu": str(cpu), GPU: str(gpu)} if gpu else {"cpu": str(cpu)}), count=count)
        for name, (cpu, gpu), count in zip(("leader", "worker"), case.wants, case.counts, strict=True)
    ]
    answer = assigned(whole_nodes(places=places, free=free), group(*sets, constraint=Constraint(ZONE, RACK)))
    return len({each.domain[:RACK] for each in answer.pods()}) if answer.assigned else None


def test_every_group_that_an_optimum_places_is_placed_and_its_spread_is_near() -> None:
    rng = np.random.default_rng(1)
    cases = [case(rng) for _ in range(CLUSTERS)]
    best = [fewest_racks(each) for each in cases]
    ours = [racks_used(each) for each in cases]
    assert [racks is None for racks in ours] == [racks is None for racks in best]
    pairs = [(mine, least) for mine, least in zip(ours, best, strict=True) if mine is not None and least is not None]
    used, fewest = sum(mine for mine, _ in pairs), sum(least for _, least in pairs)
    optimal = sum(mine == least for mine, least in pairs)
    sys.stdout.write(
        f"\nplaced {len(pairs)} of {len(cases)} groups (optimum {len(pairs)}), racks used {used} (optimum {fewest}), "
        f"as few as can be for {optimal} of {len(pairs)}\n"
    )
    assert all(mine >= least for mine, least in pairs)
    # Greedy keeps kinds together one after the other; a rack more than needed is the most it may cost on average.
    assert used <= 1.25 * fewest
