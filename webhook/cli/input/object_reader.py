"""An object of the cluster by its kind and name, with its pods and their owners.

1. Live: the object is read, the pods of its namespace are listed (also those that have ended), and the owners of those
   that may belong to it are read upwards. From a snapshot, all of them are in it.
2. Without --namespace, it is the namespace of the kubeconfig's context, as for kubectl; for a snapshot `default`.
3. A snapshot without the object itself is enough if its pods name it.
4. A pod belongs to a workload that is among its owners. Each owner is matched by its uid.
5. A snapshot usually has no workloads, but each pod names its controller. If that is a kind which the workload makes,
   its label or name says whose it is: `web-7d9f` is a ReplicaSet of the Deployment `web`.
6. A pod belongs to a PodGroup that it, or its owners, name as its gang.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from webhook.app.settings import Settings, rules_of
from webhook.cli.command import read_cluster
from webhook.cli.input.documents import InputError, Item, Source
from webhook.cli.input.live_cluster import objects, read_owners
from webhook.cli.input.object_reference import POD, POD_GROUP, ObjectReference
from webhook.cli.input.offline_cluster import Cluster
from webhook.cli.offline.gang_members import MAKES
from webhook.cli.offline.judgement_context import Owners
from webhook.formats.kubernetes.membership import may_be_in_group, membership_of
from webhook.formats.kubernetes.owner_chain import owner_above, owner_chain_of, taken_from_owners
from webhook.formats.kubernetes.pod import Owner
from webhook.kube.api_errors import APIError
from webhook.kube.client import Client
from webhook.kube.discovery import Wanted, locate
from webhook.kube.resource import Resource
from webhook.model.errors import UserError
from webhook.model.raw import Raw
from webhook.model.wording import did_you_mean, quoted
from webhook.state.management import DEFAULT_NAMESPACE

_MADE: Final[Mapping[str, frozenset[str]]] = {**MAKES, "CronJob": frozenset({"Job"})}
# Kind -> the label on its pods that names it. Source: the APIs' labels.
_LABELS: Final[Mapping[str, str]] = {
    "JobSet": "jobset.sigs.k8s.io/jobset-name",
    "LeaderWorkerSet": "leaderworkerset.sigs.k8s.io/name",
}

# A generated name keeps at least this much of its owner's.
_WHOLE: Final = 40


def is_owned_by(pod: Raw, reference: ObjectReference, owners: Owners) -> bool:
    """Whether the workload is an owner of the pod, at any height."""
    try:
        chain, unknown = owners.above(pod)
    except UserError:
        return False  # its reference to an owner is invalid
    wanted = reference.group, reference.kind, reference.name
    if any((_group(str(raw["apiVersion"])), raw["kind"], raw["metadata"]["name"]) == wanted for raw in chain):
        return True
    if unknown is None:
        return False
    if (_group(unknown.api_version), unknown.kind, unknown.name) == wanted:
        return True
    return unknown.kind in _MADE.get(reference.kind, ()) and _is_named_after(unknown, pod, reference)


def may_be_owned_by(pod: Raw, reference: ObjectReference) -> bool:
    """Whether the pod's owner is worth a read: it, or what the workload makes, begins with the workload's name."""
    try:
        owner = owner_above(pod)
    except UserError:
        return False
    # Names that controllers generate are cut to their limit.
    return owner is not None and owner.name.startswith(reference.name[:_WHOLE])


def _is_named_after(owner: Owner, pod: Raw, reference: ObjectReference) -> bool:
    if (label := _LABELS.get(reference.kind)) is not None:
        return bool((pod["metadata"].get("labels") or {}).get(label) == reference.name)
    if owner.kind == "RayCluster":
        return owner.name.startswith(f"{reference.name}-")
    # The controller appends one word: a hash, a time, or "launcher".
    return owner.name.rpartition("-")[0] == reference.name


def _group(api_version: str) -> str:
    return api_version.rpartition("/")[0]


_BUDGETS: Final = Resource("policy", "v1", "poddisruptionbudgets")
_BUILT_IN: Final = frozenset({"", "apps", "batch"})
# Names in an error message.
_NAMED: Final = 8


@dataclass(frozen=True, slots=True)
class FoundObject:
    """What was asked for."""

    reference: ObjectReference
    namespace: str
    cluster: Cluster
    owners: Owners
    pods: Sequence[Raw]
    """Its pods by name, also those that have ended; the pod itself for a pod."""


def read_object(
    reference: ObjectReference,
    namespace: str | None,
    snapshots: Sequence[str],
    settings: Settings,
    flags: Mapping[str, str | None],
) -> FoundObject:
    """The object with its pods. Raises InputError if there is no such object."""
    live = _LiveObject(reference, namespace)
    cluster = read_cluster(snapshots, settings, flags, also=live.read)
    where = live.namespace or namespace or DEFAULT_NAMESPACE
    owners = Owners(cluster.others, cluster.asked_by(rules_of(settings)))
    in_namespace = [raw for raw in cluster.others if _kind(raw) == POD and _namespace(raw) == where]
    pods = [raw for raw in in_namespace if _belongs(raw, reference, owners)]
    if not pods and not live.exists and not _is_among(cluster.others, reference, where):
        known = live.names or _names(cluster.others, in_namespace, reference, where, owners)
        is_known = bool(in_namespace) or cluster.cache.knows_namespace(where)
        raise InputError(_not_found(reference, where, sorted(set(known)), is_known=is_known))
    return FoundObject(reference, where, cluster, owners, sorted(pods, key=lambda raw: str(raw["metadata"]["name"])))


class _LiveObject:
    """Reads the object and its pods from a live cluster."""

    def __init__(self, reference: ObjectReference, namespace: str | None) -> None:
        self._reference = reference
        self._asked = namespace
        self.namespace = ""
        """Empty until something is read: for a snapshot."""
        self.exists = False
        self.names: list[str] = []
        """Objects of the kind, if this one does not exist."""

    async def read(self, cluster: Cluster, client: Client) -> None:
        """Add the pods of the namespace and their owners. Raises ClusterError."""
        self.namespace = self._asked or client.namespace
        reference = self._reference
        pods = await self._list(client, Resource("", "v1", "pods", quote(self.namespace, safe="")))
        pods = [{"apiVersion": "v1", "kind": "Pod", **raw} for raw in pods]
        if (reference.group, reference.kind) == POD:
            wanted = [raw for raw in pods if raw["metadata"]["name"] == reference.name]
            self.names = [raw["metadata"]["name"] for raw in pods]
        elif (reference.group, reference.kind) == POD_GROUP:
            wanted = [raw for raw in pods if may_be_in_group(raw["metadata"].get("annotations") or {})]
        else:
            await self._find(client)
            wanted = [raw for raw in pods if may_be_owned_by(raw, reference)]
        cluster.others += pods
        await self._read_budgets(cluster, client)
        source = Source(client.host, "")
        await read_owners(cluster, client, [Item(source, 1, 1, "", raw) for raw in wanted])

    async def _find(self, client: Client) -> None:
        """Whether the workload exists; else the names of those that do."""
        reference = self._reference
        resource = Resource(reference.group, "v1", reference.plural)
        if reference.group not in _BUILT_IN:
            located = await locate(client, Wanted(reference.group, reference.plural))
            if located is None:
                raise InputError(f"the cluster does not serve {reference.plural}.{reference.group}")
            resource = located
        in_namespace = Resource(resource.group, resource.version, resource.plural, quote(self.namespace, safe=""))
        try:
            await client.get(f"{in_namespace.path}/{quote(reference.name, safe='')}")
            self.exists = True
        except APIError as error:
            if error.status != 404:
                raise
            self.names = [raw["metadata"]["name"] for raw in await self._list(client, in_namespace)]

    async def _read_budgets(self, cluster: Cluster, client: Client) -> None:
        """Add the PodDisruptionBudgets. Without the right to list them, pods seem to have none."""
        try:
            for raw in await self._list(client, _BUDGETS):
                cluster.add_disruption_budget(raw)
        except (APIError, UserError) as error:
            cluster.warnings.append(f"PodDisruptionBudgets cannot be read, so preemption counts none: {error}")

    async def _list(self, client: Client, resource: Resource) -> list[Raw]:
        return [raw async for raw in objects(client, resource.path, "")]


def gang_name(pod: Raw, owners: Owners) -> str:
    """The name of the pod's gang, with what it takes from its owners; empty without one."""
    try:
        owner = owner_above(pod)
        chain = owner_chain_of(owner, owners.above(pod)[0]) if owner else None
        taken = taken_from_owners(pod, chain) if chain else {}
    except UserError:
        taken = {}
    annotations = {**taken, **(pod["metadata"].get("annotations") or {})}
    membership = membership_of({**pod, "metadata": {**pod["metadata"], "annotations": annotations}})
    return membership.name if membership else ""


