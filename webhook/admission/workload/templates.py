"""The pod templates of a workload of any kind: objects that have a spec with containers, with the requests above."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from webhook.formats.kubernetes.owner_chain import INHERITED, LEADER_TEMPLATE, grouped_beside
from webhook.formats.patches.json_patch import Tokens
from webhook.formats.workload.volcano import scheduler_of_pods
from webhook.model.raw import Raw
from webhook.placing.gang.workload_judgement import MAX_DEPTH, MAX_FIELD_NAME

# The pod that submits a RayJob is not part of its cluster.
_NOT_SEARCHED: Final = frozenset({"metadata", "status", "submitterPodTemplate"})
_NOTHING: Final[Raw] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Template:
    """A pod template in its workload."""

    path: Tokens
    raw: Raw
    annotations: Raw
    above: Raw
    """The annotations of the objects above that pods take from their owners; the nearest object wins."""
    default_scheduler: str = "default-scheduler"

    @property
    def scheduler(self) -> str:
        """The scheduler of its pods."""
        return str(self.raw["spec"].get("schedulerName") or self.default_scheduler)

    @property
    def prefix(self) -> str:
        """The prefix of the path of a pod's field: `spec.template.`."""
        return path_of(self.path) + ("." if self.path else "")


def path_of(tokens: Tokens) -> str:
    """The path of a field in messages: `spec.components[0].template`."""
    steps = (f"[{token}]" if isinstance(token, int) else f".{token}" for token in tokens)
    return "".join(steps).removeprefix(".")


def templates_in(
    raw: Any, path: Tokens = (), above: Raw = _NOTHING, scheduler: str = "default-scheduler"
) -> Iterator[Template]:
    """The pod templates below an object. Templates that are nested too deeply are ignored.

    scheduler: that of pods whose template names none.
    """
    if len(path) >= MAX_DEPTH:
        return
    if isinstance(raw, list):
        for index, each in enumerate(raw):
            yield from templates_in(each, (*path, index), above, scheduler)
    if not isinstance(raw, Mapping):
        return
    annotations = annotations_on(raw)
    spec = raw.get("spec")
    if isinstance(spec, Mapping) and isinstance(spec.get("containers"), list):
        # A CRD may have templates without a schema. Invalid ones are found when their pods are created.
        if _may_be_annotated(raw):
            yield Template(path, raw, annotations, above, scheduler)
        return
    scheduler = scheduler_of_pods(raw) or scheduler
    above = {**above, **asked_in(annotations)}
    for key, below in raw.items():
        if isinstance(below, Mapping | list) and key not in _NOT_SEARCHED and len(key) <= MAX_FIELD_NAME:
            # A leader is in the gang of its workers.
            beside = grouped_beside(raw) if key == LEADER_TEMPLATE else {}
            yield from templates_in(below, (*path, key), {**beside, **above}, scheduler)


def asked_in(annotations: Raw) -> dict[str, Any]:
    """The annotations that pods take from their owners."""
    return {key: text for key, text in annotations.items() if key in INHERITED}


def annotations_on(raw: Raw) -> Raw:
    """The annotations of an object; {} if they have an invalid type."""
    metadata = raw.get("metadata")
    annotations = metadata.get("annotations") if isinstance(metadata, Mapping) else None
    return annotations if isinstance(annotations, Mapping) else {}


def _may_be_annotated(raw: Raw) -> bool:
    metadata = raw.get("metadata")
    return metadata is None or (
        isinstance(metadata, Mapping) and isinstance(metadata.get("annotations"), Mapping | None)
    )
