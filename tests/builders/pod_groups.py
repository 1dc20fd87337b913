"""KAI-Scheduler's PodGroups as users write them."""

from collections.abc import Mapping
from typing import Any


def pod_group(
    *subgroups: Mapping[str, Any], name: str = "g", namespace: str = "default", **spec: Any
) -> dict[str, Any]:
    """A PodGroup with these subgroups. namespace: "" = none, as in a manifest."""
    return {
        "apiVersion": "scheduling.run.ai/v2alpha2",
        "kind": "PodGroup",
        "metadata": {"name": name, **({"namespace": namespace} if namespace else {})},
        "spec": {**({"subGroups": list(subgroups)} if subgroups else {}), **spec},
    }


def constraint(required: str = "", preferred: str = "", topology: str = "network") -> dict[str, str]:
    """A topology constraint."""
    levels = {"requiredTopologyLevel": required, "preferredTopologyLevel": preferred}
    return {"topology": topology, **{key: level for key, level in levels.items() if level}}
