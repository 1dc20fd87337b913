"""A pod as the service keeps it: little of one that runs, all of one that waits and concerns us."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from webhook.admission.gate import waits_for_us_alone
from webhook.admission.left_alone import is_annotated, why_not_ours
from webhook.admission.rules import Rules
from webhook.model.membership import Membership, membership_of
from webhook.model.resident import ResidentPod

Raw = dict[str, Any]


@dataclass(frozen=True, slots=True)
class SeenPod:
    """A pod as it is kept: the record, and while it waits for its node the object itself if it concerns us."""

    record: ResidentPod
    waiting: Raw | None
    membership: Membership | None = None
    """Its group."""

    @classmethod
    def from_object(cls, raw: Mapping[str, Any], rules: Rules) -> "SeenPod":
        """Read a pod object; raises UserError."""
        record = ResidentPod.from_object(raw)
        if record.node or record.terminal:
            if record.hint is None and not record.terminal and why_not_ours(raw, rules) is None:
                record = replace(record, unguarded=True)
            return cls(record, None, membership_of(raw))
        if is_annotated(raw) or waits_for_us_alone(raw):
            return cls(record, dict(raw), membership_of(raw))
        metadata = raw["metadata"]
        return cls(record, {"metadata": {"name": metadata["name"], "uid": metadata.get("uid", "")}, "spec": {}})
