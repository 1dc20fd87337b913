"""Which collection of objects is meant, and where the API server serves it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Raw = dict[str, Any]
"""An object as decoded from JSON. Never a typed model: that would drop fields newer than the client."""


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
        """The name people know it by: `pods`, `topologies.kai.scheduler`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural


def key_of(raw: Mapping[str, Any]) -> str:
    """`namespace/name` of an object, or its name when it is cluster-scoped."""
    metadata = raw["metadata"]
    namespace = metadata.get("namespace")
    name = metadata["name"]
    return f"{namespace}/{name}" if namespace else str(name)
