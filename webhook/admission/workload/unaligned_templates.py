"""The pod templates of a workload that request a NUMA policy, and whose pods kubelets do not align.

The request may be on the template or above it. A template that had the same problem before is skipped: a workload that
is scaled gets no second warning, and an existing workload is not denied.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from webhook.admission.pod.not_aligned import NotAligned, not_aligned
from webhook.admission.workload.templates import Template, templates_in
from webhook.engine.snapshot.snapshot import Snapshot
from webhook.model.alignment import obstacles
from webhook.model.errors import UserError
from webhook.model.intent import NUMAIntent, parse_numa_intent
from webhook.model.limits import check_size
from webhook.model.membership import is_in_group
from webhook.model.names import INHERIT, NUMA_TOPOLOGY_SPEC, RESOURCE_SPEC
from webhook.model.pod import Pod
from webhook.model.rules import Rules

_NUMA: Final = (NUMA_TOPOLOGY_SPEC, RESOURCE_SPEC)
# Each takes a decision on all nodes, about a millisecond. Templates of one workload usually have the same problem.
_MOST_TEMPLATES: Final = 20


def unaligned_templates(
    raw: Mapping[str, Any], before: Mapping[str, Any], snapshot: Snapshot, rules: Rules
) -> Iterator[tuple[NotAligned, str]]:
    """What kubelets do not align of a template's pods, and the template's path. For an update, only new problems."""
    old = {template.path: template for template in templates_in(before)} if before else {}
    looked_at = 0
    for template in templates_in(raw):
        known = old.get(template.path)
        if known == template or template.scheduler not in rules.scheduler_names:
            continue
        asked = _asked(template, rules)
        if asked is None or looked_at == _MOST_TEMPLATES:
            continue
        looked_at += 1
        found = not_aligned(snapshot, *asked, rules.engine)
        if found is not None and found.warns and not (known and _has_the_same(known, found, rules)):
            yield found, template.prefix


def _asked(template: Template, rules: Rules) -> tuple[Pod, NUMAIntent] | None:
    """A pod of the template and its policy, if it requests one and may not be aligned."""
    own = {key: template.annotations[key] for key in _NUMA if key in template.annotations}
    # Without a gate, pods take no annotations from their owners.
    takes = template.annotations.get(INHERIT) != "false" or is_in_group(dict(template.annotations))
    above = template.above if takes and rules.gate != "Never" else {}
    annotations = own or {key: above[key] for key in _NUMA if key in above}
    try:
        intent, _ = parse_numa_intent(annotations)
        if not intent.policy:
            return None
        check_size(template.raw["spec"])
        pod = Pod.from_object({"metadata": {}, "spec": template.raw["spec"]})
    except UserError:
        return None  # it is denied, here or by the validation of its kind
    return (pod, intent) if obstacles(pod) else None


def _has_the_same(known: Template, found: NotAligned, rules: Rules) -> bool:
    asked = _asked(known, rules)
    return asked is not None and obstacles(asked[0]) == found.obstacles
