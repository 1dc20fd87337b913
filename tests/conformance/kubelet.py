"""The check of the kubelet fidelity, pod by pod in the order of admission.

1. Prediction: the engine's answer from the NRT just before the pod, as in the webhook.
2. Replay: the answer of the reference, which keeps the whole state of the machine (tests.conformance.reference).
3. A pod is *hidden* if the prediction admits it, the real kubelet refused it, and the replay knows why: the NRT does
   not show it. Hidden pods do not count for the policies' own floors, but only few are allowed.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import zip_longest
from typing import Any, Final

import numpy as np

from tests.conformance.floors import FLOORS
from tests.conformance.plugin import NO_INTENT, add_node
from tests.conformance.reference import AFFINITY, ALLOCATION, RefusedError, admit
from tests.conformance.reference_machine import Held, Machine, Published
from tests.conformance.tally import ReportLine
from tests.unit.engine.whole_way import whole_way
from webhook.engine import kubelet
from webhook.engine.numa_fit import NUMAFit
from webhook.engine.reason import REASONS, Reason
from webhook.engine.request import PodRequest
from webhook.engine.snapshot.cluster_state import ClusterState
from webhook.engine.snapshot.node_arrays import NodeArrays
from webhook.engine.snapshot.snapshot import Snapshot
from webhook.formats.kubernetes.pod import Pod
from webhook.formats.kubernetes.resident import ResidentPod
from webhook.model.policy import NUMAPolicy
from webhook.model.resources import amount

Case = Mapping[str, Any]

_REASONS: Final = {
    Reason.FITS: None,
    Reason.NO_SINGLE_NUMA_NODE: AFFINITY,
    Reason.NOT_ALIGNED: AFFINITY,
    Reason.ALLOCATION_FAILS: ALLOCATION,
}


@dataclass(frozen=True)
class Step:
    """One pod and the machine as its NRT shows it."""

    case: Case
    raw: Mapping[str, Any]
    expected: Mapping[str, Any]
    residents: tuple[Mapping[str, Any], ...]
    """The pods that live on the machine."""

    @property
    def bound(self) -> list[ResidentPod]:
        """The pods as records, in the order of their admission."""
        return [ResidentPod.from_object({**pod, "spec": {**pod["spec"], "nodeName": "n"}}) for pod in self.residents]

    @property
    def place(self) -> str:
        """The step's position, for messages."""
        return f"{self.case['id']} {self.expected['pod']}"


def check(cases: Sequence[Case]) -> list[ReportLine]:
    """All pods of all machines."""
    steps = [step for case in cases for step in _steps(case)]
    node_arrays = _node_arrays(steps)
    report = _Report()
    index = 0
    for case in cases:
        machine = Machine(case["machine"])
        for step in _steps(case):
            report.add(step, _window(node_arrays, index, step.bound), machine)
            index += 1
        if "nrtAfter" in case["expect"]:
            report.compare_published(case["id"], case["expect"]["nrtAfter"], machine, case["machine"]["distances"])
    return report.tallies()


def _steps(case: Case) -> Iterator[Step]:
    residents: dict[str, Mapping[str, Any]] = {}
    expected = case["expect"]["pods"]
    for raw, outcome in zip(case["pods"], expected, strict=True):
        name = raw["metadata"]["name"]
        if outcome["pod"] != name:
            raise ValueError(f"{case['id']}: {outcome['pod']} is expected where {name} is admitted")
        for gone in case.get("remove", {}).get(name, ()):
            residents.pop(gone, None)
        yield Step(case, raw, outcome, tuple(residents.values()))
        if outcome["admit"]:
            residents[name] = raw


def _node_arrays(steps: Sequence[Step]) -> NodeArrays:
    """The machine of every step as a node of its own."""
    state = ClusterState()
    for number, step in enumerate(steps):
        name, machine = f"node-{number}", step.case["machine"]
        # What the kubelet reports in the node's status; the golden sequences ask for no check of cpu and memory there.
        allocatable = {resource: len(devices) for resource, devices in machine["devices"].items()}
        nrt = {**step.expected["nrtBefore"], "metadata": {"name": name}}
        options = [f"{option}={value}" for option, value in machine.get("options", {}).items()]
        attributes = [{"name": "topologyManagerPolicyOptions", "value": ",".join(options)}] if options else []
        nrt["attributes"] = [*nrt.get("attributes", ()), *attributes]
        add_node(state, name, allocatable, nrt)
        for resident in step.residents if machine["devices"] else ():
            metadata = resident["metadata"]
            own = {**metadata, "name": f"{number}-{metadata['name']}"}
            spec = {**resident["spec"], "nodeName": name}
            state.upsert_pod(ResidentPod.from_object({**resident, "metadata": own, "spec": spec}))
    return state.node_arrays()


