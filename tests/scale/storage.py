"""What the synthetic API server stores: the objects, their versions, and the watches that follow them."""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from collections import defaultdict, deque
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from tests.scale.fleet import NAMESPACES, EqualMachines, namespace_of, node_name, node_number
from tests.scale.objects import NICS, TOPOLOGY, FixedPodTexts, TopologyTexts, listing, node_template
from webhook.codec import dumps
from webhook.model.names import NUMA_ALLOCATION

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from webhook.model.raw import Draft

NODES, TOPOLOGIES, PODS = "nodes", "noderesourcetopologies", "pods"
_FIRST_VERSION: Final = 1000
_NODES_PER_RACK: Final = 16


class Watch:
    """One open watch: lines that wait to be sent."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self.filled = asyncio.Event()

    def send(self, line: bytes) -> None:
        self.lines.append(line)
        self.filled.set()

    async def next(self) -> bytes:
        """What waits, once there is something."""
        await self.filled.wait()
        self.filled.clear()
        lines, self.lines = self.lines, []
        return b"".join(lines)


class Storage:
    """The cluster as the API server has it."""

    def __init__(self, fleet: EqualMachines) -> None:
        self.fleet = fleet
        self.created: dict[str, Draft] = {}
        """The pods that came after the start, by namespace/name."""
        self.watches: dict[str, list[Watch]] = defaultdict(list)
        self.sent: dict[str, deque[tuple[int, float]]] = defaultdict(deque)
        """(version, moment) of the events of each kind that the service may not have processed yet."""
        self.changed: Callable[[str, Draft], None] = lambda _key, _pod: None
        """Called with each changed pod."""
        self._versions = itertools.count(_FIRST_VERSION)
        self._node_text = node_template(fleet)
        self._topology_texts = TopologyTexts(fleet)
        self._pod_texts = FixedPodTexts()
        self._nics = NICS
        self._on_node: dict[int, dict[str, int]] = defaultdict(dict)

    def pages(self, plural: str, start: int, limit: int) -> bytes:
        """One page of a LIST."""
        texts: dict[str, tuple[int, Callable[[int], str]]] = {
            NODES: (self.fleet.nodes, self.node),
            TOPOLOGIES: (self.fleet.nodes, self.topology),
            PODS: (self.fleet.pods, lambda number: self._pod_texts.text(self.fleet.fixed_pod(number))),
            "namespaces": (NAMESPACES, lambda number: dumps({"metadata": {"name": namespace_of(number)}}).decode()),
            "topologies": (1, lambda _: dumps(TOPOLOGY).decode()),
        }
        count, text = texts.get(plural, (0, lambda _: ""))
        end = min(start + limit, count)
        return listing(map(text, range(start, end)), _FIRST_VERSION, str(end) if end < count else "")

    def node(self, node: int, version: int = 1) -> str:
        """A Node object."""
        rack = node // _NODES_PER_RACK
        return self._node_text.fill(
            NAME=node_name(node),
            UID=f"node-uid-{node}",
            VERSION=str(version),
            RACK=str(rack),
            BLOCK=str(rack // _NODES_PER_RACK),
            TIME=_now(),
        )

    def topology(self, node: int, version: int = 1) -> str:
        """A NodeResourceTopology as of now."""
        fixed = self.fleet.fixed_pods_on(node)
        pods = [(pod.namespace, pod.name) for pod in fixed]
        used = [0] * self.fleet.zones
        for pod in fixed:
            if pod.numa_id is not None:
                used[pod.numa_id] += 1
        for key, numa_id in self._on_node.get(node, {}).items():
            namespace, _, name = key.partition("/")
            pods.append((namespace, name))
            used[numa_id] += 1
        return self._topology_texts.text(node, version, _now(), pods, used, self._nics)

    def update_node(self, node: int) -> None:
        """Publish a heartbeat."""
        version = next(self._versions)
        self._publish(NODES, "MODIFIED", version, self.node(node, version))

    def update_topology(self, node: int) -> None:
        """Publish the NRT of a node, whether or not anything but its timestamps has changed."""
        version = next(self._versions)
        self._publish(TOPOLOGIES, "MODIFIED", version, self.topology(node, version))

    def put_pod(self, key: str, pod: Draft) -> Draft:
        """Create or change a pod. Returns the object as stored."""
        version = next(self._versions)
        kind = "MODIFIED" if key in self.created else "ADDED"
        pod["metadata"]["resourceVersion"] = str(version)
        self.created[key] = pod
        self._publish(PODS, kind, version, dumps(pod).decode())
        self.changed(key, pod)
        return pod

    def delete_pod(self, key: str) -> None:
        """Delete a pod, and free what it holds."""
        pod = self.created.pop(key)
        node = pod["spec"].get("nodeName")
        if node:
            self._on_node[node_number(node)].pop(key, None)
        version = next(self._versions)
        pod["metadata"]["resourceVersion"] = str(version)
        self._publish(PODS, "DELETED", version, dumps(pod).decode())

    def bind_pod(self, key: str, node: str, annotations: dict[str, str]) -> None:
        """Bind a pod, with the annotations that the Binding has."""
        pod = self.created[key]
        pod["metadata"]["annotations"] |= annotations
        pod["spec"]["nodeName"] = node
        bound = {"type": "PodScheduled", "status": "True", "lastTransitionTime": _now()}
        pod["status"].setdefault("conditions", []).append(bound)
        allocation = json.loads(annotations.get(NUMA_ALLOCATION, "{}")).get("numaNodeResources") or [{"node": 0}]
        self._on_node[node_number(node)][key] = allocation[0]["node"]
        self.put_pod(key, pod)

    def bookmark(self) -> None:
        """Send a bookmark on every watch."""
        line = f'{{"type":"BOOKMARK","object":{{"metadata":{{"resourceVersion":"{next(self._versions)}"}}}}}}\n'
        for watch in itertools.chain.from_iterable(self.watches.values()):
            watch.send(line.encode())

    def change_free_devices(self) -> None:
        """Change the free amount of a device on all nodes: the next NRT of each node differs from its last one."""
        self._nics = NICS - 1 if self._nics == NICS else NICS

    def behind(self, plural: str, version: int, at: float) -> Iterator[float]:
        """How long, at this moment, each event has been under way that was processed since the last call.

        The last one is the age of the oldest event that was sent before and is not processed; 0 if there is none.
        """
        sent = self.sent[plural]
        while sent and sent[0][0] <= version:
            yield max(0.0, at - sent.popleft()[1])
        yield max(0.0, at - sent[0][1]) if sent else 0.0

    def _publish(self, plural: str, kind: str, version: int, text: str) -> None:
        self.sent[plural].append((version, time.monotonic()))
        line = f'{{"type":"{kind}","object":{text}}}\n'.encode()
        for watch in self.watches[plural]:
            watch.send(line)


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
