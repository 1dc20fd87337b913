"""Answers to reviews of created pods that can be given again: a controller creates many equal pods at a time.

An answer is given again if all that it depends on is the same:
- the pod, without its name, the names that the API server generates (of the pod, of its volume with the token), and
  its rank in its workload: the rank of a gang member counts once all members are there;
- the user, the namespace and its settings, the topologies;
- the nodes: as for `RecentDecisions`, nothing has changed, and the same ones are avoided after rejections.

Members of Kubernetes' own PodGroups are left out, because their answer depends on the PodGroup. So are denials: they
are rare, and quote their users.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from webhook.admission.response import Denied, Patched, Response
from webhook.codec import dumps
from webhook.formats.kubernetes.admission_review import AdmissionRequest
from webhook.formats.kubernetes.avoided_node import Avoided
from webhook.formats.kubernetes.namespace import Namespace
from webhook.formats.kubernetes.native_pod_group import scheduling_group_of
from webhook.formats.topology import Topology
from webhook.formats.workload.rank import RANK_KEYS
from webhook.state.cluster_snapshot import ClusterSnapshot

# As many as there are recent decisions. An answer takes some kilobytes, its pod up to this.
_MOST_ANSWERS: Final = 128
_LARGEST_POD: Final = 16 * 1024
# Nothing that is decided or said depends on these.
_LEFT_OUT: Final = frozenset({"name", "generateName", "uid", "creationTimestamp", "managedFields"})
# What else the controllers of gangs write to each pod. Longer texts are not theirs, and their size is checked.
_OF_ONE_MEMBER: Final = frozenset({*RANK_KEYS, "statefulset.kubernetes.io/pod-name"})
_LONGEST_VALUE: Final = 63
# Source: kubernetes plugin/pkg/admission/serviceaccount (ServiceAccountVolumeName, DefaultAPITokenMountPath).
_TOKEN: Final = re.compile(r"kube-api-access-[a-z0-9]{5}")

RecentKey = tuple[str, str, bytes]
"""What makes two reviews equal: namespace, user, pod."""
_Basis = tuple[tuple[int, int], Mapping[str, Topology], Avoided]
"""Version of the nodes, topologies, avoided nodes."""


@dataclass(frozen=True, slots=True)
class _Answer:
    """An answer, and the settings of the namespace that it is based on."""

    namespace: Namespace | None
    response: Response


class RecentAnswers:
    """The answers since the last change of the cluster, for one set of rules."""

    def __init__(self) -> None:
        self._basis: _Basis | None = None
        self._answers: dict[RecentKey, _Answer] = {}

    def get(self, key: RecentKey | None, cluster_snapshot: ClusterSnapshot) -> Response | None:
        """The answer to an equal review, if the cluster has not changed since; else None."""
        if key is None or self._basis != _basis_of(cluster_snapshot) or (known := self._answers.get(key)) is None:
            return None
        return known.response if known.namespace == cluster_snapshot.namespaces.get(key[0]) else None

    def put(self, key: RecentKey | None, cluster_snapshot: ClusterSnapshot, answer: Response) -> Response:
        """Keep an answer for equal reviews. Returns it, encoded."""
        if key is None or isinstance(answer, Denied):
            return answer
        basis = _basis_of(cluster_snapshot)
        if self._basis != basis or len(self._answers) >= _MOST_ANSWERS:
            self._answers.clear()
            self._basis = basis
        if isinstance(answer, Patched):
            answer = answer.encoded()
        self._answers[key] = _Answer(cluster_snapshot.namespaces.get(key[0]), answer)
        return answer


def key_of(request: AdmissionRequest) -> RecentKey | None:
    """What makes two reviews of created pods equal; None if the answer is not to be given again."""
    try:
        text = _text(request.object)
    except (AttributeError, KeyError, TypeError, ValueError):
        return None  # no API server sends such a pod; its faults are found where it is read
    if text is None or len(text) > _LARGEST_POD:
        return None
    return request.namespace, request.user.username, text


def _text(pod: Mapping[str, Any]) -> bytes | None:
    """The pod without what differs between equal pods; None for a member of one of Kubernetes' own PodGroups."""
    metadata = pod["metadata"]
    if scheduling_group_of(pod):
        return None
    applied = [one for one in metadata.get("managedFields") or () if one.get("operation") != "Update"]
    kept = {name: value for name, value in metadata.items() if name not in _LEFT_OUT}
    for field in ("labels", "annotations"):
        if held := kept.get(field):
            kept[field] = {name: value for name, value in held.items() if not _is_of_one_member(name, value)}
    return dumps([kept, applied, _without_generated_names(_without_hostname(pod)), pod.get("status")])


def _is_of_one_member(name: str, value: str) -> bool:
    return name in _OF_ONE_MEMBER and len(value) <= _LONGEST_VALUE


def _without_hostname(pod: Mapping[str, Any]) -> dict[str, Any]:
    """The spec without the hostname that controllers of Jobs and StatefulSets set: the pod's name, or what is in it."""
    spec: dict[str, Any] = pod["spec"]
    hostname = spec.get("hostname")
    if not hostname or len(hostname) > _LONGEST_VALUE or not pod["metadata"].get("ownerReferences"):
        return spec
    return {name: value for name, value in spec.items() if name != "hostname"}


def _without_generated_names(spec: dict[str, Any]) -> dict[str, Any]:
    """The spec without the random part of the name of the volume that every pod gets for its token."""
    volumes = spec.get("volumes")
    if not volumes or not any(map(_is_token, volumes)):
        return spec
    changed = {**spec, "volumes": [_renamed(volume) for volume in volumes]}
    for kind in ("initContainers", "containers"):
        if containers := spec.get(kind):
            changed[kind] = [
                {**container, "volumeMounts": [_renamed(mount) for mount in container.get("volumeMounts") or ()]}
                for container in containers
            ]
    return changed


def _is_token(named: Mapping[str, Any]) -> bool:
    return _TOKEN.fullmatch(named.get("name") or "") is not None


def _renamed(named: Mapping[str, Any]) -> Mapping[str, Any]:
    return {**named, "name": "kube-api-access"} if _is_token(named) else named


def _basis_of(cluster_snapshot: ClusterSnapshot) -> _Basis:
    return cluster_snapshot.nodes.version, cluster_snapshot.topologies, cluster_snapshot.avoided