def _belongs(pod: Raw, reference: ObjectReference, owners: Owners) -> bool:
    if (reference.group, reference.kind) == POD:
        return bool(pod["metadata"]["name"] == reference.name)
    if (reference.group, reference.kind) == POD_GROUP:
        return gang_name(pod, owners) == reference.name
    return is_owned_by(pod, reference, owners)


def _is_among(others: Iterable[Raw], reference: ObjectReference, namespace: str) -> bool:
    wanted = (reference.group, reference.kind), namespace, reference.name
    return any((_kind(raw), _namespace(raw), raw["metadata"].get("name")) == wanted for raw in others)


def _names(
    others: Iterable[Raw], pods: Iterable[Raw], reference: ObjectReference, namespace: str, owners: Owners
) -> Iterable[str]:
    """The objects of this kind in a snapshot, also those that only pods name."""
    if (reference.group, reference.kind) == POD_GROUP:
        return filter(None, (gang_name(pod, owners) for pod in pods))
    wanted = (reference.group, reference.kind), namespace
    found = [str(raw["metadata"].get("name")) for raw in others if (_kind(raw), _namespace(raw)) == wanted]
    named = [owner for pod in pods for owner in pod["metadata"].get("ownerReferences") or ()]
    return [*found, *(str(owner.get("name")) for owner in named if _kind(owner) == wanted[0])]


def _not_found(reference: ObjectReference, namespace: str, known: Sequence[str], *, is_known: bool) -> str:
    text = f"there is no {reference} in namespace {quoted(namespace)}."
    if (reference.group, reference.kind) == POD_GROUP:
        text = f"no pod in namespace {quoted(namespace)} is in the {reference}."
    if not is_known:
        return f"{text} There is no such namespace; name another with --namespace"
    if not known:
        return f"{text} It has no {reference.kind} at all"
    more = f" and {len(known) - _NAMED} more" if len(known) > _NAMED else ""
    return f"{text}{did_you_mean(reference.name, known)} There are: {', '.join(known[:_NAMED])}{more}"


def _kind(raw: Raw) -> tuple[str, str]:
    return str(raw.get("apiVersion")).rpartition("/")[0], str(raw.get("kind"))


def _namespace(raw: Raw) -> str:
    return str(raw["metadata"].get("namespace") or DEFAULT_NAMESPACE)
