"""Fields that the readers of workloads share: counts, templates, annotations, minimums."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from webhook.model.errors import UserError
from webhook.model.fields import mapping, whole_number
from webhook.model.json_text import shortened
from webhook.model.names import KAI_BATCH_MIN_MEMBER, KAI_TOPOLOGY, MIN_MEMBER
from webhook.model.workload.record import Annotations, Gang, Role
from webhook.model.workload.topology import segment_request, topology_request

# More pods than any cluster runs: a count beyond it is a typing error that would only fill the memory.
MAX_PODS = 150_000


def annotations_of(raw: Mapping[str, Any], path: str) -> Mapping[str, str]:
    """The annotations of an object or a template; `path` is that of the object, empty for the root."""
    where = annotations_path(path)
    return mapping(mapping(raw, "metadata", where.removesuffix(".annotations")), "annotations", where)


def annotations_on(role: Role) -> tuple[Annotations, ...]:
    """What is asked for a role alone: on its template first, then on what is between that and the workload."""
    return annotations_at(role.template, role.path), *role.between


def annotations_at(raw: Mapping[str, Any], path: str) -> Annotations:
    """The annotations of an object or a template, with their place."""
    return annotations_of(raw, path), annotations_path(path)


def annotations_path(path: str) -> str:
    """The place of the annotations of the object at `path`, which is empty for the root."""
    return f"{path}.metadata.annotations" if path else "metadata.annotations"


def count(raw: Mapping[str, Any], name: str, path: str, default: int) -> int:
    """A number of pods; raises UserError."""
    value = raw.get(name)
    if value is None:
        return default
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= MAX_PODS:
        raise UserError(f"{path}.{name}", f"{value!r} is no number of pods. Write a whole number from 0 to {MAX_PODS}.")
    return value


def at_most_a_cluster(pods: int, path: str) -> int:
    """The number of pods, which counts were multiplied or added to; raises UserError if no cluster runs as many."""
    if pods > MAX_PODS:
        raise UserError(path, f"Together these are {pods} pods. Write numbers that make {MAX_PODS} at most.")
    return pods


def min_member(annotations: Mapping[str, str], *keys: str, path: str = "metadata.annotations") -> int | None:
    """The minimum that an annotation sets; ours for every kind, KAI's where `keys` names it. Raises UserError.

    path: the place of the annotations.
    """
    for key in (MIN_MEMBER, *keys):
        text = annotations.get(key)
        if text:
            number = whole_number(text)
            if number is None or not 1 <= number <= MAX_PODS:
                raise UserError(
                    f"{path}[{key}]", f'"{shortened(text)}" is no number of pods. Write a whole number from 1.'
                )
            return number
    return None


def batch_min_member(annotations: Mapping[str, str], path: str = "metadata.annotations") -> int | None:
    """The same for batch jobs, where KAI has an annotation of its own."""
    return min_member(annotations, KAI_BATCH_MIN_MEMBER, path=path)


def template_of(raw: Mapping[str, Any], path: str) -> Mapping[str, Any]:
    """The pod template in field `template`; raises UserError where there is none."""
    template = mapping(raw, "template", f"{path}.template")
    if not template:
        raise UserError(f"{path}.template", "This is missing. It says what the pods look like.")
    return template


def gang_of_one_role(name: str, owner: Mapping[str, str], role: Role) -> Gang:
    """A gang of equal pods: the template's annotations go before those above it."""
    found = (*annotations_on(role), (owner, "metadata.annotations"))
    return Gang(name, topology_request(*found), (replace(role, segments=segment_request(*found)),))


def gang_of_roles(name: str, owner: Mapping[str, str], roles: Sequence[Role]) -> Gang:
    """A gang of different pods: what the owner asks holds for all of them, what a template asks for its own."""
    if len(roles) == 1:
        return gang_of_one_role(name, owner, roles[0])
    above = topology_request((owner, "metadata.annotations"))
    own: list[Role] = []
    parts: list[Gang] = []
    for role in roles:
        found = annotations_on(role)
        request = topology_request(*found, ({KAI_TOPOLOGY: above.topology or ""}, ""))
        whole = replace(role, segments=segment_request(*found))
        if request.levels:
            parts.append(Gang(role.name, request, (whole,)))
        else:
            own.append(whole)
    named = [request.topology for request in (above, *(part.request for part in parts)) if request.levels]
    if len(set(named)) > 1:
        raise UserError(
            f"metadata.annotations[{KAI_TOPOLOGY}]",
            f"The parts name different topologies: {', '.join(sorted(set(filter(None, named))))}. "
            "All pods of a workload are placed in one: name the same everywhere.",
        )
    return Gang(name, above, tuple(own), tuple(parts))


def with_minimum(roles: Sequence[Role], minimum: int | None) -> list[Role]:
    """The roles with a minimum for all of them together: leaders, who come first, count first."""
    if minimum is None:
        return list(roles)
    shared = []
    for role in roles:
        here = min(len(role.pods) - role.late, minimum)
        minimum -= here
        shared.append(replace(role, minimum=here))
    return shared
