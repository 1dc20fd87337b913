"""The PodGroups of a namespace, and their text."""

from __future__ import annotations

from typing import Any

from tests.cluster.api import ApiError
from tests.cluster.gated import PLACEMENT, Pods


def groups(pods: Pods) -> dict[str, dict[str, Any]]:
    """PodGroups by name; empty if the kind is not served."""
    try:
        found = pods.plane.api.get(f"/apis/scheduling.run.ai/v2alpha2/namespaces/{pods.namespace}/podgroups")["items"]
    except ApiError:
        return {}
    return {raw["metadata"]["name"]: raw for raw in found}


def says(pods: Pods, name: str, text: str) -> bool:
    return text in groups(pods).get(name, {"metadata": {"annotations": {}}})["metadata"]["annotations"].get(
        PLACEMENT, ""
    )
