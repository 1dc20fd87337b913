"""What a kubelet's managers allocate to a pod on particular NUMA nodes, container by container.

- CPUs: exclusively, for containers of Guaranteed pods that request whole CPUs.
- Memory and huge pages: for Guaranteed pods.
- Devices: for every pod.
- With pod-level resources neither CPUs nor memory are aligned (PodLevelResourceManagers is off by default).

Source: kubernetes pkg/kubelet/cm/{cpumanager,memorymanager}/policy_static.go, devicemanager/topology_hints.go.
"""

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass

from webhook.engine.request import PodRequest
from webhook.engine.snapshot.resource_index import ResourceIndex
from webhook.formats.kubernetes.pod import ContainerKind, QoS
from webhook.formats.kubernetes.resident import ResidentPod
from webhook.model.resources import CPU, is_device, is_memory


@dataclass(frozen=True, slots=True)
class Share:
    """What one container, or the pod as a whole, requests from the managers. Keys are rows of the engine's arrays."""

    kind: ContainerKind
    cpu: Mapping[int, int]
    """Row of cpu -> exclusive CPUs in millicores; empty if it gets none."""
    memory: Mapping[int, int]
    """Rows of memory and huge pages -> bytes."""
    devices: Mapping[int, int]
    """Rows of devices -> count; a zero counts, because the device manager gives hints for it, too."""

    @property
    def amounts(self) -> Mapping[int, int]:
        """All rows together."""
        return {**self.cpu, **self.memory, **self.devices}

    def without(self, rows: Container[int]) -> "Share":
        """The share without some rows."""
        return Share(
            self.kind,
            {row: amount for row, amount in self.cpu.items() if row not in rows},
            {row: amount for row, amount in self.memory.items() if row not in rows},
            {row: amount for row, amount in self.devices.items() if row not in rows},
        )


@dataclass(frozen=True, slots=True)
class Demand:
    """A pod's requests as a kubelet's managers see them."""

    containers: tuple[Share, ...]
    """In admission order."""
    pod: Share
    """What topology scope "pod" aligns as a whole."""
    names: Mapping[int, str]
    """Row -> resource name."""
    init_only_memory: bool
    """Memory or huge pages that no app container names: the kubelet omits them from the pod's hints."""

    @classmethod
    def of(cls, request: PodRequest) -> "Demand":
        """The demand of a request on nodes where the kubelet chooses the NUMA nodes."""
        guaranteed = request.qos is QoS.GUARANTEED and not request.pod_level
        names = _names(request)
        shares = [_share(request, index, guaranteed) for index in range(len(request.kinds))]
        if len(shares) == 1 and shares[0].kind is ContainerKind.APP:
            return cls((shares[0],), shares[0], names, init_only_memory=False)
        return cls.of_shares(shares, names)

    @classmethod
    def of_resident(cls, pod: ResidentPod, resources: ResourceIndex) -> "Demand":
        """The demand of a resident pod, over the rows of `resources`."""
        guaranteed = pod.qos is QoS.GUARANTEED and not pod.pod_level
        shares = []
        names: dict[int, str] = {}
        for container in pod.containers:
            cpu, memory, devices = dict[int, int](), dict[int, int](), dict[int, int]()
            for name, amount in container.requests.items():
                row = resources.find(name)
                if row < 0:
                    continue
                names[row] = name
                if is_device(name):
                    devices[row] = amount
                elif guaranteed and is_memory(name):
                    memory[row] = amount
                elif guaranteed and name == CPU and amount > 0 and amount % 1000 == 0:
                    cpu[row] = amount
            shares.append(Share(container.kind, cpu, memory, devices))
        return cls.of_shares(shares, names)

    @classmethod
    def of_shares(cls, shares: Sequence[Share], names: Mapping[int, str]) -> "Demand":
        """The demand of containers in admission order. names: row -> resource."""
        in_apps = {row for share in shares if share.kind is ContainerKind.APP for row in share.memory}
        memory = _together((share.kind, share.memory) for share in shares)
        return cls(
            containers=tuple(shares),
            pod=Share(
                ContainerKind.APP,
                _together((share.kind, share.cpu) for share in shares),
                {row: amount for row, amount in memory.items() if row in in_apps},
                _together((share.kind, share.devices) for share in shares),
            ),
            names=names,
            init_only_memory=not memory.keys() <= in_apps,
        )

    @property
    def reused_devices(self) -> tuple[int, ...]:
        """Rows of devices that an init container leaves for reuse.

        Their possible NUMA nodes depend on whether a device is near one NUMA node or two.
        """
        left = {row for share in self.containers if share.kind is ContainerKind.INIT for row in share.devices}
        return tuple(row for row in self.pod.devices if row in left)

    def alone(self, share: Share) -> "Demand":
        """The demand of one container."""
        return Demand((share,), share, self.names, init_only_memory=False)

    @classmethod
    def whole(cls, request: PodRequest) -> "Demand":
        """The demand of a pod with its own policy on nodes whose kubelet does not align.

        Koordinator aligns the whole pod, whatever its QoS class, including fractions of CPUs.
        """
        names = _names(request)
        amounts = {row: request.node[column] for column, row in enumerate(request.rows) if row >= 0}
        share = Share(
            ContainerKind.APP,
            {row: amount for row, amount in amounts.items() if names[row] == CPU and amount > 0},
            {row: amount for row, amount in amounts.items() if is_memory(names[row]) and amount > 0},
            {row: amount for row, amount in amounts.items() if is_device(names[row]) and amount >= 0},
        )
        return cls((share,), share, names, init_only_memory=False)


def is_aligned(request: PodRequest) -> bool:
    """Whether a kubelet with a policy would align anything of the pod, and so might reject it."""
    return any(share.devices or any(share.amounts.values()) for share in Demand.of(request).containers)


def _names(request: PodRequest) -> Mapping[int, str]:
    return {row: name for row, name in zip(request.rows, request.resources, strict=True) if row >= 0}


def _share(request: PodRequest, index: int, guaranteed: bool) -> Share:
    """What one container gets from the managers."""
    cpu: dict[int, int] = {}
    memory: dict[int, int] = {}
    devices: dict[int, int] = {}
    for name, row, amount in zip(request.resources, request.rows, request.containers[index], strict=True):
        if row < 0 or amount < 0:
            continue
        if name == CPU:
            if guaranteed and request.integral_cpu[index]:
                cpu[row] = amount
        elif is_memory(name):
            if guaranteed:
                memory[row] = amount
        elif is_device(name):
            devices[row] = amount
    return Share(request.kinds[index], cpu, memory, devices)


def _together(shares: Iterable[tuple[ContainerKind, Mapping[int, int]]]) -> dict[int, int]:
    """max(apps + sidecars, each init container + the sidecars before it), per row."""
    running: dict[int, int] = {}
    sidecars: dict[int, int] = {}
    peak: dict[int, int] = {}
    for kind, amounts in shares:
        for row, amount in amounts.items():
            if kind is ContainerKind.INIT:
                peak[row] = max(peak.get(row, 0), amount + sidecars.get(row, 0))
                continue
            running[row] = running.get(row, 0) + amount
            if kind is ContainerKind.SIDECAR:
                sidecars[row] = sidecars.get(row, 0) + amount
    return {row: max(running.get(row, 0), peak.get(row, 0)) for row in {**running, **peak}}
