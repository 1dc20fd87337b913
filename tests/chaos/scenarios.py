"""The scenarios: what breaks, and how long honest pods may wait because of it."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from tests.chaos import faults, kubelet_faults
from tests.chaos.hostile import hostile_tenant

if TYPE_CHECKING:
    from collections.abc import Callable

# After the fault is over: a replica starts in 3 s, the next leader takes over after 5 and gives out everything 8 s
# later, the scheduler tries again after 10 at most, and a busy machine takes its time.
RECOVERY_SECONDS = 60.0
# Nothing is down, so there is nothing to recover from.
UNDISTURBED_SECONDS = 20.0


@dataclass(frozen=True)
class FaultScenario:
    """One fault."""

    name: str
    fault: Callable[[faults.Stage], None]
    recovery: float = RECOVERY_SECONDS
    """An honest pod is bound so many seconds after the fault is over, at the latest."""
    has_claims: bool = False
    """Whether each pod has a claim for a device."""
    is_real: bool = False
    """Whether it needs real kubelets."""


SCENARIOS = {
    scenario.name: scenario
    for scenario in (
        FaultScenario("leader-killed", faults.leader_killed),
        FaultScenario("leader-paused", faults.leader_paused),
        FaultScenario("etcd-killed", partial(faults.component_killed, "etcd")),
        FaultScenario("api-server-killed", partial(faults.component_killed, "kube-apiserver")),
        FaultScenario("ca-secret-deleted", faults.ca_secret_deleted),
        FaultScenario("ca-bundle-emptied", faults.ca_bundle_emptied),
        FaultScenario("lease-deleted", faults.lease_deleted),
        FaultScenario("nrt-crd-deleted", faults.nrt_crd_deleted),
        FaultScenario("topology-changed", faults.topology_changed),
        FaultScenario("upgrade-and-rollback", faults.upgraded),
        FaultScenario("scheduler-killed", partial(faults.component_killed, "kube-scheduler")),
        FaultScenario("nodes-deleted", faults.nodes_deleted),
        FaultScenario("all-replicas-stopped", faults.all_replicas_stopped),
        FaultScenario("claims", faults.claims_disturbed, has_claims=True),
        FaultScenario("hostile-tenant", hostile_tenant, UNDISTURBED_SECONDS),
        FaultScenario("kubelets-killed", partial(kubelet_faults.kubelets_ended, signal.SIGKILL), is_real=True),
        FaultScenario("kubelets-terminated", partial(kubelet_faults.kubelets_ended, signal.SIGTERM), is_real=True),
        FaultScenario("deleted-while-kubelets-down", kubelet_faults.deleted_while_down, is_real=True),
        FaultScenario("exporters-killed", kubelet_faults.exporters_killed, is_real=True),
        FaultScenario("node-replaced", kubelet_faults.node_replaced, is_real=True),
    )
}
