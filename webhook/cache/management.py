"""Which pods are managed that ask for nothing themselves, and what holds where a managed pod leaves something open.

1. The mode is that of the namespace's label, else of the setting `manage`. With Aligned a pod is managed if a kubelet
   would align it (webhook.engine.kubelet.alignable), with All every pod is.
2. Never managed so: pods that others place (DaemonSets, kubelets, other schedulers), pods whose node is chosen, those
   of excluded namespaces, and those that are larger than what is placed here. They never asked, so none is denied.
3. The policy and the exclusiveness that a managed pod, and its owners, leave open are the namespace's, else the
   settings'. If the namespace's annotations cannot be read, the pods that need them are denied, as for their own.
4. Both are written into the pod as marks. Placement, binding and counting read the pod alone, so they see what held at
   its creation, and a change of the namespace or the settings is for new pods.

Source for 3: koordinator NodeNUMAResourceArgs.SingleNUMANodeExclusive (docs/proposals/scheduling,
20240131-pod-level-numa-policy.md).
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from webhook.cache.cluster_snapshot import ClusterSnapshot
from webhook.cache.unmanaged import NOT_ANNOTATED, asks, is_annotated, why_node_is_chosen, why_not_mutated
from webhook.engine.kubelet.alignable import is_aligned_somewhere
from webhook.model.errors import UserError
from webhook.model.intent import NO_SPEC, NUMASpec
from webhook.model.limits import check_annotations, check_size
from webhook.model.manage import Manage
from webhook.model.names import INHERIT, MANAGED, NUMA_DEFAULTS
from webhook.model.namespace import Namespace
from webhook.model.pod import Pod
from webhook.model.policy import Exclusive, NUMAPolicy
from webhook.model.rules import Rules

DEFAULT_NAMESPACE: Final = "default"
MARKS: Final = (MANAGED, NUMA_DEFAULTS)
"""The annotations that record what is decided here."""


@dataclass(frozen=True, slots=True)
class Management:
    """What the settings and a namespace say about its pods."""

    mode: Manage
    defaults: NUMASpec
    fault: str = ""
    """Why the namespace's defaults cannot be read."""
    warnings: tuple[str, ...] = ()
    covers: bool = False
    """Whether the mode covers the pod, if it asks for nothing itself."""

    @classmethod
    def of(cls, namespace: Namespace | None, rules: Rules) -> "Management":
        """That of a namespace; None: nothing is known of it."""
        if namespace is None:
            return cls(rules.manage, rules.defaults)
        defaults = namespace.defaults.over(rules.defaults)
        return cls(namespace.manage or rules.manage, defaults, namespace.fault, namespace.warnings)

    def marks(self, annotations: Mapping[str, str], own: NUMASpec) -> dict[str, str]:
        """The marks of a managed pod with these annotations, which state `own`. Raises UserError."""
        # Who brings the mark from another cluster asks for it.
        by_mode = not asks(annotations) and (self.covers or MANAGED in annotations)
        marks = {MANAGED: self.mode.label} if by_mode else {}
        inherits = annotations.get(INHERIT) == "true" and own == NO_SPEC
        if not inherits and not _is_open(own):
            return marks
        if self.fault:
            raise UserError("", self.fault)
        # What holds without a default is not written down.
        policy = self.defaults.policy or None
        exclusive = None if self.defaults.exclusive is Exclusive.REQUIRED else self.defaults.exclusive
        # Exclusiveness means nothing without a policy.
        if policy or (exclusive and (inherits or own.policy)):
            marks[NUMA_DEFAULTS] = NUMASpec(policy, exclusive).to_json()
        return marks


def _is_open(own: NUMASpec) -> bool:
    """Whether a default counts."""
    return own.policy is None or (own.policy is not NUMAPolicy.NONE and own.exclusive is None)


@dataclass(frozen=True, slots=True)
class Unmanaged:
    """Why a pod is not managed."""

    why: str
    warnings: tuple[str, ...] = ()


def namespace_of(raw: Mapping[str, Any]) -> str:
    """The pod's namespace; a manifest may leave it out."""
    return str((raw.get("metadata") or {}).get("namespace") or DEFAULT_NAMESPACE)


def management_of(
    raw: Mapping[str, Any], cache: ClusterSnapshot, rules: Rules, namespace: str = ""
) -> Management | Unmanaged:
    """What holds for a pod, or why it is left alone. namespace: that of a template, which names none."""
    name = namespace or namespace_of(raw)
    found = Management.of(cache.namespaces.get(name), rules)
    annotated = is_annotated(raw)
    if annotated and (why := why_not_mutated(raw, rules)):
        return Unmanaged(why)
    annotations = (raw.get("metadata") or {}).get("annotations") or {}
    if asks(annotations):
        return found
    why = _why_not_covered(raw, name, found.mode, cache, rules)
    if why is None or annotated:
        return replace(found, covers=why is None)
    told = (f"left alone: {why}",) if why.startswith(_UNREADABLE) else ()
    return Unmanaged(why, (*found.warnings, *told))


_UNREADABLE: Final = "it cannot be placed here: "


def _why_not_covered(
    raw: Mapping[str, Any], namespace: str, mode: Manage, cache: ClusterSnapshot, rules: Rules
) -> str | None:
    """Why the mode does not cover a pod, which asks for nothing itself."""
    if mode is Manage.ANNOTATED:
        return NOT_ANNOTATED
    if why := why_node_is_chosen(raw, rules):
        return why
    if namespace in rules.excluded_namespaces:
        return f"its namespace {namespace} is excluded"
    try:
        check_size(raw.get("spec") or {})
        check_annotations((raw.get("metadata") or {}).get("annotations") or {})
        pod = Pod.from_object(raw)
    except UserError as error:
        return f"{_UNREADABLE}{error}"
    if mode is Manage.ALIGNED and not is_aligned_somewhere(cache.nodes.node_arrays, pod):
        return f"{NOT_ANNOTATED}, and no kubelet with a NUMA policy would align it (manage is {mode})"
    return None


def as_managed(raw: Mapping[str, Any], cache: ClusterSnapshot, rules: Rules) -> Mapping[str, Any]:
    """The pod with the marks that it would have if its creation had been seen; as it is where it has them, or none.

    What its namespace has wrong asks for nothing then: the pod exists.
    """
    if not rules.manage_missed or is_annotated(raw):
        return raw
    management = management_of(raw, cache, rules)
    if isinstance(management, Unmanaged):
        return raw
    metadata = raw["metadata"]
    annotations = metadata.get("annotations") or {}
    marks = replace(management, fault="").marks(annotations, NO_SPEC)
    return {**raw, "metadata": {**metadata, "annotations": {**annotations, **marks}}}
