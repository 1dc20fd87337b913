"""Which pods are managed without an annotation, and which defaults apply to fields that a managed pod leaves unset.

1. The mode comes from the namespace's label, else from the setting `manage`. With Aligned a pod is managed if a kubelet
   would align it (see `webhook.engine.kubelet.alignable`). With All every pod is managed.
2. The mode never covers these pods: pods of DaemonSets, kubelets and other schedulers, pods whose node is chosen, pods
   in excluded namespaces, and pods that exceed the size limits. They requested nothing, so none of them is denied.
3. If a managed pod and its owners do not set the policy or the exclusiveness, the namespace's value applies, else that
   of the settings. If the namespace's annotations cannot be read, pods that need them are denied, as they are for
   invalid annotations of their own.
4. A pod of one of Kubernetes' own PodGroups is managed if the group requests a topology. If the group does not exist
   yet, the pod waits for it: the leader ungates the pod if the group requests nothing.
5. Mode and defaults are written into the pod as marks. Placement, binding and accounting read only the pod, so they
   see the values from its creation. A change of the namespace or the settings applies to new pods.

Source for 3: koordinator NodeNUMAResourceArgs.SingleNUMANodeExclusive (docs/proposals/scheduling,
20240131-pod-level-numa-policy.md).
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from webhook.engine.kubelet.alignable import is_aligned_somewhere
from webhook.formats.koordinator.intent import NO_SPEC, NUMASpec
from webhook.formats.kubernetes.namespace import Namespace
from webhook.formats.kubernetes.native_pod_group import scheduling_group_of
from webhook.formats.kubernetes.pod import Pod
from webhook.model.errors import UserError
from webhook.model.limits import check_annotations, check_size
from webhook.model.names import INHERIT, MANAGED, NUMA_DEFAULTS, SCHEDULING_GROUP
from webhook.model.options import Manage
from webhook.model.policy import Exclusive, NUMAPolicy
from webhook.model.raw import Raw
from webhook.state.cluster_snapshot import ClusterSnapshot
from webhook.state.rules import Rules
from webhook.state.unmanaged import NOT_ANNOTATED, asks, is_annotated, why_node_is_chosen, why_not_mutated

DEFAULT_NAMESPACE: Final = "default"
MARKS: Final = (MANAGED, NUMA_DEFAULTS, SCHEDULING_GROUP)
"""The annotations that record the results."""


@dataclass(frozen=True, slots=True)
class Management:
    """What the settings and a namespace say about its pods."""

    mode: Manage
    defaults: NUMASpec
    fault: str = ""
    """Why the namespace's defaults cannot be read; empty if they can."""
    warnings: tuple[str, ...] = ()
    covers: bool = False
    """Whether the mode covers the pod, if the pod itself requests nothing."""
    group: str = ""
    """The pod's PodGroup of Kubernetes itself; empty without one, and where such groups are not served."""

    @classmethod
    def of(cls, namespace: Namespace | None, rules: Rules) -> "Management":
        """What applies in a namespace; None: the namespace is unknown, only the settings apply."""
        mode = mode_in(namespace, rules)
        if namespace is None:
            return cls(mode, rules.defaults)
        return cls(mode, namespace.defaults.over(rules.defaults), namespace.fault, namespace.warnings)

    def marks(self, annotations: Mapping[str, str], own: NUMASpec) -> dict[str, str]:
        """The marks of a managed pod with these annotations. own: what they specify. Raises UserError."""
        # A pod that brings the mark from another cluster requests management by it.
        by_mode = not asks(annotations) and (self.covers or MANAGED in annotations)
        marks = {MANAGED: self.mode.label} if by_mode else {}
        if self.group:
            marks[SCHEDULING_GROUP] = self.group
        inherits = annotations.get(INHERIT) == "true" and own == NO_SPEC
        if not inherits and not _is_open(own):
            return marks
        if self.fault:
            raise UserError("", self.fault)
        # Values that apply without any default are not written.
        policy = self.defaults.policy or None
        exclusive = None if self.defaults.exclusive is Exclusive.REQUIRED else self.defaults.exclusive
        # Exclusiveness has no effect without a policy.
        if policy or (exclusive and (inherits or own.policy)):
            marks[NUMA_DEFAULTS] = NUMASpec(policy, exclusive).to_json()
        return marks


def _is_open(own: NUMASpec) -> bool:
    """Whether a default applies."""
    return own.policy is None or (own.policy is not NUMAPolicy.NONE and own.exclusive is None)


def mode_in(namespace: Namespace | None, rules: Rules) -> Manage:
    """The mode in a namespace; None: the namespace is unknown, only the settings apply."""
    return (None if namespace is None else namespace.manage) or rules.manage


@dataclass(frozen=True, slots=True)
class Unmanaged:
    """Why a pod is not managed."""

    why: str
    warnings: tuple[str, ...] = ()


def namespace_of(raw: Raw) -> str:
    """The pod's namespace; a manifest may leave it out."""
    return str((raw.get("metadata") or {}).get("namespace") or DEFAULT_NAMESPACE)


def management_of(raw: Raw, cache: ClusterSnapshot, rules: Rules, namespace: str = "") -> Management | Unmanaged:
    """What applies to a pod, or why it is unmanaged. namespace: for a template, which does not name its own."""
    name = namespace or namespace_of(raw)
    found = Management.of(cache.namespaces.get(name), rules)
    if cache.native_groups is not None and (group := scheduling_group_of(raw)):
        found = replace(found, group=group)
    annotated = is_annotated(raw)
    if annotated and (why := why_not_mutated(raw, rules)):
        return Unmanaged(why)
    annotations = (raw.get("metadata") or {}).get("annotations") or {}
    if asks(annotations):
        return found
    if _may_request(found.group, name, cache):
        # Another scheduler's pod requests nothing of us.
        return Unmanaged(why) if (why := why_node_is_chosen(raw, rules)) else found
    why = _why_not_covered(raw, name, found.mode, cache, rules)
    if why is None or annotated:
        return replace(found, covers=why is None)
    warnings = (f"unmanaged: {why}",) if why.startswith(_UNREADABLE) else ()
    return Unmanaged(why, (*found.warnings, *warnings))


def _may_request(group: str, namespace: str, cache: ClusterSnapshot) -> bool:
    """Whether the pod's PodGroup requests a topology, or is not known yet and may."""
    known = (cache.native_groups or {}).get(f"{namespace}/{group}")
    return bool(group) and (known is None or (known.constrained and not known.parent))


_UNREADABLE: Final = "it cannot be placed here: "


def _why_not_covered(raw: Raw, namespace: str, mode: Manage, cache: ClusterSnapshot, rules: Rules) -> str | None:
    """Why the mode does not cover a pod that requests nothing itself; None if it does."""
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


def as_managed(raw: Raw, cache: ClusterSnapshot, rules: Rules) -> Raw:
    """The pod with the marks that a reviewed creation would have added; unchanged if it has them or would have none.

    Faults in the namespace's annotations are ignored, because the pod exists already.
    """
    if not rules.manage_missed or is_annotated(raw):
        return raw
    # Its PodGroup may request nothing, and the leader cannot wait for it with a pod that has no gate.
    management = management_of(raw, replace(cache, native_groups=None), rules)
    if isinstance(management, Unmanaged):
        return raw
    metadata = raw["metadata"]
    annotations = metadata.get("annotations") or {}
    marks = replace(management, fault="").marks(annotations, NO_SPEC)
    return {**raw, "metadata": {**metadata, "annotations": {**annotations, **marks}}}
