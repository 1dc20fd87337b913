"""Koordinator's Reservations as its scheduler writes them (v1.7.0: pkg/util/reservation, plugins/nodenumaresource)."""

import json
from collections.abc import Mapping
from typing import Any


def reservation(
    *,
    name: str = "r",
    node: str = "n0",
    phase: str = "Available",
    held: Mapping[str, str],
    allocated: Mapping[str, str] | None = None,
    numa: Mapping[int, Mapping[str, str]] | None = None,
) -> dict[str, Any]:
    """A Reservation. held: what it was given; allocated: what its owners have of it; numa: of which NUMA nodes."""
    status: dict[str, Any] = {"phase": phase, "nodeName": node, "allocatable": dict(held)}
    given = [{"node": numa_id, "resources": dict(amounts)} for numa_id, amounts in (numa or {}).items()]
    written = {"scheduling.koordinator.sh/resource-status": json.dumps({"numaNodeResources": given})} if given else {}
    return {
        "apiVersion": "scheduling.koordinator.sh/v1alpha1",
        "kind": "Reservation",
        "metadata": {"name": name, "annotations": written},
        "spec": {
            "template": {"spec": {"containers": [{"name": "c", "resources": {"requests": dict(held)}}]}},
            "owners": [{"labelSelector": {"matchLabels": {"app": "owner"}}}],
            "ttl": "24h",
        },
        "status": status | ({"allocated": dict(allocated)} if allocated else {}),
    }
