"""The scheduling gate: which pods get it.

At its creation a pod gets the gate, or loses the one that its manifest had, based on the current cluster. Later a gate
can only be removed. The placement controller removes it in the patch that assigns the pod.

- Members of a gang are assigned together, so each waits until the controller has seen the others.
- A pod that fits nowhere now has to wait. While it is gated the scheduler spends no time on it. By a setting it is
  admitted without the gate, or denied. A pod that waits for a node to be added gets no gate (see `decision`).
- A pod without a controller that has node affinity waits for a single node, which is added beside it (see
  `affinity_patch`).
- A pod whose resource claims the leader allocates waits until they are there.
- Other pods need not wait. But a single writer that decides late knows more than many replicas at creation.

Source: Kubernetes' KEP-3521 (gates are only added at creation) and KEP-3838 (what may change behind a gate).
"""

from collections.abc import Mapping
from typing import Final

from webhook.formats.kubernetes.gates import gates_of
from webhook.formats.kubernetes.membership import may_be_in_group
from webhook.formats.patches.json_patch import END, Patch
from webhook.model.names import PLACEMENT_GATE
from webhook.state.rules import Rules

GATES_PATH: Final = ("spec", "schedulingGates")


def needs_gate(
    annotations: Mapping[str, str],
    rules: Rules,
    *,
    fits: bool,
    own_affinity: bool = False,
    gets_devices: bool = False,
) -> bool:
    """Whether a managed pod with these annotations gets the gate.

    fits: some node can take it now. own_affinity: it has node affinity of its own that must not be extended.
    gets_devices: the leader allocates its claims.
    """
    if rules.gate == "Never":
        return False
    if may_be_in_group(annotations) or ((own_affinity or gets_devices) and fits):
        return True
    return rules.gate == "Always" if fits else rules.no_capacity == "Gate"


def set_gate(patch: Patch, *, wanted: bool) -> None:
    """Add our gate to the pod of the patch, or remove it."""
    gates = gates_of(patch.document)
    if wanted and PLACEMENT_GATE not in gates:
        patch.put((*GATES_PATH, END), {"name": PLACEMENT_GATE})
    if not wanted:
        # The API server accepts the same gate twice. Removing from the end keeps the other positions.
        for position in reversed([index for index, gate in enumerate(gates) if gate == PLACEMENT_GATE]):
            patch.remove((*GATES_PATH, position))
