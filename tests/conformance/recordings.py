"""The check of what real kubelets answered: against the simulated kubelet, and against the engine's prediction.

1. The simulated kubelet plays the same sequence. It must give the same verdict, reason and message, and each container
   the same CPUs, blocks of memory and devices. Of equal devices a kubelet takes any: the same ones are taken there.
2. The engine predicts each pod from the NodeResourceTopology just before it, and from the pods on the node with their
   hints, as at a binding. It must give the same verdict, and the pod the same amounts on each NUMA node.

After a difference the machine's state is another one, so what follows is not compared with what differed.
A pod is *hidden* if it is predicted to be admitted and the kubelet refuses it because of what the node's objects do not
show: which NUMA nodes hold memory together (docs/unknowns.md).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tests.builders.nodes import node
from tests.cluster.assets import find_assets
from tests.cluster.kubelets import cpu_list
from tests.cluster.replay import answers, differences
from tests.cluster.toolchain import parse_version
from tests.cluster.versions import SIMULATED
from tests.conformance.floors import FLOORS
from tests.conformance.kubelet import comparable
from tests.conformance.plugin import NO_INTENT
from tests.conformance.reference import AFFINITY, ALLOCATION, MEMORY_MANAGER, SMT
from tests.conformance.tally import ReportLine
from tests.unit.engine.whole_way import whole_way
from webhook.engine.decide import Decision, decide
from webhook.engine.reason import REASONS, Reason
from webhook.engine.snapshot.cluster_state import ClusterState
from webhook.engine.snapshot.node_sums import NodeSums
from webhook.engine.snapshot.single_node import node_alone
from webhook.formats.koordinator.numa_allocation import NUMAAllocation
from webhook.formats.kubernetes.node import Node
from webhook.formats.kubernetes.pod import Pod
from webhook.formats.kubernetes.resident import ResidentPod
from webhook.formats.nrt import NodeTopology
from webhook.model.names import KUBELET_OPTIONS, NUMA_ALLOCATION
from webhook.model.resources import CPU

Case = Mapping[str, Any]
Amounts = dict[int, dict[str, int]]
"""NUMA id -> resource -> amount in engine units."""

_REASONS: Final = {
    Reason.NO_SINGLE_NUMA_NODE: {AFFINITY},
    Reason.NOT_ALIGNED: {AFFINITY},
    Reason.ALLOCATION_FAILS: {ALLOCATION, SMT},
    Reason.NOT_WHOLE_CORES: {SMT, AFFINITY, ALLOCATION},
    Reason.TOO_FEW_CORES: {SMT, AFFINITY, ALLOCATION},
}
"""The kubelet's words for a reason. It aligns first and counts the whole node last, so a sum that does not suffice may
have any."""
_RESTRICTED: Final = {AFFINITY, ALLOCATION}
"""With this policy the hint may be refused, or what it allows may fail: which one it is hangs on hidden state."""
_UNCORE: Final = "prefer-align-cpus-by-uncorecache"
_NAME: Final = "node"
_ANYWHERE: Final = -1
"""Instead of a NUMA id."""


def check(cases: Sequence[Case]) -> list[ReportLine]:
    """All pods of all machines. Builds the simulated kubelet if it is not there."""
    text = "".join(json.dumps(case) + "\n" for case in cases)
    played = answers(find_assets(_tell)["kubelets"], text.encode())
    report = _Report()
    for case, answer in zip(cases, played, strict=True):
        report.add(case, answer["pods"])
    return report.tallies()


def _tell(line: str) -> None:
    sys.stderr.write(f"==> {line}\n")


class _Report:
    def __init__(self) -> None:
        floor = FLOORS["recordings"]
        self.verdicts = ReportLine("  simulated kubelet: verdict, reason and message", floor)
        self.containers = ReportLine("  simulated kubelet: CPUs, memory and devices of containers", floor)
        self.kept = ReportLine("  simulated kubelet: which pods run on when a kubelet starts again", floor)
        self.fits = ReportLine("  engine: verdict", floor)
        self.reasons = ReportLine("  engine: reason", floor)
        self.amounts = ReportLine("  engine: amounts on each NUMA node", floor)
        self.hidden = self.joined = 0
        self.pods = 0

    def tallies(self) -> list[ReportLine]:
        if self.hidden:
            self.fits.note = f"({self.hidden} more admitted wrongly: hidden from NRT and pods)"
        if self.joined:
            self.amounts.note = f"({self.joined} more with best-effort, where NUMA nodes hold memory together)"
        parts = [self.verdicts, self.containers, self.kept, self.fits, self.reasons, self.amounts]
        whole = ReportLine(
            "", FLOORS["recordings"], sum(part.agree for part in parts), sum(part.total for part in parts)
        )
        whole.note = f"of {self.pods} pods"
        return [whole, *parts]

    def add(self, case: Case, played: Sequence[Case]) -> None:
        machine = _Machine(case)
        for raw, recorded, answer in zip(case["pods"], case["expect"]["pods"], played, strict=True):
            name = recorded["pod"]
            for gone in (*case.get("remove", {}).get(name, ()), *case.get("lost", {}).get(name, ())):
                machine.residents.pop(gone, None)
            self.pods += 1
            place = f"{case['id']} {name}"
            same = self._compare_played(place, machine, recorded, answer)
            decision = self._compare_predicted(place, machine, raw, recorded, answer)
            if not same:
                return
            if recorded["admit"]:
                self.kept.count(recorded.get("lost"), answer.get("lost"), place)
                machine.admit(raw, recorded, decision)

    def _compare_played(self, place: str, machine: _Machine, recorded: Case, answer: Case) -> bool:
        told = ("admit", "reason", "message") if machine.same_words else ("admit", "reason")
        verdict = {name: recorded[name] for name in told if name in recorded}
        said = {name: answer.get(name) for name in verdict}
        for one in (verdict, said):
            if "message" in one:
                one["message"] = comparable(one["message"])
        same = self.verdicts.count(verdict, said, place)
        for one, other in zip(recorded.get("containers", ()), answer.get("containers", ()), strict=False):
            wanted = {name: value for name, value in one.items() if value}
            if not machine.knows_devices:
                wanted.pop("devices", None)
            found = list(differences(f"{place} {one['name']}", wanted, other))
            found += [
                f"{place} {one['name']} {name}: only replayed"
                for name in _GIVEN
                if other.get(name) and not one.get(name)
            ]
            self.containers.note_one(agrees=not found, disagreement="; ".join(found))
            same = same and not found
        return same

    def _compare_predicted(self, place: str, machine: _Machine, raw: Case, recorded: Case, answer: Case) -> Decision:
        decision = machine.decide(raw, answer["nrtBefore"])
        fits, admitted = bool(decision.fits[0]), bool(recorded["admit"])
        reason = REASONS[int(decision.reason[0])]
        if reason in {Reason.NO_SINGLE_NUMA_NODE, Reason.NOT_ALIGNED}:
            # The short way does not ask which manager would have said no.
            reason = whole_way(decision.snapshot, decision.request, 0)[0]
        if fits and not admitted and machine.hides(raw, recorded):
            self.hidden += 1
            return decision
        self.fits.count({"admit": admitted}, {"admit": fits}, f"{place}: {recorded.get('reason', '')} {reason.code}")
        if not fits and not admitted and reason in _REASONS:
            words = _REASONS[reason] | (_RESTRICTED if machine.restricted else set())
            self.reasons.note_one(
                agrees=recorded["reason"] in words,
                disagreement=f"{place}: expected {recorded['reason']}, got {reason.code}",
            )
        # Where nothing aligns the kubelet's managers, they choose for themselves, and the pod has no hint.
        if fits and admitted and machine.best_effort_joined:
            self.joined += 1
        elif fits and admitted and machine.aligns:
            _compare_amounts(self.amounts, place, machine, raw, recorded, decision)
        return decision


@dataclass
class _Machine:
    """A machine as the cluster's objects show it."""

    case: Case

    def __post_init__(self) -> None:
        machine = self.case["machine"]
        # What the kubelet showed of itself; recordings of its managers alone may ask for more than the machine has.
        allocatable = self.case.get("node", {}).get("allocatable") or {
            "cpu": "1000", "memory": "1Ti", "pods": "1000", "hugepages-2Mi": "1Ti", "hugepages-1Gi": "1Ti",
            **{resource: str(len(devices)) for resource, devices in machine["devices"].items()},
        }  # fmt: skip
        options = {**machine.get("cpuOptions", {}), **machine.get("options", {})}
        stated = [f"{name}={value}" for name, value in options.items()]  # as an operator does (docs/annotations.md)
        stated.append(f"threads-per-core={machine['numa'][0].get('threadsPerCore', 1)}")
        raw = node(name=_NAME)
        raw["status"]["allocatable"] = allocatable
        raw["metadata"]["annotations"] = {KUBELET_OPTIONS: ",".join(stated)}
        self.node = Node.from_object(raw)
        self.residents: dict[str, Mapping[str, Any]] = {}
        self.admitted = 0
        self.joined = False
        """Whether a pod has had memory on several NUMA nodes."""

    @property
    def aligns(self) -> bool:
        """Whether its kubelet aligns its managers."""
        return bool(self.case["machine"]["policy"] != "none")

    @property
    def same_words(self) -> bool:
        """Whether its kubelet is of the simulated one's version: some messages of others are in other words."""
        kubelet = self.case.get("kubelet")
        return kubelet is None or ".".join(map(str, parse_version(kubelet)[:2])) == SIMULATED

    @property
    def unseen(self) -> list[str]:
        """What the objects do not show the pieces of: over several NUMA nodes, how many come from each is not known.

        Of devices a kubelet takes any; of CPUs it takes whole cores or L3 caches first.
        """
        return [*self.case["machine"]["devices"], *([CPU] if self.groups_cpus else [])]

    @property
    def groups_cpus(self) -> bool:
        """Whether its kubelet prefers whole cores of several threads, or CPUs of one L3 cache."""
        machine = self.case["machine"]
        return machine["numa"][0].get("threadsPerCore", 1) > 1 or _UNCORE in machine.get("cpuOptions", {})

    @property
    def best_effort_joined(self) -> bool:
        """Whether NUMA nodes may hold memory together that are not followed (docs/unknowns.md)."""
        return bool(self.joined and self.case["machine"]["policy"] == "best-effort")

    def keeps_init_cpus(self, raw: Case) -> bool:
        """Whether containers may be given other CPUs than those of an init container, which the pod then keeps.

        Else they take the init container's first.
        """
        inits = raw["spec"].get("initContainers", ())
        return self.groups_cpus and any(
            "restartPolicy" not in one and CPU in one["resources"].get("limits", {}) for one in inits
        )

    @property
    def restricted(self) -> bool:
        """Whether its policy is restricted."""
        return bool(self.case["machine"]["policy"] == "restricted")

    @property
    def knows_devices(self) -> bool:
        """Whether the devices that each container got follow from the recording, and not from chance."""
        return "deviceIDs" in self.case or self.case["machine"]["policy"] == "single-numa-node"

    def decide(self, raw: Case, nrt: Case) -> Decision:
        """The engine's decision on a pod, as when it is bound to the machine."""
        state = ClusterState()
        state.upsert_node(self.node)
        state.upsert_topology(NodeTopology.from_object({**nrt, "metadata": {"name": _NAME}}))
        residents = [ResidentPod.from_object(pod) for pod in self.residents.values()]
        for resident in residents:
            state.upsert_pod(resident)
        alone = node_alone(state.node_arrays(), _NAME, residents)
        assert alone is not None
        unbound = {**raw, "spec": {**raw["spec"], "nodeName": None}}
        return decide(alone.snapshot(NodeSums()), Pod.from_object(unbound), NO_INTENT)

    def admit(self, raw: Case, recorded: Case, decision: Decision) -> None:
        """Keep an admitted pod with its hint: what it has, or if the recording does not tell, what is predicted."""
        metadata, spec = raw["metadata"], {**raw["spec"], "nodeName": _NAME}
        self.joined |= any(len(block["numaAffinity"]) > 1 for block in _blocks(recorded))
        amounts = self.amounts(recorded)
        annotations = {}
        if self.aligns and (amounts is not None or decision.fits[0]):
            hint = decision.allocation(0) if amounts is None else tuple(sorted(amounts.items()))
            annotations[NUMA_ALLOCATION] = NUMAAllocation(_NAME, hint).to_json()
        self.admitted += 1  # in this order
        at = f"2026-01-01T{self.admitted // 60:02}:{self.admitted % 60:02}:00Z"
        status = {"phase": "Running", "startTime": at}
        metadata = {**metadata, "annotations": annotations, "creationTimestamp": at}
        self.residents[metadata["name"]] = {**raw, "metadata": metadata, "spec": spec, "status": status}

    def amounts(self, recorded: Case) -> Amounts | None:
        """What an admitted pod took of each NUMA node; None if the recording does not tell."""
        if not self.case.get("wholeKubelet"):
            return None  # it has no lists of CPUs and devices, and init containers share theirs
        found: Amounts = {}

        def add(numa: int, resource: str, count: int) -> None:
            there = found.setdefault(numa, {})
            there[resource] = there.get(resource, 0) + count

        cpus_of_numa = self.case["machine"]["numa"][0]["cpus"]
        cpus = {cpu for one in recorded["containers"] for cpu in cpu_list(one.get("cpuList", ""))}
        for cpu in cpus:
            add(cpu // cpus_of_numa, CPU, 1000)
        for block in _blocks(recorded):
            if len(block["numaAffinity"]) > 1:
                return None
            add(block["numaAffinity"][0], block["type"], block["size"])
        uid = next(pod["metadata"]["uid"] for pod in self.case["pods"] if pod["metadata"]["name"] == recorded["pod"])
        devices = {
            (resource, device)
            for resources in self.case.get("deviceIDs", {}).get(uid, {}).values()
            for resource, ids in resources.items()
            for device in ids
        }
        for resource, device in devices:
            near = self.case["machine"]["devices"][resource][device]
            if len(near) > 1:
                return None
            if near:
                add(near[0], resource, 1)
        return {numa: {name: size for name, size in there.items() if size} for numa, there in found.items()}

    def hides(self, raw: Case, recorded: Case) -> bool:
        """Whether a rejection may come from CPUs that an init container keeps, or from NUMA nodes kept together."""
        if recorded["reason"] == SMT:
            return self.keeps_init_cpus(raw)
        if recorded["reason"] == ALLOCATION:
            return MEMORY_MANAGER in recorded["message"]
        return bool(recorded["reason"] == AFFINITY and self.joined)


def _blocks(recorded: Case) -> list[Case]:
    return [block for one in recorded["containers"] for block in one.get("memory") or ()]


_GIVEN: Final = ("cpusPerNuma", "memory", "devices")


def _compare_amounts(
    tally: ReportLine, place: str, machine: _Machine, raw: Case, recorded: Case, decision: Decision
) -> None:
    taken = machine.amounts(recorded)
    got = {numa: dict(amounts) for numa, amounts in decision.allocation(0)}
    if not got and "distribute-cpus-across-numa" in machine.case["machine"].get("cpuOptions", {}):
        return  # nothing is said of pods whose CPUs are not taken packed
    if taken is not None:
        if machine.keeps_init_cpus(raw):
            for amounts in (*taken.values(), *got.values()):
                amounts.pop(CPU, None)
        wanted, predicted = _without_hidden(machine.unseen, taken, got)
        tally.count(wanted, predicted, place)


def _without_hidden(resources: Iterable[str], *both: Amounts) -> list[Amounts]:
    """Several amounts of a pod, in which those of some resources are added up if it is on several NUMA nodes."""
    spread = list(resources) if len({numa for one in both for numa in one}) > 1 else []
    told = []
    for one in both:
        sums = {name: total for name in spread if (total := sum(there.get(name, 0) for there in one.values()))}
        rest = {numa: {name: size for name, size in there.items() if name not in sums} for numa, there in one.items()}
        found = {numa: there for numa, there in sorted(rest.items()) if there}
        told.append({**found, **({_ANYWHERE: sums} if sums else {})})
    return told
