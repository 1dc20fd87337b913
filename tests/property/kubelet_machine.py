"""A node whose kubelet, exporter and informers run in any order."""

from __future__ import annotations

import json
from collections import deque
from typing import TYPE_CHECKING, Any

from tests.builders.clusters import put
from tests.builders.nodes import node, nrt
from tests.builders.pods import GATES, SINGLE, plain
from tests.fingerprints import pod_fingerprint
from webhook.admission.binding.decision import Given, guard
from webhook.admission.binding.guard import assumed_pod_of, in_any_order, may_be_joined
from webhook.formats.koordinator.numa_allocation import NUMAAllocation, resource_status_to_json
from webhook.model.names import NUMA_ALLOCATION, NUMA_SIGNATURE, NUMA_TOPOLOGY_SPEC, RESOURCE_STATUS
from webhook.placing.pod.assignment import Assignment, find_assignment
from webhook.placing.pod.binding_pod import BindingPod
from webhook.placing.pod.gated_pods import GatedPod
from webhook.state.cluster_cache import ClusterCache
from webhook.state.rules import Rules

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random


CPUS = 16


NODE = "n"


RULES = Rules()


STEPS = 150


class Machine:
    """One node with its kubelet and its exporter, and the API server's part."""

    def __init__(self, random: Random, zones: int, *, fingerprint: bool) -> None:
        self.random = random
        self.free = [CPUS] * zones
        self.fingerprint = fingerprint
        self.given: dict[str, int] = {}
        self.pods: dict[str, dict[str, Any]] = {}
        self.bound: list[str] = []
        self.allowed: dict[str, dict[str, str]] = {}
        """Annotations of the Bindings that the guard has allowed and the API server has not written, by pod."""
        self.now = 1_000
        self.nrt: dict[str, Any] = {}
        self.told_of_pods: deque[Callable[[], None]] = deque()
        self.told_of_nrts: deque[Callable[[], None]] = deque()
        self.rejected: list[str] = []
        self.ran = 0
        self.recreated = 0
        self.joined = 0
        """Bindings that were allowed while others were in progress."""
        self.in_order = True
        self.start()
        self.scan()
        self.hear_all()

    def start(self) -> None:
        """A replica that knows only the node."""
        self.cache = ClusterCache(clock=lambda: float(_EPOCH + self.now), pods_in_order=lambda: self.in_order)
        put(self.cache, node(name=NODE, cpus=CPUS * len(self.free), memory="1Ti"))

    def restart(self, *, backwards: bool = False) -> None:
        """Another replica lists the objects, in one order or the other."""
        self.hear_all()
        self.start()
        nrt = self.nrt
        self.told_of_nrts.append(lambda: self.cache.node_topologies.upsert(NODE, nrt))
        for name in sorted(self.pods, reverse=backwards):
            if self.pods[name]["status"]["phase"] in {"Pending", "Running"}:
                self.tell(name)
        self.in_order = False
        self.hear_all()
        self.in_order = True

    def hear_all(self) -> None:
        for queue in (self.told_of_pods, self.told_of_nrts):
            while queue:
                queue.popleft()()

    def cpus_of(self, name: str) -> int:
        return int(self.pods[name]["spec"]["containers"][0]["resources"]["requests"]["cpu"])

    def tell(self, name: str) -> None:
        raw = json.loads(json.dumps(self.pods[name]))
        self.told_of_pods.append(lambda: self.cache.pods.upsert(f"default/{name}", raw))

    def create(self) -> None:
        raw = self.new_pod()
        raw["metadata"]["annotations"] = {NUMA_TOPOLOGY_SPEC: SINGLE}
        if self.random.random() < 0.7:
            raw["spec"]["schedulingGates"] = GATES
        self.tell(raw["metadata"]["name"])

    def new_pod(self, name: str = "", cpus: int = 0) -> dict[str, Any]:
        name, cpus = name or f"p{len(self.pods):03}", cpus or self.random.choice((3, 5, 5, 5, 6, 7, 9, 10))
        raw = plain(
            name=name, cpu=cpus, memory="1Mi", metadata={"uid": name, "resourceVersion": "1", "annotations": {}}
        )
        raw["status"] = {"phase": "Pending"}
        self.pods[name] = raw
        return raw

    def place(self) -> None:
        """The controller assigns gated pods."""
        for key, raw in self.cache.gated_pods().items():
            if self.cache.assumed_node(key) is None and self.random.random() < 0.5:
                gated = GatedPod.from_object(raw)
                place = find_assignment(self.cache.snapshot().nodes, gated, RULES, self.cache.assigned)
                if isinstance(place, Assignment):
                    assumed = place.assume(gated, 1e9)
                    self.cache.assume(assumed)
                    mine = self.pods[gated.pod.name]
                    if mine["metadata"]["uid"] != gated.pod.uid:  # the patch names the uid and fails
                        self.cache.forget(assumed)
                        continue
                    del mine["spec"]["schedulingGates"]
                    allocation = place.allocation.to_json()
                    signature = self.cache.sign(gated.pod.uid, allocation)
                    status = resource_status_to_json(place.allocation.numa_nodes)
                    mine["metadata"]["annotations"] |= {
                        NUMA_ALLOCATION: allocation,
                        NUMA_SIGNATURE: signature,
                        RESOURCE_STATUS: status,
                    }
                    self.tell(gated.pod.name)

    def bind(self) -> None:
        """The scheduler, the guard and the API server bind a pod."""
        waiting = [
            name
            for name, raw in self.pods.items()
            if not raw["spec"].keys() & {"nodeName", "schedulingGates"} and name not in self.allowed
        ]
        if not waiting:
            return
        name = self.random.choice(waiting)
        key = f"default/{name}"
        raw = self.cache.waiting_pod(key, self.pods[name]["metadata"]["uid"])
        if raw is None or raw["spec"].get("schedulingGates"):
            raw = json.loads(json.dumps(self.pods[name]))
        if sum(self.cpus_of(other) for other in self.given) + self.cpus_of(name) > CPUS * len(self.free):
            return  # the scheduler sees that
        in_progress = self.cache.bindings_in_progress(NODE, key, 0)
        binding_pod = BindingPod.from_object(raw, RULES)
        verdict = guard(
            binding_pod,
            NODE,
            self.cache.kubelet_admission(NODE, key),
            RULES,
            self.cache.assumed(key, raw["metadata"]["uid"], NODE),
        )
        uid = raw["metadata"]["uid"]
        if not isinstance(verdict, Given) or not in_any_order(verdict, in_progress):
            return
        if in_progress:
            if not may_be_joined(in_progress, binding_pod):
                # It is assigned other NUMA nodes, and gets these only because of what happened since.
                assert binding_pod.allocation is not None
                assert dict(binding_pod.allocation.numa_nodes).keys() != in_progress[0].numa.keys()
                return
            self.joined += 1
        self.cache.assume(assumed_pod_of(verdict, key, uid, 1e9))
        self.allowed[name] = dict(verdict.annotations)

    def write(self) -> None:
        """The API server writes the Bindings in any order."""
        if self.allowed:
            name = self.random.choice(sorted(self.allowed))
            self.pods[name]["metadata"]["annotations"].update(self.allowed.pop(name))
            self.is_written_bound(name)

    def bind_unallocated(self) -> None:
        """The leader has died: an assigned pod is bound without a check."""
        for name, raw in self.pods.items():
            if (
                name not in self.allowed
                and NUMA_ALLOCATION in raw["metadata"]["annotations"]
                and not raw["spec"].keys() & {"nodeName", "schedulingGates"}
            ):
                self.is_written_bound(name)
                return

    def overcommitted(self) -> list[int]:
        """The NUMA nodes for which the allocations of all live pods exceed the capacity.

        A Binding on its way replaces the allocation of its pod: the guard may have found that the kubelet gives another
        one.
        """
        held = [0] * len(self.free)
        for name, raw in self.pods.items():
            allocation = (raw["metadata"]["annotations"] | self.allowed.get(name, {})).get(NUMA_ALLOCATION)
            if allocation is not None and raw["status"]["phase"] in {"Pending", "Running"}:
                for numa_id, _ in NUMAAllocation.parse(allocation).numa_nodes:
                    held[numa_id] += self.cpus_of(name)
        return [numa_id for numa_id, cpus in enumerate(held) if cpus > CPUS]

    def is_written_bound(self, name: str) -> None:
        mine = self.pods[name]
        mine["spec"]["nodeName"] = NODE
        self.bound.append(name)
        mine["status"]["conditions"] = [
            {"type": "PodScheduled", "status": "True", "lastTransitionTime": _time(self.now)}
        ]
        self.tell(name)

    def admit(self) -> None:
        """The kubelet admits the pod that was bound first among those it has not seen."""
        for name in self.bound:
            raw = self.pods[name]
            if raw["status"]["phase"] == "Pending" and name not in self.given:
                room = [zone for zone, free in enumerate(self.free) if free >= self.cpus_of(name)]
                if room:
                    self.free[room[0]] -= self.cpus_of(name)
                    self.given[name] = room[0]
                    self.ran += 1
                    raw["status"] |= {"phase": "Running", "containerStatuses": [{"state": {"running": {}}}]}
                    raw["status"]["startTime"] = _time(self.now)
                else:
                    self.rejected.append(name)
                    raw["status"]["phase"] = "Failed"
                self.tell(name)
                return

    def end(self, name: str = "") -> None:
        if self.given:
            name = name or self.random.choice(sorted(self.given))
            self.free[self.given.pop(name)] += self.cpus_of(name)
            ended = {"terminated": {"finishedAt": _time(self.now)}}
            self.pods[name]["status"] |= {"phase": "Succeeded", "containerStatuses": [{"state": ended}]}
            self.tell(name)

    def recreate(self) -> None:
        """A pod ends if it runs, and is deleted, and its controller creates the next one of its name."""
        if not self.pods:
            return
        name = self.random.choice(list(self.pods))
        if name in self.given:
            self.end(name)
        self.allowed.pop(name, None)  # the API server rejects its Binding, which names the uid
        self.bound = [other for other in self.bound if other != name]
        self.told_of_pods.append(lambda: self.cache.pods.delete(f"default/{name}"))
        recreated = self.new_pod(name, self.cpus_of(name))
        self.recreated += 1
        recreated["metadata"]["uid"] = f"{name}-{self.recreated}"
        recreated["metadata"]["annotations"] = {NUMA_TOPOLOGY_SPEC: SINGLE}
        if self.random.random() < 0.7:
            recreated["spec"]["schedulingGates"] = GATES
        self.tell(name)

    def scan(self) -> None:
        attributes = {}
        if self.fingerprint:
            attributes["nodeTopologyPodsFingerprint"] = pod_fingerprint(("default", name) for name in self.given)
        metadata = {"managedFields": [{"time": _time(self.now), "fieldsV1": {"f:zones": {}}}]}
        raw = nrt(node=NODE, free=self.free, cpus=CPUS, memory=None, attributes=attributes, metadata=metadata)
        self.nrt = raw
        self.told_of_nrts.append(lambda: self.cache.node_topologies.upsert(NODE, raw))

    def hear(self) -> None:
        queue = self.random.choice((self.told_of_pods, self.told_of_pods, self.told_of_nrts))
        if queue:
            queue.popleft()()

    def pass_time(self) -> None:
        self.now += self.random.choice((0, 1))


_EPOCH = 1_767_225_600  # 2026-01-01T00:00:00Z


def _time(seconds: int) -> str:
    return f"2026-01-01T{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}Z"


def weights_of(machine: Machine) -> dict[Callable[[], None], int]:
    return {
        machine.create: 3,
        machine.place: 3,
        machine.bind: 6,
        machine.write: 6,
        machine.admit: 6,
        machine.end: 2,
        machine.scan: 1,
        machine.hear: 20,
        machine.pass_time: 2,
    }
