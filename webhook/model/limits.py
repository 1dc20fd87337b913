"""The largest pod that we place. The limits are beyond anything in use; they keep one pod from blocking others.

The API server takes objects of 3 MiB. At 5,000 nodes of 8 NUMA nodes a decision costs about 1 ms for each container
that names a few resources, 20 us for each requirement on node labels, a few us for a value. With these limits a
decision stays within 100 ms and 64 MiB. Objects that request no placement are never checked. See docs/limits.md.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from webhook.model.errors import UserError, UserErrors
from webhook.model.raw import Raw
from webhook.model.wording import counted

MAX_CONTAINERS: Final = 64
"""Containers and init containers of a pod. The largest pods in use have dozens; each costs a decision about 1 ms."""
MAX_REQUESTS: Final = 512
"""Resources that the containers of a pod name, added up: eight for each of 64."""
MAX_RESOURCES: Final = 32
"""Distinct resources that a pod names. Kubernetes defines about eight, and a machine has a few kinds of devices."""
MAX_TERMS: Final = 256
"""Required terms of a node affinity, and preferred ones. Each of our alternatives is added to each term."""
MAX_REQUIREMENTS: Final = 1_024
"""Requirements in all terms, plus labels of a nodeSelector."""
MAX_VALUES: Final = 16_384
"""Values in all requirements: three times as many names as Kubernetes supports nodes."""
MAX_ADDED: Final = 1_024
"""Terms and requirements that we add to an affinity: alternatives times existing terms. A pod with one term of three
requirements can be limited to any 256 nodes, even without a common label.
"""
MAX_TOLERATIONS: Final = 1_024
"""Tolerations of a pod."""
MAX_NAME: Final = 317
"""Characters of a resource's name: a DNS subdomain (253), a slash and a name (63)."""

MAX_ANNOTATIONS: Final = 192 * 1024
"""Bytes of a pod's annotations, names and values. The API server allows 256 KiB, and we need room for ours: hints name
at most 32 resources on each of 8 NUMA nodes, and usually take 2 KiB.
"""
_WHILE_IT_WAITS: Final = 16 * 1024
"""The annotations that we add, and those from its owners, on a waiting pod."""


class TooLarge(UserError):  # noqa: N818 - what it says of the object
    """The object is larger than we place; it is denied in every mode."""


class _Size(NamedTuple):
    path: str
    size: int
    allowed: int
    what: str


def check_size(spec: Raw, *, with_ours: bool = False) -> None:
    """Raise TooLarge (UserErrors for several faults) if a pod's spec exceeds these limits.

    Only counts are checked; the readers of each field check its type. with_ours: the spec may include what we add.
    """
    faults = [
        TooLarge(
            one.path,
            f"There are {one.size} {one.what}. A pod that asks for a placement may have at most {one.allowed}.",
        )
        for one in _sizes(spec, with_ours)
        if one.size > one.allowed
    ]
    if faults:
        raise faults[0] if len(faults) == 1 else UserErrors(faults)


def check_annotations(annotations: Mapping[str, object], *, with_ours: bool = False) -> None:
    """Raise TooLarge if a pod's annotations leave no room for those that we add.

    Otherwise such a pod would get assignments again and again that cannot be written. with_ours: some may be there
    already.
    """
    # A character has at most four bytes, so most pods need no encoding.
    if 4 * sum(len(name) + len(str(value)) for name, value in annotations.items()) <= MAX_ANNOTATIONS:
        return
    size = sum(len(text.encode("utf-8", "replace")) for pair in annotations.items() for text in map(str, pair))
    if size > MAX_ANNOTATIONS + with_ours * _WHILE_IT_WAITS:
        raise TooLarge(
            "metadata.annotations",
            f"They have {counted(size, 'byte')}. A pod that is placed here may have {MAX_ANNOTATIONS}: a placement "
            "adds some.",
        )


def _sizes(spec: Raw, with_ours: bool) -> Iterator[_Size]:
    containers = [*_list(spec, "initContainers"), *_list(spec, "containers")]
    yield _Size("spec.containers", len(containers), MAX_CONTAINERS, "containers and init containers")
    lists = [_object(container, "resources") for container in containers]
    lists = [found for one in lists for field in ("requests", "limits") if (found := _object(one, field))]
    whole = _object(spec, "resources")
    lists += [_object(spec, "overhead"), _object(whole, "requests"), _object(whole, "limits")]
    named = sum(map(len, lists))
    # A limit without a request counts as a request.
    yield _Size("spec.containers", named, 2 * MAX_REQUESTS, "resource requests and limits")
    if named <= 2 * MAX_REQUESTS:
        names = {name for one in lists for name in one}
        yield _Size("spec.containers", len(names), MAX_RESOURCES, "distinct resources")
        longest = max(map(len, names), default=0)
        yield _Size("spec.containers", longest, MAX_NAME, "characters in the name of a resource")
    yield _Size("spec.tolerations", len(_list(spec, "tolerations")), MAX_TOLERATIONS, "tolerations")
    yield _Size("spec.nodeSelector", len(_object(spec, "nodeSelector")), MAX_REQUIREMENTS, "labels")
    most_terms = MAX_TERMS + with_ours * MAX_ADDED
    affinity = _object(_object(spec, "affinity"), "nodeAffinity")
    path = "spec.affinity.nodeAffinity"
    required = _list(_object(affinity, "requiredDuringSchedulingIgnoredDuringExecution"), "nodeSelectorTerms")
    preferred = _list(affinity, "preferredDuringSchedulingIgnoredDuringExecution")
    yield _Size(f"{path}.requiredDuringSchedulingIgnoredDuringExecution", len(required), most_terms, "terms")
    yield _Size(f"{path}.preferredDuringSchedulingIgnoredDuringExecution", len(preferred), most_terms, "terms")
    if max(len(required), len(preferred)) <= most_terms:
        terms = [*required, *(_object(one, "preference") for one in preferred if isinstance(one, dict))]
        requirements = [one for term in terms for field in _REQUIREMENTS for one in _list(term, field)]
        yield _Size(path, len(requirements), MAX_REQUIREMENTS + with_ours * 2 * MAX_ADDED, "requirements")
        values = sum(len(_list(one, "values")) for one in requirements)
        # Each term may contain up to 1,000 names.
        yield _Size(path, values, MAX_VALUES + with_ours * MAX_TERMS * MAX_ADDED, "values")


_REQUIREMENTS: Final = ("matchExpressions", "matchFields")


def _list(raw: object, name: str) -> Sequence[Any]:
    value = raw.get(name) if isinstance(raw, Mapping) else None
    return value if isinstance(value, list) else ()


def _object(raw: object, name: str) -> Raw:
    value = raw.get(name) if isinstance(raw, Mapping) else None
    return value if isinstance(value, Mapping) else {}
