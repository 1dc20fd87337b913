"""The cluster and the other objects of a call, against which each object is judged."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from webhook.cli.input.documents import Item
from webhook.cli.offline.gang_members import RunningPod
from webhook.engine.topology.tree_cache import TopologyTrees
from webhook.formats.kubernetes.membership import AssignedMember
from webhook.formats.kubernetes.owner_chain import owner_above
from webhook.formats.kubernetes.pod import Owner
from webhook.kube.owners import DEEPEST
from webhook.model.raw import Raw
from webhook.state.cluster_snapshot import ClusterSnapshot
from webhook.state.management import DEFAULT_NAMESPACE
from webhook.state.rules import Rules


class Owners:
    """Known objects that may own pods: those of the call and of the cluster."""

    def __init__(self, objects: Iterable[Raw] = (), asked: Callable[[Raw], Raw] = lambda raw: raw) -> None:
        """asked: the owner with its request as it is read by the settings."""
        self._asked = asked
        self._by_name: dict[tuple[str, str, str, str], Raw] = {}
        for raw in objects:
            metadata, kind = raw.get("metadata") or {}, (_group(str(raw.get("apiVersion"))), str(raw.get("kind")))
            self._by_name[_namespace(metadata), *kind, str(metadata.get("name"))] = raw

    def beside(self, raw: Raw) -> "Owners":
        """These owners and one more."""
        found = Owners([raw], self._asked)
        found._by_name = {**self._by_name, **found._by_name}
        return found

    def above(self, raw: Raw) -> tuple[list[Raw], Owner | None]:
        """The owners of an object, nearest first, and the first unknown one; None if all are known.

        An object without a UID is not created yet and matches by name.
        """
        chain: list[Raw] = []
        namespace = _namespace(raw["metadata"])
        owner = owner_above(raw)
        while owner is not None and len(chain) < DEEPEST:
            found = self._by_name.get((namespace, _group(owner.api_version), owner.kind, owner.name))
            if found is None or (found["metadata"].get("uid") or owner.uid) != owner.uid:
                return chain, owner
            chain.append(self._asked(found))
            owner = owner_above(found)
        return chain, None


@dataclass(frozen=True, slots=True)
class JudgementContext:
    """The input of a judgement."""

    rules: Rules
    owners: Owners
    running: Sequence[RunningPod] = ()
    """Pods of the snapshot with a node."""
    assigned_members: Mapping[str, Mapping[str, AssignedMember]] = field(default_factory=dict)
    """Assigned members of gangs in the snapshot, by gang and by namespace/name."""
    gated: Mapping[str, Raw] = field(default_factory=dict)
    """Gated pods in the snapshot, by namespace/name."""
    latest: ClusterSnapshot | None = None
    """The cluster with all objects of the call, in which the leader places pods; None: that of a pod's creation."""
    trees: TopologyTrees = field(default_factory=TopologyTrees)


def _group(api_version: str) -> str:
    return api_version.rpartition("/")[0]


def _namespace(metadata: Mapping[str, Any]) -> str:
    return str(metadata.get("namespace") or DEFAULT_NAMESPACE)


Judged = tuple[Item, ClusterSnapshot]
"""An object, and the cluster at its creation."""