_SHORT_DEVICE: Final = re.compile(r"unavailable for \S+\. Requested: \d+, Available: \d+")
_ARRAYS: Final = tuple(field.name for field in fields(NodeArrays))


def _window(node_arrays: NodeArrays, node: int, residents: Sequence[ResidentPod]) -> Snapshot:
    """The snapshot of one node, as the guard gets it for the node that the scheduler picked."""
    arrays: dict[str, Any] = {}
    for name in _ARRAYS:
        value = getattr(node_arrays, name)
        if isinstance(value, np.ndarray):
            arrays[name] = value[..., node : node + 1]
    alone = replace(node_arrays, names=[node_arrays.names[node]], index={node_arrays.names[node]: 0}, **arrays)
    return Snapshot(alone, residents=residents)


class _Report:
    def __init__(self) -> None:
        few = FLOORS["kubelet not admitted wrongly"]
        self.all = ReportLine("", few)
        self.policies = {
            policy: ReportLine(f"  {policy.kubelet}", FLOORS[f"kubelet {policy.kubelet}"])
            for policy in reversed(NUMAPolicy)
        }
        self.hidden: Counter[NUMAPolicy] = Counter()
        self.admitted = ReportLine("  admitted pods not refused", FLOORS["kubelet admitted pods not refused"])
        self.wrongly = {
            policy: ReportLine(f"  not admitted wrongly: {policy.kubelet}", few) for policy in self.policies
        }
        self.reason = ReportLine("  reason of refusals", FLOORS["kubelet reason of refusals"])
        self.nodes = ReportLine(
            "  NUMA nodes with single-numa-node", FLOORS["kubelet NUMA nodes with single-numa-node"]
        )
        floor = FLOORS["kubelet replay"]
        self.replay = ReportLine("  replay: verdict", floor)
        self.containers = ReportLine("  replay: containers (affinity, CPUs, memory, devices)", floor)
        self.published = ReportLine("  replay: published NRTs", floor)

    def tallies(self) -> list[ReportLine]:
        for policy, tally in self.policies.items():
            if self.hidden[policy]:
                tally.note = f"({self.hidden[policy]} more admitted wrongly: hidden from NRT and pods)"
        return [
            self.all,
            *(tally for tally in self.policies.values() if tally.total),
            self.admitted,
            *(tally for tally in self.wrongly.values() if tally.total),
            self.reason,
            self.nodes,
            self.replay,
            self.containers,
            self.published,
        ]

    def add(self, step: Step, snapshot: Snapshot, machine: Machine) -> None:
        pod = Pod.from_object(step.raw)
        removed = step.case.get("remove", {}).get(pod.name, ())
        for key in [key for key in machine.pods if key.partition("/")[2] in removed]:
            machine.remove(key)
        self.compare_published(step.place, step.expected["nrtBefore"], machine, step.case["machine"]["distances"])
        replayed = self._replay(step, pod, machine)
        self._predict(step, pod, snapshot, machine.policy, replayed)

    def _replay(self, step: Step, pod: Pod, machine: Machine) -> str | None:
        expected = step.expected
        refused, message, held = None, None, None
        try:
            held = admit(machine, pod)
        except RefusedError as refusal:
            refused, message = str(refusal), refusal.message
        words = comparable(expected.get("message", message))
        verdict = (expected["admit"], expected.get("reason"), words, expected["qos"])
        self.replay.count(verdict, (refused is None, refused, comparable(message), str(pod.qos)), step.place)
        if held is not None and expected["admit"]:
            self.containers.count(
                [one["name"] for one in expected["containers"]], [one.name for one in held], step.place
            )
            for container, got in zip(expected["containers"], held, strict=False):
                wanted = _wanted(container)
                random = frozenset(name for name, near in wanted["devices"].items() if near is None)
                self.containers.count(wanted, _got(got, machine, random), f"{step.place} {got.name}")
        return refused

    def compare_published(
        self, place: str, nrt: Mapping[str, Any], machine: Machine, distances: Sequence[Sequence[int]]
    ) -> None:
        attributes = {attribute["name"]: attribute["value"] for attribute in nrt["attributes"]}
        got = {"topologyManagerPolicy": machine.policy.kubelet, "topologyManagerScope": machine.scope.kubelet}
        what = ("topology.node.k8s.io/v1alpha2", "NodeResourceTopology", got)
        self.published.count((nrt["apiVersion"], nrt["kind"], attributes), what, f"{place} NRT")
        published = machine.published()
        zones = [
            ("Node", f"node-{node}", published[node], {f"node-{to}": cost for to, cost in enumerate(distances[node])})
            for node in machine.nodes
        ]
        for zone, expected in zip_longest(zones, map(_zone, nrt["zones"])):
            self.published.count(expected, zone, f"{place} NRT {(zone or expected)[1]}")

    def _predict(self, step: Step, pod: Pod, snapshot: Snapshot, policy: NUMAPolicy, replayed: str | None) -> None:
        expected = step.expected
        request = PodRequest.of(pod, NO_INTENT, snapshot.node_arrays.resources)
        fit = kubelet.predict(snapshot, request)
        got, wanted = bool(fit.fits[0]), bool(expected["admit"])
        words = {True: "admit", False: "refuse"}
        message = f"{step.place}: expected {words[wanted]} {expected.get('reason', '')}, got {words[got]}"
        self.all.note_one(agrees=got == wanted, disagreement=message)
        if got and not wanted and replayed is not None and replayed == expected.get("reason"):
            self.hidden[policy] += 1
        else:
            self.policies[policy].note_one(agrees=got == wanted, disagreement=message)
        self.wrongly[policy].note_one(agrees=wanted or not got, disagreement=message)
        if wanted:
            self.admitted.note_one(agrees=got, disagreement=message)
        if not wanted and not got:
            reason = REASONS[int(fit.reason[0])]
            if policy in {NUMAPolicy.SINGLE_NUMA_NODE, NUMAPolicy.RESTRICTED}:
                # The short way does not ask which manager would have said no.
                reason = whole_way(snapshot, request, 0)[0]
            self.reason.count(expected.get("reason"), _REASONS.get(reason), step.place)
        if wanted and got and policy is NUMAPolicy.SINGLE_NUMA_NODE:
            self._compare_nodes(step, fit)

    def _compare_nodes(self, step: Step, fit: NUMAFit) -> None:
        affinities = [container["affinity"] for container in step.expected.get("containers", ())]
        mask = int(fit.mask[0])
        got = sorted(node for node in range(mask.bit_length()) if mask >> node & 1)
        wanted = sorted({node for affinity in affinities if affinity is not None for node in affinity})
        # The only NUMA node of a machine is no affinity for the kubelet.
        if not (len(step.expected["nrtBefore"]["zones"]) == 1 and wanted == []):
            self.nodes.count(wanted, got, step.place)


