"""Kubernetes' own PodGroups, and pods that name one."""

from typing import Any

from tests.builders.pods import gated, plain
from webhook.model.names import SCHEDULING_GROUP


def native_pod_group(
    *,
    name: str = "g",
    namespace: str = "default",
    minimum: Any = None,
    level: Any = "",
    version: str = "v1alpha2",
    **spec: Any,
) -> dict[str, Any]:
    """A PodGroup. minimum: None = the policy `basic`. level: the key of its topology constraint; empty: none."""
    policy = {"basic": {}} if minimum is None else {"gang": {"minCount": minimum}}
    constraints = {"schedulingConstraints": {"topology": [{"key": level}]}} if level else {}
    return {
        "apiVersion": f"scheduling.k8s.io/{version}",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": namespace, "uid": f"uid-{name}"},
        "spec": {"schedulingPolicy": policy, **constraints, **spec},
    }


def in_group(group: str = "g", **how: Any) -> dict[str, Any]:
    """A pod of a PodGroup without annotations, as a user creates it."""
    return plain(schedulingGroup={"podGroupName": group}, **how)


def gated_in_group(group: str = "g", **how: Any) -> dict[str, Any]:
    """The same behind our gate, marked at its creation."""
    marks = {SCHEDULING_GROUP: group, **how.pop("annotations", {})}
    return gated(schedulingGroup={"podGroupName": group}, annotations=marks, **{"numa": None, **how})
