"""The scheduling gate behind which a pod waits for its place: which pods get one, and when only we hold a pod back.

At its creation a pod gets the gate, or loses one that its manifest had, by the cluster as it is at that moment; later a
gate can only be taken away, which the placement controller does in the patch that places the pod.

- A group's members are placed together, so none goes before the controller has seen the others.
- A pod that fits nowhere now has to wait; behind the gate the scheduler spends no time on it. An operator may have it
  let in as it is, or refused. But one that waits for a node to be added gets none (see `decision`).
- A pod of its user's own with node affinity waits for one node, which can be written beside that (see `reapply`).
- Any other pod need not wait, but one writer who decides at the last moment sees what many at creation cannot.

Source: Kubernetes' KEP-3521 (gates are only added at creation) and KEP-3838 (what may change behind a gate).
"""

from collections.abc import Mapping
from typing import Final

from webhook.admission.patch import END, Patch
from webhook.model.gates import gates_of
from webhook.model.membership import may_be_in_group
from webhook.model.names import PLACEMENT_GATE
from webhook.model.rules import Rules

GATES_PATH: Final = ("spec", "schedulingGates")


def needs_gate(annotations: Mapping[str, str], rules: Rules, *, fits: bool, own_affinity: bool = False) -> bool:
    """Whether a pod of ours with these annotations waits behind the gate.

    fits: some node can take it now. own_affinity: it has node affinity of its own that is not to be added to.
    """
    if rules.gate == "Never":
        return False
    if may_be_in_group(annotations) or (own_affinity and fits):
        return True
    return rules.gate == "Always" if fits else rules.no_capacity == "Gate"


def set_gate(patch: Patch, *, wanted: bool) -> None:
    """See to it that the pod of the patch has our gate, or has it not."""
    gates = gates_of(patch.document)
    if wanted and PLACEMENT_GATE not in gates:
        patch.put((*GATES_PATH, END), {"name": PLACEMENT_GATE})
    if not wanted:
        # The API server takes the same gate twice; from the end, so that the positions before stay what they are.
        for position in reversed([index for index, gate in enumerate(gates) if gate == PLACEMENT_GATE]):
            patch.remove((*GATES_PATH, position))