def comparable(message: str | None) -> str:
    """A message without its device: if several are short, the kubelet names any of them (a Go map)."""
    return _SHORT_DEVICE.sub("", message or "")


def _zone(zone: Mapping[str, Any]) -> tuple[str, str, Mapping[str, Published], Mapping[str, int]]:
    resources = {
        resource["name"]: Published(*(amount(resource["name"], resource[field]) for field in Published._fields))
        for resource in zone["resources"]
    }
    return zone["type"], zone["name"], resources, {cost["name"]: cost["value"] for cost in zone["costs"]}


def _wanted(container: Mapping[str, Any]) -> dict[str, Any]:
    affinity = container["affinity"]
    return {
        "affinity": None if affinity is None else tuple(affinity),
        "preferred": container["preferred"],
        "cpusPerNuma": container.get("cpusPerNuma", {}),
        "memory": sorted(
            (tuple(block["numaAffinity"]), block["type"], block["size"]) for block in container.get("memory") or ()
        ),
        # Asked for zero devices, a container has none.
        "devices": {name: near for name, near in (container.get("devices") or {}).items() if near != {}},
    }


def _got(held: Held, machine: Machine, random: frozenset[str]) -> dict[str, Any]:
    """The result in the form of the golden data. `random`: devices whose split over NUMA nodes is random."""
    devices: dict[str, Any] = {}
    for name, taken in held.devices.items():
        near = (",".join(map(str, machine.devices[name][device])) or "none" for device in taken)
        devices[name] = None if name in random else dict(Counter(near))
    return {
        "affinity": held.hint.mask,
        "preferred": held.hint.preferred,
        "cpusPerNuma": dict(Counter(str(machine.topology.numa[cpu]) for cpu in held.cpus)),
        "memory": sorted((block.affinity, block.kind, block.size) for block in held.memory),
        "devices": devices,
    }
