"""The pods of a workload by its templates: which templates there are, their names and their numbers of pods."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from webhook.admission.workload.templates import templates_in
from webhook.formats.patches.json_patch import Tokens
from webhook.formats.patches.managed_fields import ManagedFields, without_ours
from webhook.formats.workload.record import Replicas, Workload
from webhook.model.names import MANAGED_FIELDS

BUILT_IN: Final = frozenset({"", "apps", "batch"})
"""The API groups whose objects the API server has validated before it calls a webhook."""
_POD_TEMPLATE: Final = ("", "PodTemplate")
# A RayJob's submitter: a single pod, which takes nothing from the RayJob.
_SUBMITTER: Final = ("spec", "submitterPodTemplate")


@dataclass(frozen=True, slots=True)
class PodTemplate:
    """One template of a workload."""

    name: str
    tokens: Tokens
    path: str
    pods: int | None
    above: Mapping[str, Any]
    """Annotations above the template in the object that its pods inherit."""


def pod_templates(body: Mapping[str, Any], group: str, workload: Workload | None) -> list[PodTemplate]:
    """The templates of a workload whose pods are known; for an unknown kind, all templates found."""
    found = {template.prefix.removesuffix("."): template for template in templates_in(body)}
    if workload is None:
        if group in BUILT_IN and (group, body.get("kind")) != _POD_TEMPLATE:
            return []
        return [PodTemplate("pods", one.path, path, None, one.above) for path, one in found.items()]
    named: dict[str, tuple[list[str], int]] = {}
    for name, path, pods in _pod_sets(workload):
        names, count = named.get(path, ([], 0))
        named[path] = [*names, *([] if name in names else [name])], count + pods
    templates = [
        PodTemplate(", ".join(names), found[path].path, path, count, found[path].above)
        for path, (names, count) in named.items()
        if path in found
    ]
    if isinstance(at(body, _SUBMITTER), Mapping):
        templates.append(PodTemplate("submitter", _SUBMITTER, ".".join(_SUBMITTER), 1, {}))
    return templates


def as_written(body: Mapping[str, Any]) -> Mapping[str, Any]:
    """The workload without what an earlier review added to its templates."""
    for template in templates_in(body):
        managed_fields = template.annotations.get(MANAGED_FIELDS)
        if isinstance(managed_fields, str):
            body = with_at(body, template.path, without_ours(template.raw, ManagedFields.parse(managed_fields)))
    return body


def at(held: Any, path: Tokens) -> Any:
    """The value at the path, None if a step of the path is missing."""
    for key in path:
        if isinstance(held, list) and isinstance(key, int):
            held = held[key] if key < len(held) else None
        else:
            held = held.get(key) if isinstance(held, Mapping) else None
    return held


def with_at(held: Any, path: Tokens, value: Any) -> Any:
    """A copy of the object with `value` at an existing path."""
    if not path:
        return value
    key, *below = path
    changed = with_at(held[key], tuple(below), value)
    if isinstance(held, list):
        return [changed if index == key else one for index, one in enumerate(held)]
    return {**held, key: changed}


def _pod_sets(workload: Workload) -> Iterator[tuple[str, str, int]]:
    """(name, path of the template, pods) of each."""
    times = len(workload.gangs) if isinstance(workload.gangs, Replicas) else 1
    for gang in workload.distinct:
        for pod_set in gang.all_pod_sets():
            yield pod_set.name, pod_set.path, len(pod_set.pods) * times
