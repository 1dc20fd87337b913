"""Why kubelets give a pod no exclusive CPUs: what each container lacks, and the fields to change.

A kubelet pins CPUs (and memory, with the memory manager) of Guaranteed pods only, and CPUs only of containers that
request whole ones. For any other pod these managers give no hints, so every topology manager policy admits it.
Devices are aligned for every pod (see webhook.placing.pod.not_aligned).

1. Pod-level resources: the containers get no resources of their own.
2. QoS class: each container, init containers included, has limits for cpu and memory, and requests equal to them.
3. Some container that keeps running requests whole CPUs. If none does, the one with the largest request is named.

Source: kubernetes pkg/kubelet/cm/{cpumanager,memorymanager}/policy_static.go, pkg/apis/core/v1/helper/qos.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from webhook.formats.kubernetes.pod import Container, ContainerKind, Pod, QoS
from webhook.model.json_text import shortened
from webhook.model.resources import CPU, MEMORY, format_amount
from webhook.model.wording import counted

_NAMED: Final = 3
"""The most containers that one message names. Usually the others have the same cause."""
_MILLI: Final = 1000


@dataclass(frozen=True, slots=True)
class Field:
    """A field to set."""

    path: str
    value: str = ""
    """Empty if the user must choose the value."""


@dataclass(frozen=True, slots=True)
class Obstacle:
    """What is wrong with one container, or with the whole pod if there are no fields."""

    fault: str
    fields: tuple[Field, ...] = ()

    def sentence(self, prefix: str) -> str:
        """The fault and the fix. prefix: the path of the pod in its workload, such as "spec.template."."""
        if not self.fields:
            return f"{self.fault}; remove {prefix}spec.resources and set requests and limits on the containers"
        # Fields without a value come last; otherwise they would seem to share the next field's value.
        fields = sorted(self.fields, key=lambda field: not field.value)
        cures = [f"{prefix}{field.path}" + (f" to {field.value}" if field.value else "") for field in fields]
        return f"{self.fault}; set {_listed(cures)}"


def obstacles(pod: Pod) -> tuple[Obstacle, ...]:
    """Why no container that keeps running gets exclusive CPUs; empty if one does."""
    if pod.qos is QoS.GUARANTEED and pod.pod_level is None and any(map(_asks_for_whole_cpus, pod.containers)):
        return ()
    return tuple(_obstacles(pod))


def in_words(found: Sequence[Obstacle], prefix: str = "") -> str:
    """All obstacles in one line, one clause each; prefix: as for `Obstacle.sentence`."""
    clauses = [obstacle.sentence(prefix) for obstacle in found[:_NAMED]]
    if more := len(found) - _NAMED:
        clauses += [f"{counted(more, 'more container')} alike"] if more > 0 else []
    return "; ".join(clauses)


def _obstacles(pod: Pod) -> Iterator[Obstacle]:
    if pod.pod_level is not None:
        yield Obstacle("the pod has resources of its own (kubelets' feature gate PodLevelResourceManagers is not read)")
    # Containers are named by position, because names are written by the user and not validated yet.
    fractional = _largest_of_fractional(pod.containers)
    apps = [one.kind for one in pod.containers].count(ContainerKind.APP)
    for position, container in enumerate(pod.containers):
        app = position - (len(pod.containers) - apps)
        path = f"spec.containers[{app}]" if app >= 0 else f"spec.initContainers[{position}]"
        if obstacle := _of_container(container, f"{path}.resources", whole_cpus=position == fractional):
            yield obstacle


def _of_container(container: Container, path: str, *, whole_cpus: bool) -> Obstacle | None:
    """path: of the container's resources. whole_cpus: whether to suggest whole CPUs for its fractional ones."""
    missing: list[str] = []
    faults: list[str] = []
    fields: list[Field] = []
    for resource in (CPU, MEMORY):
        limit, request = container.limits.get(resource, 0), container.requests.get(resource, 0)
        if limit <= 0:
            missing.append(f"no limits.{resource}")
            if not (whole_cpus and resource == CPU):
                fields.append(Field(f"{path}.limits.{resource}", _text(resource, request)))
                if request <= 0 and resource in container.requests:
                    # An explicit request of zero is not replaced by the limit.
                    fields.append(Field(f"{path}.requests.{resource}"))
        elif request != limit:
            faults.append(
                f"requests {_text(resource, request) or 0} {resource} and has a limit of {_text(resource, limit)}"
            )
            if not (whole_cpus and resource == CPU):
                fields.append(Field(f"{path}.requests.{resource}", _text(resource, limit)))
    if missing:
        faults.insert(0, f"has {' and '.join(missing)}")
    if whole_cpus:
        asked = _cpus(container)
        faults.append(f"asks for {_text(CPU, asked)} cpu, not for whole CPUs")
        value = _text(CPU, -(-asked // _MILLI) * _MILLI)
        fields += [Field(f"{path}.requests.{CPU}", value), Field(f"{path}.limits.{CPU}", value)]
    if not faults:
        return None
    return Obstacle(f'container "{shortened(container.name)}" {" and ".join(faults)}', tuple(fields))


def _largest_of_fractional(containers: Sequence[Container]) -> int | None:
    """The position of the container with the largest CPU request, if none that keeps running requests whole CPUs."""
    if any(map(_asks_for_whole_cpus, containers)):
        return None
    running = [(_cpus(one), -at) for at, one in enumerate(containers) if one.kind is not ContainerKind.INIT]
    most, position = max(running, default=(0, 0))
    return -position if most > 0 else None


def _asks_for_whole_cpus(container: Container) -> bool:
    cpus = _cpus(container)
    return container.kind is not ContainerKind.INIT and cpus > 0 and cpus % _MILLI == 0


def _cpus(container: Container) -> int:
    """The CPUs of the container after the fix: its limit if there is one, else its request."""
    return max(container.limits.get(CPU, 0), 0) or max(container.requests.get(CPU, 0), 0)


def _text(resource: str, amount: int) -> str:
    return format_amount(resource, amount) if amount > 0 else ""


def _listed(items: Sequence[str]) -> str:
    """Join words: "A", "A and B", "A, B and C"."""
    return " and ".join([", ".join(items[:-1]), items[-1]]) if len(items) > 1 else items[0]
