"""Pods that ask for a NUMA policy and that kubelets do not align: which container lacks what, and on which nodes.

1. A pod of which some container gets CPUs of its own is aligned, and one whose policy is a default did not ask for
   it. For any other it depends on the node.
2. Where the NUMA nodes are ours to choose (koordlet, policy none) the pod's hint counts, whatever its QoS class.
3. A kubelet aligns the pod's devices, if it knows which NUMA nodes they are near: then only the placement says what it
   does not align.
4. Where no NUMA nodes are known yet, only an agent like koordlet could align it: that is warned about, never denied.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from webhook.admission.pod.placement_text import subject
from webhook.admission.pod.schedulability import look_ahead
from webhook.engine.arrays import Bools
from webhook.engine.decide import Decision
from webhook.engine.kubelet.device_alignment import aligned_devices, numa_assigned_by_kubelets, numa_assigned_by_us
from webhook.engine.snapshot.snapshot import Snapshot
from webhook.model.alignment import Obstacle, in_words, obstacles
from webhook.model.intent import NUMAIntent
from webhook.model.options import Options
from webhook.model.pod import Pod, QoS
from webhook.model.resources import is_device

_NO_KUBELET: Final = "no kubelet aligns"


@dataclass(frozen=True, slots=True)
class NotAligned:
    """What kubelets do not align of a pod."""

    asked: str
    """The policy."""
    fact: str
    """Such as "no kubelet aligns this pod"."""
    obstacles: tuple[Obstacle, ...]
    warns: bool = True
    """False where devices of it are aligned."""
    everywhere: bool = False
    """Whether no node that it may go to would align it: `--not-alignable=Deny` refuses it."""

    @property
    def clause(self) -> str:
        """For the placement text."""
        return f"{self.fact}: {in_words(self.obstacles)}"

    def sentence(self, path: str = "") -> str:
        """For warnings and denials; path: where the pod stands in its workload, such as "spec.template."."""
        return f"{self.asked} is asked for, but {self.fact}: {in_words(self.obstacles, path)}"


def not_aligned(snapshot: Snapshot, pod: Pod, intent: NUMAIntent, options: Options) -> NotAligned | None:
    """What is not aligned on the nodes that the pod may go to, those without room now included; None: nothing."""
    found = obstacles(pod) if intent.policy and not intent.by_default else ()
    if not found:
        return None
    unschedulable = look_ahead(snapshot.node_arrays, pod, intent, options)
    node_arrays, nodes = unschedulable.when_empty.snapshot.node_arrays, unschedulable.hopeful
    near, kubelets = _near(unschedulable.when_empty), nodes & numa_assigned_by_kubelets(node_arrays)
    ours, in_part = _count(nodes & numa_assigned_by_us(node_arrays)), _count(kubelets & _any(near, node_arrays.n))
    unaligned = _count(kubelets) - in_part
    known = ours + in_part + unaligned
    if not known and any(map(is_device, pod.requests)):
        return None
    if unaligned == known:
        return NotAligned(subject(intent), f"{_NO_KUBELET} {_of(pod)}", found, everywhere=unaligned > 0)
    if unaligned:
        fact = f"the kubelets of {unaligned} of {known} nodes do not align {_of(pod)}"
        return NotAligned(subject(intent), fact, found)
    if in_part:
        devices = ", ".join(name for name, where in near.items() if (where & kubelets).any())
        return NotAligned(subject(intent), f"kubelets align only {devices} for {_of(pod)}", found, warns=False)
    return None


def not_aligned_on(decision: Decision, node: int, intent: NUMAIntent) -> NotAligned | None:
    """What the kubelet of one node (an index) does not align of the pod; None: nothing, or it is not known."""
    found = obstacles(decision.pod) if intent.policy and not intent.by_default else ()
    if not found or not numa_assigned_by_kubelets(decision.snapshot.node_arrays)[node]:
        return None
    devices = ", ".join(name for name, where in _near(decision).items() if where[node])
    fact = f"its kubelet aligns only {devices} for" if devices else "its kubelet does not align"
    asked = decision.request.policy.koordinator if decision.request.policy else ""
    return NotAligned(asked, f"{fact} {_of(decision.pod)}", found, warns=not devices)


def _near(decision: Decision) -> dict[str, Bools]:
    return dict(aligned_devices(decision.snapshot.node_arrays, decision.request))


def _any(near: dict[str, Bools], n: int) -> Bools:
    where: Bools = np.logical_or.reduce([np.zeros(n, dtype=np.bool_), *near.values()])
    return where


def _count(where: Bools) -> int:
    return int(np.count_nonzero(where))


def _of(pod: Pod) -> str:
    """What of the pod is not aligned: of a Guaranteed pod the memory manager aligns the memory."""
    return "the CPUs of this pod" if pod.qos is QoS.GUARANTEED and pod.pod_level is None else "this pod"
