"""Gated pods and their patches."""

from typing import Any

import jsonpatch

from tests.builders.pods import pod
from webhook.formats.koordinator.numa_allocation import NUMAAllocation
from webhook.model.names import PLACEMENT_GATE

ALLOCATION = NUMAAllocation("b", ((1, {"cpu": 8000, "memory": 1 << 30}),))


GATES = [{"name": PLACEMENT_GATE}]


def gated(raw: dict[str, Any] | None = None) -> dict[str, Any]:
    raw = raw or pod()
    metadata = {**raw["metadata"], "resourceVersion": "7"}
    metadata["annotations"] = metadata.get("annotations") or {}
    return {**raw, "metadata": metadata, "spec": {**raw["spec"], "schedulingGates": GATES}}


def applied(raw: dict[str, Any], operations: Any) -> dict[str, Any]:
    patched: dict[str, Any] = jsonpatch.apply_patch(raw, list(operations))
    return patched
