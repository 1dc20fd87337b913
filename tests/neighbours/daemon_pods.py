"""The pods of an exporter's DaemonSet: on each machine one, in which nothing runs.

For each, a process with the pod's arguments and environment runs here.
"""

from __future__ import annotations

import copy
from functools import partial
from typing import TYPE_CHECKING, Any

from tests.neighbours.manifests import Manifests

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from tests.cluster.control_plane import ControlPlane
    from tests.cluster.kubelets import SimulatedMachine


class DaemonPods:
    """Those of the only DaemonSet of some manifests."""

    def __init__(self, plane: ControlPlane, manifests: Manifests) -> None:
        (raw,) = manifests.of_kind("DaemonSet")
        self._raw = without_privileges(raw)
        self._plane = plane
        self.namespace: str = self._raw["metadata"].get("namespace", "default")
        labels = self._raw["spec"]["selector"]["matchLabels"].items()
        selector = ",".join(f"{name}={value}" for name, value in labels)
        self._path = f"/api/v1/namespaces/{self.namespace}/pods"
        self._listed = f"{self._path}?labelSelector={selector}"
        self.container: Mapping[str, Any] = self._raw["spec"]["template"]["spec"]["containers"][0]
        """The one with the exporter."""
        self.names: Mapping[str, str] = {}
        """Machine -> its pod, after `start`."""

    def start(self, machines: Sequence[SimulatedMachine]) -> None:
        """Create the DaemonSet and wait until its pods run."""
        Manifests((self._raw,)).install_kinds(self._plane, "DaemonSet")
        self.names = self._plane.wait_for("the DaemonSet's pods", partial(self._running, machines))

    def environment(self, machine: str) -> dict[str, str]:
        """That of the exporter, with what fields of the machine's pod give."""
        return dict(self._environment(machine))

    def conditions(self, machine: str) -> dict[str, str]:
        """Those of the machine's pod: type -> status."""
        raw = self._plane.api.get(f"{self._path}/{self.names[machine]}")
        return {each["type"]: each["status"] for each in raw["status"]["conditions"]}

    def stop(self) -> None:
        """Delete the DaemonSet and wait for the end of its pods, which must go before their machines."""
        name = self._raw["metadata"]["name"]
        self._plane.kubectl("delete", "--namespace", self.namespace, "--ignore-not-found", "daemonset", name)
        self._plane.wait_for("the end of the DaemonSet's pods", lambda: not self._plane.api.get(self._listed)["items"])

    def _running(self, machines: Sequence[SimulatedMachine]) -> dict[str, str]:
        """Machine -> its pod, once all run."""
        pods = [each for each in self._plane.api.get(self._listed)["items"] if each["status"].get("phase") == "Running"]
        found = {each["spec"]["nodeName"]: each["metadata"]["name"] for each in pods}
        return found if found.keys() >= {machine.name for machine in machines} else {}

    def _environment(self, machine: str) -> Iterator[tuple[str, str]]:
        fields = {
            "spec.nodeName": machine,
            "metadata.namespace": self.namespace,
            "metadata.name": self.names[machine],
        }
        for each in self.container["env"]:
            source = each.get("valueFrom", {}).get("fieldRef", {}).get("fieldPath")
            yield each["name"], fields[source] if source else each["value"]


def without_privileges(raw: Mapping[str, Any]) -> dict[str, Any]:
    """The DaemonSet with pods that the test's API server admits: nothing runs in them, so they need no folders."""
    changed: dict[str, Any] = copy.deepcopy(dict(raw))
    spec = changed["spec"]["template"]["spec"]
    spec.pop("volumes", None)
    for container in spec["containers"]:
        container.pop("securityContext", None)
        container.pop("volumeMounts", None)
    return changed
