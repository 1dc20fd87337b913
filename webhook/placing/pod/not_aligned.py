"""Pods that request a NUMA policy and that kubelets do not align: the containers and the reasons, by node.

1. A pod with a container that has exclusive CPUs is aligned. A pod whose policy is a default did not request it. For
   other pods it depends on the node.
2. Where we choose the NUMA nodes (koordlet, policy none), the pod's allocation applies, whatever its QoS class.
3. A kubelet aligns the pod's devices if it knows their NUMA nodes. Then only the placement text says what is not
   aligned.
4. Where the NUMA nodes are not known yet, or devices are away for a while, only an agent like koordlet could align the
   pod. That causes a warning, never a denial.
5. Nor is a Guaranteed pod with pod-level resources denied: a kubelet with PodLevelResourceManagers may align it.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from webhook.engine.arrays import Bools
from webhook.engine.decide import Decision
from webhook.engine.enforcement import obey_no_allocation
from webhook.engine.kubelet.alignable import aligned_devices, numa_assigned_by_kubelets, numa_assigned_by_us
from webhook.engine.snapshot.empty_cluster import with_devices_back
from webhook.engine.snapshot.snapshot import Snapshot
from webhook.formats.koordinator.intent import NUMAIntent
from webhook.formats.kubernetes.alignment import Obstacle, in_words, obstacles
from webhook.formats.kubernetes.pod import Pod, QoS
from webhook.model.options import Options
from webhook.model.resources import is_device
from webhook.model.wording import counted
from webhook.placing.pod.placement_text import subject
from webhook.placing.pod.schedulability import look_ahead

_NO_KUBELET: Final = "no kubelet aligns"
_POD: Final = "this pod"


@dataclass(frozen=True, slots=True)
class NotAligned:
    """What kubelets do not align of a pod."""

    asked: str
    """The requested policy."""
    fact: str
    """For example "no kubelet aligns this pod"."""
    obstacles: tuple[Obstacle, ...]
    warns: bool = True
    """False if devices of the pod are aligned."""
    everywhere: bool = False
    """Whether no eligible node would align it. Then `--not-alignable=Deny` denies the pod."""

    @property
    def clause(self) -> str:
        """The clause in the placement text."""
        return f"{self.fact}: {in_words(self.obstacles)}"

    def sentence(self, path: str = "") -> str:
        """The text of warnings and denials. path: the pod's path in its workload, for example "spec.template."."""
        return f"{self.asked} is asked for, but {self.fact}: {in_words(self.obstacles, path)}"


def not_aligned(snapshot: Snapshot, pod: Pod, intent: NUMAIntent, options: Options) -> NotAligned | None:
    """What is not aligned on the eligible nodes, including those without capacity now; None: nothing."""
    found = obstacles(pod) if intent.policy and not intent.by_default else ()
    if not found:
        return None
    unschedulable = look_ahead(snapshot.node_arrays, pod, intent, options)
    node_arrays, nodes = unschedulable.when_empty.snapshot.node_arrays, unschedulable.hopeful
    near, kubelets = _near(unschedulable.when_empty), nodes & numa_assigned_by_kubelets(node_arrays)
    # Where nothing obeys an allocation nothing aligns the pod either, and another warning says so.
    loose = nodes & obey_no_allocation(node_arrays)
    ours = _count(nodes & numa_assigned_by_us(node_arrays) & ~loose)
    in_part = _count(kubelets & _any(near, node_arrays.n))
    unaligned = _count(kubelets) - in_part
    known = ours + in_part + unaligned
    if not known and (loose.any() or any(map(is_device, pod.requests))):
        return None
    if unaligned == known:
        sure = unaligned > 0 and not (pod.pod_level and pod.qos is QoS.GUARANTEED)
        everywhere = sure and not loose.any() and with_devices_back(node_arrays, pod.requests) is None
        return NotAligned(subject(intent), f"{_NO_KUBELET} {_of(pod)}", found, everywhere=everywhere)
    if unaligned:
        fact = f"the kubelets of {unaligned} of {counted(known, 'node')} do not align {_of(pod)}"
        return NotAligned(subject(intent), fact, found)
    if in_part:
        devices = ", ".join(name for name, where in near.items() if (where & kubelets).any())
        return NotAligned(subject(intent), _in_part("kubelets align", devices, pod), found, warns=False)
    return None


def not_aligned_on(decision: Decision, node: int, intent: NUMAIntent) -> NotAligned | None:
    """What the kubelet of one node (an index) does not align of the pod; None: nothing, or unknown."""
    found = obstacles(decision.pod) if intent.policy and not intent.by_default else ()
    if not found or not numa_assigned_by_kubelets(decision.snapshot.node_arrays)[node]:
        return None
    devices = ", ".join(name for name, where in _near(decision).items() if where[node])
    pod = decision.pod
    fact = _in_part("its kubelet aligns", devices, pod) if devices else f"its kubelet does not align {_of(pod)}"
    asked = decision.request.policy.koordinator if decision.request.policy else ""
    return NotAligned(asked, fact, found, warns=not devices)


def _near(decision: Decision) -> dict[str, Bools]:
    return dict(aligned_devices(decision.snapshot.node_arrays, decision.request))


def _any(near: dict[str, Bools], n: int) -> Bools:
    where: Bools = np.logical_or.reduce([np.zeros(n, dtype=np.bool_), *near.values()])
    return where


def _count(where: Bools) -> int:
    return int(np.count_nonzero(where))


def _in_part(aligns: str, devices: str, pod: Pod) -> str:
    """`kubelets align only nvidia.com/gpu of this pod`, or `..., but not the CPUs of this pod`."""
    of = _of(pod)
    return f"{aligns} only {devices} of this pod" if of == _POD else f"{aligns} {devices}, but not {of}"


def _of(pod: Pod) -> str:
    """What is not aligned: for a Guaranteed pod only the CPUs, because the memory manager aligns the memory."""
    return "the CPUs of this pod" if pod.qos is QoS.GUARANTEED and pod.pod_level is None else _POD
