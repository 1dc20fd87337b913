"""Pods of Grove, as members of the PodGangs that it makes them for (`webhook.formats.grove`).

Off by default (`Rules.grove_pod_gangs`): in many clusters another scheduler reads the PodGangs. A pod that names such a
scheduler is left to it in any case.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from webhook.admission.kueue_requests import KueueRequest
from webhook.formats.grove import gang_of_pod
from webhook.model.json_text import shortened
from webhook.model.names import GROVE_POD_GANG, POD_GROUP_NAME
from webhook.state.rules import Rules

_OWN: Final = "metadata.annotations"


def in_pod_gang(asked: KueueRequest, rules: Rules, path: str = "") -> KueueRequest:
    """The pod with the annotation that makes it a member of its PodGang. path: that of its template, for messages."""
    metadata = asked.raw.get("metadata") or {}
    labels, annotations = metadata.get("labels") or {}, metadata.get("annotations") or {}
    if not rules.grove_pod_gangs or not isinstance(labels, Mapping) or not isinstance(annotations, Mapping):
        return asked
    if added := gang_of_pod(labels, annotations):
        raw = {**asked.raw, "metadata": {**metadata, "annotations": {**annotations, **added}}}
        return replace(asked, raw=raw, added={**asked.added, **added})
    name, own = labels.get(GROVE_POD_GANG), annotations.get(POD_GROUP_NAME)
    if not name or not own or own == name:
        return asked
    text = f'{path}{_OWN}[{POD_GROUP_NAME}] counts, and PodGang "{shortened(str(name))}" does not. Keep one of the two.'
    return replace(asked, warnings=(*asked.warnings, text))
