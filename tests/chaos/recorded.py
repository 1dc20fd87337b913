"""Pods as the journal's tests record them, on a cluster of three nodes."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from tests.chaos.load import LoadKind, Unit
from tests.cluster.audit import Slot
from tests.cluster.gated import GATE, NUMA, PLACEMENT

# rack-0 ── n0 [8 CPUs]  n1 [8]
# rack-1 ── n2 [8]
CAPACITY = {Slot(node, 0, "cpu"): Decimal(8) for node in ("n0", "n1", "n2")}


RACKS = {"n0": "rack-0", "n1": "rack-0", "n2": "rack-1"}


def raw(
    name: str, node: str = "", allocation: str | None = None, cpu: int = 8, unit: str = "g", **more: Any
) -> dict[str, Any]:
    """A pod that waits behind the gate, or a bound one with an allocation for its node."""
    (one,) = Unit(unit, "ns", LoadKind.POD, cpu=cpu).pods("run")
    metadata = one["metadata"] | {"name": name, "namespace": "ns", "uid": name}
    spec = {**one["spec"], "nodeName": node} if node else {**one["spec"], "schedulingGates": [{"name": GATE}]}
    if allocation := node if allocation is None else allocation:
        text = f'{{"node":"{allocation}","numaNodeResources":[{{"node":0,"resources":{{"cpu":"{cpu}"}}}}]}}'
        metadata["annotations"] |= {NUMA: text, PLACEMENT: "placed"}
    return {"metadata": metadata, "spec": spec, **more}
