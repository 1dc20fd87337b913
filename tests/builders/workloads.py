"""Workloads and their owner chains."""

from typing import Any

from webhook.model.owner_chain import OwnerChain, owner_chain_of
from webhook.model.pod import Owner

TEMPLATE = {"spec": {"containers": [{"name": "main"}]}}


def owned(
    kind: str, api_version: str, spec: dict[str, Any], above: str = "", name: str = "w", **annotations: str
) -> dict[str, Any]:
    metadata: dict[str, Any] = {"namespace": "ns", "name": name, "uid": f"uid-{kind}", "annotations": annotations}
    if above:
        metadata["ownerReferences"] = [
            {"apiVersion": "batch/v1", "kind": above, "name": "above", "uid": f"uid-{above}", "controller": True}
        ]
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec}


def job(above: str = "", **annotations: str) -> dict[str, Any]:
    return owned("Job", "batch/v1", {"parallelism": 4, "completions": 4, "template": TEMPLATE}, above, **annotations)


def of(*chain: dict[str, Any]) -> OwnerChain:
    return owner_chain_of(Owner("v1", "Thing", "thing", "uid-thing", True), chain)
