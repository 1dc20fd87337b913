"""A pod's request as the engine reads it: amounts per container, kinds, QoS class, NUMA policy.

Plain tuples: a pod has few containers and resources, and for such short arrays numpy costs more than it saves.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from webhook.engine.arrays import UNLISTED
from webhook.engine.snapshot.resource_index import ResourceIndex
from webhook.formats.koordinator.cpu_bind import CPUBind, cpu_bind_of
from webhook.formats.koordinator.intent import NUMAIntent
from webhook.formats.kubernetes.pod import ContainerKind, Pod, QoS
from webhook.formats.kubernetes.resident import ResidentPod
from webhook.model.policy import Exclusive, NUMAPolicy
from webhook.model.resources import CPU


def named_resources(pod: Pod) -> Iterator[str]:
    """The resources that any container, the overhead or the pod itself names; may contain duplicates."""
    yield from pod.requests
    yield from pod.overhead
    for container in pod.containers:
        yield from container.requests


def cpu_bind(pod: Pod, intent: NUMAIntent) -> CPUBind | None:
    """How the pod's CPUs are bound to physical cores; None = they are not."""
    return cpu_bind_of(intent.cpu_bind, pod.labels, pod.priority, pod.requests.get(CPU, 0))


@dataclass(frozen=True, slots=True)
class PodRequest:
    """A pod's request. C containers (init containers and sidecars in order, then apps), K resources the pod names.

    Columns are the pod's own resources; `rows` maps a column to the row of a snapshot's arrays.
    """

    resources: tuple[str, ...]
    """[K] names of the resources that any container, the overhead or the pod itself names, sorted."""
    rows: tuple[int, ...]
    """[K] row of each in the snapshot's arrays; -1 = no node of the cluster has ever named it."""
    names: tuple[str, ...]
    """[C] container names."""
    kinds: tuple[ContainerKind, ...]
    """[C]."""
    containers: tuple[tuple[int, ...], ...]
    """[C][K]: requests; -1 = the container does not name the resource (0 = it names it with zero)."""
    integral_cpu: tuple[bool, ...]
    """[C]: requests at least one CPU, and whole ones (a Guaranteed pod's container then gets exclusive ones)."""
    overhead: tuple[int, ...]
    """[K]: the pod's overhead; -1 = it does not name the resource."""
    node: tuple[int, ...]
    """[K]: what the scheduler counts on the node (containers, pod level, overhead); -1 = not named."""
    pod_level: bool
    """Pod-level resources are set: the kubelet then gives its containers no CPUs or memory of their own."""
    qos: QoS
    policy: NUMAPolicy | None
    """The pod's own policy; None = no requirement, the node's applies."""
    exclusive: Exclusive | None
    cpu_bind: CPUBind | None = None
    """How its CPUs are bound to physical cores; None = they are not, or the pod is bound already."""
    whole_cores: tuple[tuple[str, int], ...] = ()
    """Nodes whose kubelets are learned to give whole cores only, with the threads per core."""

    @classmethod
    def of(cls, pod: Pod, intent: NUMAIntent, resources: ResourceIndex) -> "PodRequest":
        """The request of `pod` with the NUMA intent of its annotations, over the rows of `resources`."""
        bind = cpu_bind(pod, intent)
        found = cls._of(pod, pod.overhead, pod.pod_level is not None, intent.policy, intent.exclusive, resources, bind)
        if not pod.learned:
            return found
        return replace(found, whole_cores=tuple((one.node, one.threads) for one in pod.learned))

    @classmethod
    def of_resident(cls, pod: ResidentPod, resources: ResourceIndex) -> "PodRequest":
        """The request of a resident pod; its overhead is only known as a part of what the scheduler counts."""
        return cls._of(pod, {}, pod.pod_level, pod.policy, pod.exclusive, resources)

    @classmethod
    def _of(
        cls,
        pod: Pod | ResidentPod,
        overhead: Mapping[str, int],
        pod_level: bool,
        policy: NUMAPolicy | None,
        exclusive: Exclusive | None,
        resources: ResourceIndex,
        cpu_bind: CPUBind | None = None,
    ) -> "PodRequest":
        lists = [container.requests for container in pod.containers]
        names = tuple(sorted(set(pod.requests).union(overhead, *lists)))
        cpus = [requests.get(CPU, 0) for requests in lists]
        return cls(
            resources=names,
            rows=tuple(map(resources.find, names)),
            names=tuple([container.name for container in pod.containers]),
            kinds=tuple([container.kind for container in pod.containers]),
            containers=tuple([tuple([requests.get(name, UNLISTED) for name in names]) for requests in lists]),
            integral_cpu=tuple([cpu > 0 and cpu % 1000 == 0 for cpu in cpus]),
            overhead=tuple([overhead.get(name, UNLISTED) for name in names]),
            node=tuple([pod.requests.get(name, UNLISTED) for name in names]),
            pod_level=pod_level,
            qos=pod.qos,
            policy=policy or None,
            exclusive=exclusive,
            cpu_bind=cpu_bind,
        )

    @property
    def strict(self) -> bool:
        """Whether the pod's own policy rejects misalignment: it then needs a node with a known NUMA topology."""
        return self.policy is not None and self.policy >= NUMAPolicy.RESTRICTED
