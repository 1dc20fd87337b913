"""What a pod asks of Koordinator beyond NUMA nodes: CPU bind policies and Reservations. Nothing is ignored silently.

1. A Reservation (`scheduling.koordinator.sh/reservation-affinity`) is kept and given by Koordinator's scheduler alone.
   Every form of the annotation is a requirement there, so a pod that another scheduler places is denied.
2. A required CPU bind policy limits the nodes (`engine.cpu_cores`). It binds whole CPUs, so a fraction is denied. Which
   CPUs the pod gets is the choice of the node.
3. Wishes (preferred policies), and policies of pods that Koordinator does not bind, have no effect: a warning says so.

Source: koordinator pkg/util/reservation (GetRequiredReservationAffinity), pkg/scheduler/plugins/nodenumaresource.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Final

from webhook.admission.workload.templates import Template, templates_in
from webhook.formats.koordinator.cpu_bind import (
    EXCLUSIVE_CPU_FIELD,
    PREFERRED_FIELD,
    REQUIRED_FIELD,
    CPUBindPolicy,
    CPUBindSpec,
    may_be_bound,
    required_policy,
)
from webhook.formats.koordinator.intent import parse_numa_intent
from webhook.formats.kubernetes.pod import Pod
from webhook.model.errors import UserError
from webhook.model.limits import check_size
from webhook.model.names import (
    KOORDINATOR_QOS_LABEL,
    NUMA_TOPOLOGY_SPEC,
    RESERVATION_AFFINITY,
    RESOURCE_SPEC,
)
from webhook.model.raw import Raw
from webhook.model.resources import CPU, format_amount
from webhook.model.wording import quoted
from webhook.state.rules import Rules
from webhook.state.unmanaged import asks

_NUMA: Final = (NUMA_TOPOLOGY_SPEC, RESOURCE_SPEC)
# A workload's templates usually have the same problem.
_MOST_TEMPLATES: Final = 20


@dataclass(frozen=True, slots=True)
class KoordinatorRequests:
    """What cannot be honoured."""

    faults: tuple[UserError, ...] = ()
    """These deny the pod."""
    warnings: tuple[str, ...] = ()


def requests_of_pod(pod: Pod, spec: CPUBindSpec, prefix: str = "") -> KoordinatorRequests:
    """The requests of a managed pod. prefix: its path in its workload ("spec.template.")."""
    faults = list(_reservation(pod.annotations, prefix))
    warnings: list[str] = []
    place = f"{prefix}metadata.annotations[{RESOURCE_SPEC}]"
    if spec.required is not None:
        _judge_required(pod, spec, f"{place}.{REQUIRED_FIELD}", faults, warnings)
    for field, value in ((PREFERRED_FIELD, spec.preferred), (EXCLUSIVE_CPU_FIELD, spec.exclusive)):
        if value is not None:
            warnings.append(f"{place}.{field}: {value} has no effect: only Koordinator's scheduler weighs it.")
    return KoordinatorRequests(tuple(faults), tuple(warnings))


def requests_of_templates(raw: Raw, before: Raw, rules: Rules) -> KoordinatorRequests:
    """The requests of a workload's new or changed templates."""
    old = {template.path: template for template in templates_in(before)} if before else {}
    faults: list[UserError] = []
    warnings: list[str] = []
    changed = (template for template in templates_in(raw) if old.get(template.path) != template)
    for template in islice(changed, _MOST_TEMPLATES):
        found = _of_template(template, rules)
        faults += found.faults
        warnings += found.warnings
    return KoordinatorRequests(tuple(faults), tuple(warnings))


def _of_template(template: Template, rules: Rules) -> KoordinatorRequests:
    own = {key: text for key, text in template.annotations.items() if isinstance(text, str)}
    above = {} if any(key in own for key in _NUMA) else template.above
    annotations = {**{key: text for key, text in above.items() if isinstance(text, str)}, **own}
    if template.scheduler not in rules.scheduler_names or not asks(annotations):
        return KoordinatorRequests()
    try:
        spec = parse_numa_intent(annotations)[0].cpu_bind
        check_size(template.raw["spec"])
        metadata = {**(template.raw.get("metadata") or {}), "annotations": annotations}
        pod = Pod.from_object({"metadata": metadata, "spec": template.raw["spec"]})
    except UserError:
        return KoordinatorRequests()  # it is denied, here or by the validation of its kind
    return requests_of_pod(pod, spec, template.prefix)


def _reservation(annotations: Mapping[str, str], prefix: str) -> Iterator[UserError]:
    if RESERVATION_AFFINITY in annotations:
        yield UserError(
            f"{prefix}metadata.annotations[{RESERVATION_AFFINITY}]",
            f"{quoted(annotations[RESERVATION_AFFINITY])} requires a Reservation. Reservations are kept and given by "
            "Koordinator's scheduler, which does not place this pod. Remove the annotation, or name that scheduler in "
            f"{prefix}spec.schedulerName.",
        )


def _judge_required(pod: Pod, spec: CPUBindSpec, place: str, faults: list[UserError], warnings: list[str]) -> None:
    policy, cpu = required_policy(spec), pod.requests.get(CPU, 0)
    if policy is CPUBindPolicy.CONSTRAINED_BURST:
        warnings.append(f"{place}: {policy} limits no node: only Koordinator's node agent reads it.")
    elif not may_be_bound(pod.labels, pod.priority):
        warnings.append(
            f"{place}: {policy} has no effect. Koordinator binds CPUs only for pods with the label "
            f"{KOORDINATOR_QOS_LABEL} LSE or LSR and a priority of koord-prod."
        )
    elif cpu % 1000 or not cpu:
        amount = f"{format_amount(CPU, cpu)} CPUs" if cpu else "none"
        faults.append(UserError(place, f"{policy} binds whole CPUs, and this pod requests {amount}."))
    else:
        warnings.append(
            f"{place}: nodes are chosen by their free cores for {policy}. Which CPUs the pod gets is chosen by its "
            "kubelet, not by Koordinator's scheduler."
        )
