"""The cluster and the other objects of a call, against which each object is judged."""

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Self

from webhook.cli.input.documents import Item
from webhook.cli.input.offline_cluster import Cluster
from webhook.cli.offline.gang_members import RunningPod
from webhook.formats.kubernetes.gates import waits_for_us_alone
from webhook.formats.kubernetes.membership import may_be_in_group
from webhook.formats.kubernetes.owner_chain import OwnerChain, owner_above, owner_chain_of
from webhook.formats.kubernetes.pod import Owner
from webhook.kube.owners import DEEPEST
from webhook.model.errors import UserError
from webhook.model.raw import Raw
from webhook.placing.gang.gang_search import GatedGang
from webhook.placing.planner import Planner
from webhook.placing.pod.gated_pods import GatedPod
from webhook.placing.waiting_unit import WaitingUnit, units_of
from webhook.state.cluster_snapshot import ClusterSnapshot
from webhook.state.management import DEFAULT_NAMESPACE
from webhook.state.rules import Rules
from webhook.state.unmanaged import why_not_scheduled_by_ours


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
    """The planner of the cluster, and what it does not know: the owners of pods, and which pods run for them."""

    planner: Planner
    owners: Owners
    running: Sequence[RunningPod] = ()
    """Pods of the cluster with a node."""

    @classmethod
    def of(cls, cluster: Cluster, rules: Rules, items: Iterable[Item] = ()) -> Self:
        """That of a cluster. items: the objects of the call, which may own pods, too."""
        owners = Owners([*cluster.others, *(item.body for item in items)], cluster.asked_by(rules))
        return cls(Planner(cluster.cache, rules), owners, cluster.running)

    @property
    def rules(self) -> Rules:
        """The rules of the service."""
        return self.planner.rules

    def owner_chain(self, pod: Raw) -> tuple[OwnerChain | None, tuple[str, ...]]:
        """The owners of a pod, and a warning for those that are unknown."""
        owner = owner_above(pod)
        if owner is None:
            return None, ()
        chain, unknown = self.owners.above(pod)
        takes = may_be_in_group(pod["metadata"].get("annotations") or {})
        return owner_chain_of(owner, chain), (unknown_owner(unknown),) if unknown and takes else ()

    def gated(self, raw: Raw) -> GatedPod:
        """A gated pod of the cluster, with what it takes from its owners and its PodGroup. Raises UserError."""
        return self.planner.read(raw, self.owner_chain(raw)[0])

    def waiting_members(self, groups: Container[str]) -> dict[str, list[GatedPod]]:
        """The members of these gangs that wait in the cluster."""
        found: dict[str, list[GatedPod]] = {}
        for gated in self._gated(self.planner.state.gated_pods().values()):
            if gated.membership is not None and gated.membership.group in groups:
                found.setdefault(gated.membership.group, []).append(gated)
        return found

    def unit_of(self, gated: GatedPod) -> WaitingUnit | None:
        """The pod, or its gang with the members that wait; None if none of these can be placed together."""
        if gated.membership is None:
            return WaitingUnit(gated)
        group = gated.membership.group
        assigned = self.planner.state.gangs.assigned(group)
        waiting = self.waiting_members({group}).get(group, ())
        members = sorted((one for one in waiting if one.key not in assigned), key=lambda one: one.order)
        return self.planner.unit(GatedGang(gated.membership, tuple(members)))

    def units(self) -> list[WaitingUnit]:
        """All that waits for us alone, in the leader's order. What cannot be read or placed together is left out."""
        raws = (
            raw
            for raw in self.planner.state.gated_pods().values()
            if waits_for_us_alone(raw) and "deletionTimestamp" not in raw["metadata"]
        )
        pods = (
            gated for gated in self._gated(raws) if gated.asks and not why_not_scheduled_by_ours(gated.raw, self.rules)
        )
        found = map(self.planner.unit, units_of(sorted(pods, key=lambda one: one.order)))
        return [unit for unit in found if unit is not None]

    def _gated(self, raws: Iterable[Raw]) -> Iterator[GatedPod]:
        """Those of these pods that can be read. Others wait alone, and their messages say why."""
        for raw in raws:
            with suppress(UserError):
                yield self.gated(raw)


def unknown_owner(owner: Owner) -> str:
    """A warning about an unknown owner."""
    where = "neither among the objects nor in the cluster"
    return f"its owner {owner.kind} {owner.name} is {where}: what it asks for is not known."


def _group(api_version: str) -> str:
    return api_version.rpartition("/")[0]


def _namespace(metadata: Raw) -> str:
    return str(metadata.get("namespace") or DEFAULT_NAMESPACE)


Judged = tuple[Item, ClusterSnapshot]
"""An object, and the cluster at its creation."""
