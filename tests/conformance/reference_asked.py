"""What the containers of a pod, and the pod as a whole, request from the managers of one machine.

Source: kubernetes pkg/kubelet/cm, the request helpers of the cpu, memory and device managers.
"""

from collections.abc import Mapping, Sequence

from tests.conformance.reference_machine import Machine
from webhook.formats.kubernetes.pod import Container, ContainerKind, Pod, QoS
from webhook.model.resources import CPU, MEMORY, is_hugepages


class Asked:
    """One pod's requests."""

    def __init__(self, machine: Machine, pod: Pod) -> None:
        self.machine = machine
        self.pod = pod
        self.guaranteed = pod.qos is QoS.GUARANTEED and pod.pod_level is None

    def cpus(self, container: Container) -> int:
        """Whole, exclusive CPUs."""
        cpu = container.requests.get(CPU, 0)
        return cpu // 1000 if self.guaranteed and cpu % 1000 == 0 else 0

    def memory(self, container: Container) -> dict[str, int]:
        """Memory and huge pages in bytes."""
        if not self.guaranteed:
            return {}
        return {name: size for name, size in container.requests.items() if name == MEMORY or is_hugepages(name)}

    def devices(self, container: Container) -> dict[str, int]:
        """Devices of kinds that the machine has."""
        return {name: count for name, count in container.limits.items() if name in self.machine.devices}

    def pod_cpus(self) -> int:
        """Whole CPUs of the whole pod."""
        return self._peak([({CPU: self.cpus(container)}, container) for container in self.pod.containers])[CPU]

    def pod_memory(self) -> dict[str, int]:
        """Memory and huge pages of the whole pod, of the kinds that its apps name."""
        peak = self._peak([(self.memory(container), container) for container in self.pod.containers])
        in_apps = {
            name
            for container in self.pod.containers
            if container.kind is ContainerKind.APP
            for name in self.memory(container)
        }
        return {name: size for name, size in peak.items() if name in in_apps}

    def pod_devices(self) -> dict[str, int]:
        """Devices of the whole pod."""
        return self._peak([(self.devices(container), container) for container in self.pod.containers])

    @staticmethod
    def _peak(asked: Sequence[tuple[Mapping[str, int], Container]]) -> dict[str, int]:
        """max(apps + sidecars, each init container + the sidecars before it)."""
        running: dict[str, int] = {}
        peak: dict[str, int] = {}
        sidecars: dict[str, int] = {}
        for amounts, container in asked:
            for name, count in amounts.items():
                if container.kind is ContainerKind.INIT:
                    peak[name] = max(peak.get(name, 0), count + sidecars.get(name, 0))
                else:
                    running[name] = running.get(name, 0) + count
                if container.kind is ContainerKind.SIDECAR:
                    sidecars[name] = sidecars.get(name, 0) + count
        return {name: max(running.get(name, 0), peak.get(name, 0)) for name in {**running, **peak}}
