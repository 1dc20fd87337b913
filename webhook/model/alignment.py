"""Why kubelets give a pod no CPUs of its own: which container lacks what, and the fields that change it.

A kubelet pins CPUs, and with the memory manager memory, of Guaranteed pods only, and CPUs only of containers that ask
for whole ones. For any other pod these managers give no hints, so that every topology manager policy admits it as it
comes. Devices are aligned for every pod (see webhook.admission.pod.not_aligned).

1. Resources of the pod as a whole: its containers get none of their own.
2. QoS class: each container, init containers included, has limits for cpu and memory, and requests equal to them.
3. Some container that keeps running asks for whole CPUs; else the one that asks for most is named.

Source: kubernetes pkg/kubelet/cm/{cpumanager,memorymanager}/policy_static.go, pkg/apis/core/v1/helper/qos.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from webhook.model.json_text import shortened
from webhook.model.pod import Container, ContainerKind, Pod, QoS
from webhook.model.resources import CPU, MEMORY, format_amount

_NAMED: Final = 3
"""Containers that a sentence names: as a rule the others have the same cause."""
_MILLI: Final = 1000


@dataclass(frozen=True, slots=True)
class Field:
    """A field to set."""

    path: str
    value: str = ""
    """Empty where it is for the user to choose."""


@dataclass(frozen=True, slots=True)
class Obstacle:
    """What is wrong with one container; without fields, with the pod as a whole."""

    fault: str
    fields: tuple[Field, ...] = ()

    def sentence(self, prefix: str) -> str:
        """Fault and cure; prefix: where the pod stands in its workload, such as "spec.template."."""
        if not self.fields:
            return f"{self.fault}; remove {prefix}spec.resources and set requests and limits on the containers"
        # Those without a value last, so that they are not read as having the next one's.
        fields = sorted(self.fields, key=lambda field: not field.value)
        cures = [f"{prefix}{field.path}" + (f" to {field.value}" if field.value else "") for field in fields]
        return f"{self.fault}; set {_listed(cures)}"


def obstacles(pod: Pod) -> tuple[Obstacle, ...]:
    """Why no container of the pod that keeps running gets CPUs of its own; empty if one does."""
    if pod.qos is QoS.GUARANTEED and pod.pod_level is None and any(map(_asks_for_whole_cpus, pod.containers)):
        return ()
    return tuple(_obstacles(pod))


def in_words(found: Sequence[Obstacle], prefix: str = "") -> str:
    """All of them in one line, a clause each; prefix: as for `Obstacle.sentence`."""
    clauses = [obstacle.sentence(prefix) for obstacle in found[:_NAMED]]
    if more := len(found) - _NAMED:
        clauses += [f"{more} more container{'s' if more > 1 else ''} alike"] if more > 0 else []
    return "; ".join(clauses)


def _obstacles(pod: Pod) -> Iterator[Obstacle]:
    if pod.pod_level is not None:
        yield Obstacle("the pod has resources of its own")
    # By position: names are the user's, and not checked yet.
    fractional = _largest_of_fractional(pod.containers)
    apps = [one.kind for one in pod.containers].count(ContainerKind.APP)
    for position, container in enumerate(pod.containers):
        app = position - (len(pod.containers) - apps)
        path = f"spec.containers[{app}]" if app >= 0 else f"spec.initContainers[{position}]"
        if obstacle := _of_container(container, f"{path}.resources", whole_cpus=position == fractional):
            yield obstacle


def _of_container(container: Container, path: str, *, whole_cpus: bool) -> Obstacle | None:
    """path: of its resources. whole_cpus: its fractional CPUs are to be whole ones."""
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
                    # One of zero is not replaced by the limit.
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
    """The position of the container that asks for most CPUs, where none that keeps running asks for whole ones."""
    if any(map(_asks_for_whole_cpus, containers)):
        return None
    running = [(_cpus(one), -at) for at, one in enumerate(containers) if one.kind is not ContainerKind.INIT]
    most, position = max(running, default=(0, 0))
    return -position if most > 0 else None


def _asks_for_whole_cpus(container: Container) -> bool:
    cpus = _cpus(container)
    return container.kind is not ContainerKind.INIT and cpus > 0 and cpus % _MILLI == 0


def _cpus(container: Container) -> int:
    """What it has in the end: its limit, to which its request is to be raised, else its request."""
    return max(container.limits.get(CPU, 0), 0) or max(container.requests.get(CPU, 0), 0)


def _text(resource: str, amount: int) -> str:
    return format_amount(resource, amount) if amount > 0 else ""


def _listed(items: Sequence[str]) -> str:
    """A; a and b; a, b and c."""
    return " and ".join([", ".join(items[:-1]), items[-1]]) if len(items) > 1 else items[0]
