"""What the objects of one call are judged against, beside each other and the cluster."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from webhook.cache.cluster_snapshot import ClusterSnapshot
from webhook.cache.management import DEFAULT_NAMESPACE
from webhook.cli.documents import Item
from webhook.cli.gang_members import RunningPod
from webhook.engine.topology.tree_cache import TopologyTrees
from webhook.kube.owners import DEEPEST
from webhook.model.membership import AssignedMember
from webhook.model.owner_chain import owner_above
from webhook.model.pod import Owner
from webhook.model.rules import Rules

Raw = Mapping[str, Any]


class Owners:
    """Objects that may own pods, as far as they are known: those of the call, and of the cluster."""

    def __init__(self, objects: Iterable[Raw] = ()) -> None:
        self._by_name: dict[tuple[str, str, str, str], Raw] = {}
        for raw in objects:
            metadata, kind = raw.get("metadata") or {}, (_group(str(raw.get("apiVersion"))), str(raw.get("kind")))
            self._by_name[_namespace(metadata), *kind, str(metadata.get("name"))] = raw

    def above(self, raw: Raw) -> tuple[list[Raw], Owner | None]:
        """The objects above one, the nearest first, and the first that is not known; None where all are.

        An object without a UID is taken for the one that is meant: it is not created yet.
        """
        chain: list[Raw] = []
        namespace = _namespace(raw["metadata"])
        owner = owner_above(raw)
        while owner is not None and len(chain) < DEEPEST:
            found = self._by_name.get((namespace, _group(owner.api_version), owner.kind, owner.name))
            if found is None or (found["metadata"].get("uid") or owner.uid) != owner.uid:
                return chain, owner
            chain.append(found)
            owner = owner_above(found)
        return chain, None


@dataclass(frozen=True, slots=True)
class JudgementContext:
    """What a judgement goes by."""

    rules: Rules
    owners: Owners
    running: Sequence[RunningPod] = ()
    """Pods of the snapshot with a node."""
    seats: Mapping[str, Mapping[str, AssignedMember]] = field(default_factory=dict)
    """Of the snapshot, the members of groups that have a place, by group and by namespace/name."""
    gated: Mapping[str, Raw] = field(default_factory=dict)
    """Of the snapshot, the pods that wait behind the gate, by namespace/name."""
    trees: TopologyTrees = field(default_factory=TopologyTrees)


def _group(api_version: str) -> str:
    return api_version.rpartition("/")[0]


def _namespace(metadata: Mapping[str, Any]) -> str:
    return str(metadata.get("namespace") or DEFAULT_NAMESPACE)


Judged = tuple[Item, ClusterSnapshot]
"""An object, and the cluster as it finds it."""
