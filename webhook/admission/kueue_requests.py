"""Objects with Kueue's topology annotations, as if they had been written in our names (`webhook.formats.kueue`).

1. Off by default (`Rules.kueue_annotations`): in a cluster with Kueue its annotations are for Kueue.
2. What Kueue manages is left to it: a pod or workload with its queue label, or a pod with its gate.
3. Kueue reads pod templates and bare pods only, and so do we: an annotation on the workload itself gets a warning.
4. Pod sets of one `podset-group-name` share one domain. So the request of such a group becomes that of the whole
   workload, and a group that is only a part of the workload is denied.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from webhook.admission.workload.templates import Template, annotations_on, templates_in
from webhook.formats.kueue import (
    KUEUE_ANNOTATIONS,
    AsOurs,
    as_ours,
    asks_kueue,
    kueues_names,
    owner_is_kueues,
    why_kueues,
)
from webhook.formats.patches.json_patch import Patch
from webhook.formats.topology import Topology
from webhook.model.errors import UserError, UserErrors
from webhook.model.names import (
    KAI_PREFERRED_PLACEMENT,
    KAI_REQUIRED_PLACEMENT,
    KAI_TOPOLOGY,
    KUEUE_POD_SET_GROUP,
)
from webhook.model.raw import Raw
from webhook.state.rules import Rules

_LEVELS: Final = (KAI_TOPOLOGY, KAI_REQUIRED_PLACEMENT, KAI_PREFERRED_PLACEMENT)
_OWN: Final = "metadata.annotations"


@dataclass(frozen=True, slots=True)
class KueueRequest:
    """An object as if Kueue's annotations had been written in our names."""

    raw: Raw
    added: Mapping[str, str]
    """For a pod: the annotations of ours that Kueue's stand for and that it does not have."""
    warnings: tuple[str, ...] = ()
    paths: Mapping[str, str] = field(default_factory=dict)
    """The path of each annotation of ours that was added, with that of Kueue's for which it stands."""

    def told(self, text: str) -> str:
        """A text about `raw` in the names that its user wrote."""
        for ours, kueues in self.paths.items():
            text = text.replace(ours, kueues)
        return text


def asked_pod(
    raw: Raw, topologies: Mapping[str, Topology], rules: Rules, path: str = "", kueues_owner: str = ""
) -> KueueRequest:
    """A pod with Kueue's annotations read as ours. Raises UserError.

    path: that of its template, for messages. kueues_owner: what shows that Kueue manages its owner; empty: nothing.
    """
    metadata = raw.get("metadata") or {}
    annotations = metadata.get("annotations") or {}
    if not rules.kueue_annotations or not asks_kueue(annotations) or kueues_owner or why_kueues(raw):
        return KueueRequest(raw, {})
    read = as_ours(annotations, f"{path}{_OWN}", topologies)
    if not read.added:
        return KueueRequest(raw, {}, read.warnings)
    whole = {**raw, "metadata": {**metadata, "annotations": {**annotations, **read.added}}}
    return KueueRequest(whole, read.added, read.warnings, _paths(f"{path}{_OWN}", annotations))


def left_to_kueue_text(raw: Raw, rules: Rules, kueues_owner: str = "") -> str:
    """A clause for an unmanaged pod with Kueue's annotations; empty for any other. kueues_owner: see `asked_pod`."""
    if not asks_kueue((raw.get("metadata") or {}).get("annotations") or {}):
        return ""
    if not rules.kueue_annotations:
        return "its topology annotations are Kueue's, which are not read (setting kueueAnnotations)"
    if kueues := why_kueues(raw):
        return f"its topology annotations are left to Kueue, which manages it ({kueues})"
    return owner_is_kueues(kueues_owner) if kueues_owner else ""


def asked_workload(raw: Raw, topologies: Mapping[str, Topology], rules: Rules) -> KueueRequest:
    """A workload whose templates have Kueue's annotations read as ours. Raises UserError with all faults."""
    if not rules.kueue_annotations or not isinstance(raw.get("metadata"), Mapping):
        return KueueRequest(raw, {})
    warnings: list[str] = []
    if on_it := [key for key in KUEUE_ANNOTATIONS if key in annotations_on(raw)]:
        warnings.append(f"{_OWN}[{', '.join(on_it)}] has no effect here. Write it on the pod template.")
    templates = [one for one in templates_in(raw) if one.scheduler in rules.scheduler_names]
    asking = [one for one in templates if asks_kueue(one.annotations)]
    if not asking:
        return KueueRequest(raw, {}, tuple(warnings))
    if kueues := why_kueues(raw):
        text = f"Kueue places the pods of this workload ({kueues}), so its topology annotations are left to Kueue."
        return KueueRequest(raw, {}, (*warnings, text))
    read, faults = _read(asking, topologies)
    try:
        whole = _group(read, len(templates))
    except UserError as fault:
        faults += fault.faults
    if faults:
        raise faults[0] if len(faults) == 1 else UserErrors(faults)
    warnings += [warning for _, one in read for warning in one.warnings]
    paths: dict[str, str] = {}
    for template, _ in read:
        paths |= _paths(f"{template.prefix}{_OWN}", template.annotations, _OWN if whole else "")
    patch = Patch(raw)
    for key, text in whole.items():
        patch.put(("metadata", "annotations", key), text)
    for template, one in read:
        for key, text in one.added.items():
            if key not in whole:
                patch.put((*template.path, "metadata", "annotations", key), text)
        for key in whole.keys() & template.annotations.keys():
            patch.remove((*template.path, "metadata", "annotations", key))
    return KueueRequest(patch.document, {}, tuple(warnings), paths)


def _paths(path: str, annotations: Raw, written: str = "") -> dict[str, str]:
    """See `KueueRequest.paths`. written: where ours are, if not beside Kueue's."""
    return {f"{written or path}[{ours}]": f"{path}[{kueues}]" for ours, kueues in kueues_names(annotations).items()}


def _read(
    asking: list[Template], topologies: Mapping[str, Topology]
) -> tuple[list[tuple[Template, AsOurs]], list[UserError]]:
    """The templates with what they ask for, and the faults of the others."""
    read: list[tuple[Template, AsOurs]] = []
    faults: list[UserError] = []
    for template in asking:
        try:
            if not why_kueues(template.raw):
                read.append((template, as_ours(template.annotations, f"{template.prefix}{_OWN}", topologies)))
        except UserError as fault:
            faults += fault.faults
    return read, faults


def _group(read: list[tuple[Template, AsOurs]], templates: int) -> dict[str, str]:
    """Step 4: the request of the pod set group as that of the whole workload; {} without a group. Raises UserError."""
    named = [(template, one) for template, one in read if one.group]
    if not named:
        return {}
    first, group = named[0]
    path = f"{first.prefix}{_OWN}"
    asked = {key: text for key, text in group.asked.items() if key in _LEVELS}
    if len(named) < templates:
        raise UserError(
            f"{path}[{KUEUE_POD_SET_GROUP}]",
            f"{len(named)} of {templates} pod templates name a pod set group, which must be the whole workload here. "
            "Write it on every template, or on none.",
        )
    for template, one in named[1:]:
        where = f"{template.prefix}{_OWN}"
        if one.group != group.group:
            text = f"This is another pod set group than {path} names. A workload can have only one here."
            raise UserError(f"{where}[{KUEUE_POD_SET_GROUP}]", text)
        if {key: text for key, text in one.asked.items() if key in _LEVELS} != asked:
            raise UserError(where, f"All pod sets of a pod set group must name the same level, that of {path}.")
    return asked
