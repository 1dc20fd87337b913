"""Workloads whose pods are in a ComputeDomain, as if their templates asked for the level that these prefer by default.

Each pod gets the default itself (`webhook.placing.pod.default_level`). Its workload says with whom it starts: pods of
templates without a claim are not among these. If all templates are in one ComputeDomain, the whole workload prefers one
clique, else each template's pods do.
"""

from collections.abc import Iterator
from typing import NamedTuple

from webhook.admission.kueue_requests import asked_workload
from webhook.admission.workload.templates import Template, templates_in
from webhook.formats.patches.json_patch import Patch
from webhook.model.errors import UserError
from webhook.model.raw import Raw
from webhook.placing.pod.default_level import DefaultLevel, DefaultLevels
from webhook.state.cluster_snapshot import ClusterSnapshot
from webhook.state.management import Unmanaged, management_of, namespace_of
from webhook.state.rules import Rules
from webhook.state.unmanaged import asks


class _Found(NamedTuple):
    template: Template
    default: DefaultLevel


def with_default_levels(raw: Raw, cluster: ClusterSnapshot, rules: Rules) -> Raw:
    """The workload with the default in its annotations, or in those of its templates."""
    defaults = DefaultLevels.of(cluster)
    if not defaults.channels:
        return raw
    templates = [one for one in templates_in(raw) if one.scheduler in rules.scheduler_names]
    found = list(_found(templates, namespace_of(raw), defaults, cluster, rules))
    if not found:
        return raw
    alike = {(one.default.compute_domain, tuple(one.default.annotations.items())) for one in found}
    is_whole = len(found) == len(templates) and len(alike) == 1 and all(one.template.path for one in found)
    patch = Patch(raw)
    for template, default in found[:1] if is_whole else found:
        for key, text in default.annotations.items():
            patch.put((*(() if is_whole else template.path), "metadata", "annotations", key), text)
    document: Raw = patch.document
    return document


def _found(
    templates: list[Template], namespace: str, defaults: DefaultLevels, cluster: ClusterSnapshot, rules: Rules
) -> Iterator[_Found]:
    for template in templates:
        if not defaults.compute_domain(template.raw, namespace):
            continue
        annotations = {**template.above, **template.annotations}
        metadata = {"annotations": annotations, "namespace": namespace}
        pod = {**template.raw, "metadata": {**(template.raw.get("metadata") or {}), **metadata}}
        if not asks(annotations) and isinstance(management_of(pod, cluster, rules), Unmanaged):
            continue
        default = defaults.of_pod(template.raw, annotations, namespace)
        if default.annotations:
            yield _Found(template, default)


def asked_owner(raw: Raw, cluster: ClusterSnapshot, rules: Rules) -> Raw:
    """The owner of pods as they read it: with Kueue's annotations as ours (`asked_workload`), and with the defaults.

    If its annotations are invalid, it is as it is: its pods are denied.
    """
    try:
        read = asked_workload(raw, cluster.topologies, rules).raw
    except UserError:
        return raw
    return with_default_levels(read, cluster, rules)
