"""Collections of objects, and where the API server serves them."""

from dataclasses import dataclass

import structlog

from webhook.kube.api_errors import MalformedAnswerError, mapping_or_empty
from webhook.model.raw import Raw

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Resource:
    """A collection: group (empty for the core group), version, plural; `namespace` narrows it to one."""

    group: str
    version: str
    plural: str
    namespace: str = ""

    @property
    def path(self) -> str:
        """The URL path of the collection."""
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        scope = f"/namespaces/{self.namespace}" if self.namespace else ""
        return f"{root}{scope}/{self.plural}"

    @property
    def name(self) -> str:
        """The usual name: `pods`, `topologies.kai.scheduler`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural


def key_of(raw: Raw) -> str:
    """`namespace/name` of an object, or its name if it is cluster-scoped."""
    metadata = raw["metadata"]
    namespace = metadata.get("namespace")
    name = metadata["name"]
    return f"{namespace}/{name}" if namespace else str(name)


def is_object(raw: object) -> bool:
    """Whether it has valid metadata with a name, as every API object must."""
    metadata = mapping_or_empty(mapping_or_empty(raw).get("metadata"))
    name, namespace = metadata.get("name"), metadata.get("namespace")
    return isinstance(name, str) and bool(name) and (namespace is None or isinstance(namespace, str))


def items_of(page: Raw, path: str) -> list[Raw]:
    """The objects of a list's answer; other entries are logged and left out.

    Raises MalformedAnswerError if the answer is not a list.
    """
    items = page.get("items", "")
    if items is None:  # Go writes an empty list as null
        return []
    if not isinstance(items, list):
        msg = f"GET {path}: the answer is not a list of objects"
        raise MalformedAnswerError(msg)
    found = [raw for raw in items if is_object(raw)]
    if len(found) < len(items):
        log.warning("list.odd_objects", path=path, count=len(items) - len(found))
    return found
