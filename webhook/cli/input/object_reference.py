"""The object of a call, as kubectl names it: KIND/NAME."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from webhook.cli.input.documents import InputError
from webhook.formats.workload.readers import READERS
from webhook.formats.workload.volcano import VOLCANO_JOB
from webhook.model.wording import did_you_mean, quoted

POD: Final = ("", "Pod")
POD_GROUP: Final = ("scheduling.run.ai", "PodGroup")
NATIVE_POD_GROUP: Final = ("scheduling.k8s.io", "PodGroup")
POD_GANG: Final = ("scheduler.grove.io", "PodGang")
POD_CLIQUE_SET: Final = ("grove.io", "PodCliqueSet")
GROVE_TOPOLOGY: Final = ("grove.io", "ClusterTopologyBinding")

# kubectl's short names.
_SHORT: Final[Mapping[str, tuple[str, str]]] = {
    "po": POD,
    "rc": ("", "ReplicationController"),
    "deploy": ("apps", "Deployment"),
    "rs": ("apps", "ReplicaSet"),
    "sts": ("apps", "StatefulSet"),
    "cj": ("batch", "CronJob"),
    "vj": VOLCANO_JOB,
    "lws": ("leaderworkerset.x-k8s.io", "LeaderWorkerSet"),
}
KINDS: Final[Mapping[str, tuple[str, str]]] = {
    ("vcjob" if (group, kind) == VOLCANO_JOB else kind.lower()): (group, kind)
    for group, kind in (POD, *READERS, POD_GROUP)
}
"""Name in lower case -> (API group, kind): pods, and all that makes pods or names a gang."""
_NAMES: Final = {**KINDS, **{f"{name}s": kind for name, kind in KINDS.items()}, **_SHORT}

# The longest name of an object in Kubernetes.
_LONGEST: Final = 253


@dataclass(frozen=True, slots=True)
class ObjectReference:
    """An object's group, kind and name."""

    group: str
    kind: str
    name: str

    @property
    def plural(self) -> str:
        """Its kind in a URL: in lower case with an s, as for every kind here."""
        return f"{self.kind.lower()}s"

    def __str__(self) -> str:
        return f"{self.kind} {quoted(self.name)}"


def object_reference(text: str) -> ObjectReference:
    """The reference in an argument. Raises InputError."""
    kind, slash, name = text.partition("/")
    if not slash or not name or "/" in name:
        raise InputError(f"{quoted(text)} is not KIND/NAME, such as pod/train-0 or job/train")
    if len(name) > _LONGEST or not name.isprintable():
        raise InputError(f"{quoted(name)} is no name of an object: it has at most {_LONGEST} printable characters")
    # As for kubectl, a group may follow the kind: jobs.batch.
    name_of, _, group = kind.partition(".")
    found = VOLCANO_JOB if group == VOLCANO_JOB[0] and name_of in {"job", "jobs"} else _NAMES.get(name_of.lower())
    if found is None or (group or found[0]) != found[0]:
        raise InputError(f"{quoted(kind)} is no kind that can be explained.{did_you_mean(kind, KINDS)} {_allowed()}")
    return ObjectReference(*found, name)


def _allowed() -> str:
    return f"The kinds are {', '.join(sorted(KINDS))}"
