"""What the loops write to the API server, answered as the test says."""

from collections.abc import Sequence
from typing import Any

from tests.builders.pods import gated
from webhook.kube.events import EventRecorder, ObjectEvent
from webhook.kube.pod_writes import PodWrites
from webhook.kube.write import Outcome, Write


class Server(PodWrites):
    """Patches meet with these outcomes in turn; reads give `now`."""

    def __init__(self, *outcomes: Outcome, now: dict[str, Any] | None = None) -> None:
        self.sent: list[Sequence[dict[str, Any]]] = []
        self._outcomes = list(outcomes)
        self._now = now

    async def patch(self, key: str, operations: Sequence[dict[str, Any]]) -> Write:
        assert key == "default/p"
        self.sent.append(operations)
        return Write(self._outcomes.pop(0))

    async def read(self, key: str) -> dict[str, Any] | None:
        assert key == "default/p"
        return self._now


class Told(EventRecorder):
    """The events that were told; none is written."""

    def __init__(self) -> None:
        super().__init__(None, "test")  # type: ignore[arg-type] # nothing is written
        self.events: list[ObjectEvent] = []

    def tell(self, event: ObjectEvent) -> None:
        self.events.append(event)


def bound(uid: str = "u", node: str = "n0", **annotations: str) -> dict[str, Any]:
    raw = gated(name="p", nodeName=node)
    annotations = raw["metadata"]["annotations"] | annotations
    raw["metadata"] |= {"uid": uid, "resourceVersion": "7", "annotations": annotations}
    return raw
