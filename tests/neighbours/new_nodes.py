"""What happens to the Nodes that an autoscaler adds: their machines boot, and later their exporters publish.

Nobody runs kwok's own controller here. Life cycle of a Node of a group:
1. The autoscaler's cloud provider creates the object, with the taint of a Node that is not ready.
2. `boot` seconds later its kubelet is ready: the condition is written and the taint goes.
3. `exporter` seconds later, and not before `exporting` is set, the exporter publishes the first NodeResourceTopology.
   From here on the simulated kubelet (tests/cluster/kubelets.py) admits or rejects the pods that are bound.
"""

from __future__ import annotations

import contextlib
import datetime
import threading
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from tests.cluster.api import ApiError
from tests.cluster.kubelets import Kubelets, SimulatedMachine, kubelets
from tests.cluster.nodes import NODES, delete_nodes
from tests.neighbours.node_groups import GROUP_LABEL, NOT_READY, GroupOfMachines, nodes_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tests.cluster.control_plane import ControlPlane

POLL_SECONDS = 0.2


class BootedNodes:
    """The Nodes of some groups. Use `booting()`."""

    def __init__(
        self,
        plane: ControlPlane,
        groups: Sequence[GroupOfMachines],
        *,
        boot: float,
        exporter: float,
        lag: float,
        seed: int,
        publisher: str,
    ) -> None:
        self._plane = plane
        self._groups = {group.name: group for group in groups}
        self._boot, self._exporter, self._lag, self._seed = boot, exporter, lag, seed
        self._publisher = publisher
        self._seen: dict[str, float] = {}
        self._ready: dict[str, float] = {}
        self._running: dict[str, Kubelets] = {}
        self._ended = threading.Event()
        self._error: BaseException | None = None
        self._stack = ExitStack()
        self.exporting = threading.Event()
        """Whether exporters may publish."""
        self.exporting.set()

    def seen(self) -> dict[str, float]:
        """Node -> when it was first seen, in seconds of `time.monotonic`; also those that are gone."""
        self._require()
        return dict(self._seen)

    def ready(self) -> set[str]:
        """The Nodes whose kubelet is ready."""
        self._require()
        return set(self._ready)

    def publishing(self) -> set[str]:
        """The Nodes with a NodeResourceTopology and a kubelet that admits pods."""
        self._require()
        return set(self._running)

    def events(self, kind: str) -> list[dict[str, Any]]:
        """The events of one kind of all their kubelets."""
        self._require()
        return [
            event for each in {id(one): one for one in self._running.values()}.values() for event in each.events(kind)
        ]

    def follow(self) -> None:
        """Do what is due, until `end`."""
        try:
            while not self._ended.wait(POLL_SECONDS):
                self._step()
        except Exception as error:  # noqa: BLE001 - raised where the test asks
            self._error = error

    def end(self) -> None:
        self._ended.set()

    def close(self) -> None:
        """End the kubelets and delete the Nodes and NodeResourceTopologies."""
        self._stack.close()
        delete_nodes(self._plane.api, [*self._seen])

    def _step(self) -> None:
        now = time.monotonic()
        nodes = nodes_of(self._plane, list(self._groups.values()))
        for name, node in nodes.items():
            first = self._seen.setdefault(name, now)
            # Karpenter writes the taint only when it has registered the Node, which may be after its kubelet is ready.
            is_due = name not in self._ready or any(taint["key"] == NOT_READY for taint in _taints(node))
            if is_due and now >= first + self._boot and self._make_ready(node):
                self._ready.setdefault(name, now)
        due = [
            name
            for name, ready in self._ready.items()
            if name in nodes and name not in self._running and now >= ready + self._exporter
        ]
        if due and self.exporting.is_set():
            fleet = [self._machine(nodes[name]) for name in due]
            # those that came together share a process
            number = len(self._running)
            running = self._stack.enter_context(
                kubelets(self._plane, fleet, lag=self._lag, seed=self._seed + number, publisher=self._publisher)
            )
            self._running.update(dict.fromkeys(due, running))

    def _machine(self, node: dict[str, Any]) -> SimulatedMachine:
        return self._groups[node["metadata"]["labels"][GROUP_LABEL]].machine(node["metadata"]["name"])

    def _make_ready(self, node: dict[str, Any]) -> bool:
        """Write what the kubelet of a Node writes when it is ready. Whether the Node was still there and unchanged."""
        name, now = node["metadata"]["name"], datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        ready = {
            "type": "Ready",
            "status": "True",
            "reason": "KubeletReady",
            "message": "kubelet is posting ready status",
            "lastHeartbeatTime": now,
            "lastTransitionTime": now,
        }
        taints = [taint for taint in _taints(node) if taint["key"] != NOT_READY]
        version = node["metadata"]["resourceVersion"]
        labels = {"kubernetes.io/hostname": name}
        try:
            changed = self._plane.api.patch(
                f"{NODES}/{name}",
                {"metadata": {"labels": labels, "resourceVersion": version}, "spec": {"taints": taints or None}},
            )
            version = changed["metadata"]["resourceVersion"]
            self._plane.api.patch(
                f"{NODES}/{name}/status",
                {"metadata": {"resourceVersion": version}, "status": {"conditions": [ready]}},
            )
        except ApiError as error:
            if error.status not in (404, 409):
                raise
            return False
        return True

    def _require(self) -> None:
        if self._error is not None:
            raise self._error


def _taints(node: dict[str, Any]) -> list[dict[str, Any]]:
    return list(node["spec"].get("taints") or ())


@contextlib.contextmanager
def booting(
    plane: ControlPlane,
    groups: Sequence[GroupOfMachines],
    *,
    boot: float = 1.0,
    exporter: float = 1.0,
    lag: float = 1.0,
    seed: int = 0,
    publisher: str = "rte",
) -> Iterator[BootedNodes]:
    """Boot the machines of these groups' Nodes within this context. On exit they are deleted.

    boot, exporter: seconds of the steps above. lag, seed, publisher: of the exporters, as for `kubelets`.
    """
    nodes = BootedNodes(plane, groups, boot=boot, exporter=exporter, lag=lag, seed=seed, publisher=publisher)
    thread = threading.Thread(target=nodes.follow, name="new nodes", daemon=True)
    thread.start()
    try:
        yield nodes
    finally:
        nodes.end()
        thread.join()
        nodes.close()
