"""A leader that shows an autoscaler the pods behind the gate. Its time, and that of its nodes, is the test's."""

from collections.abc import Mapping
from typing import Any, Final

from tests.builders.clusters import put
from tests.builders.nodes import node, nrt
from tests.builders.pods import bound
from tests.unit.controllers.leader import Leader
from webhook.controllers.autoscaling.exporter_reports import MissingExporterReports
from webhook.controllers.autoscaling.marks import ScaleUpMarks
from webhook.controllers.autoscaling.narrowing import Narrowing
from webhook.controllers.autoscaling.provisioning import Provisioning
from webhook.formats.autoscaling import Autoscaler, is_marked, scheduled_condition
from webhook.formats.kubernetes.timestamps import utc
from webhook.placing.autoscaling.answers import Asking, ScaleUpAnswers
from webhook.state.rules import Rules

EPOCH: Final = 1_900_000_000
"""Seconds since the epoch when the time of a test begins."""
POOL: Final = "cloud.google.com/gke-nodepool"
NODEPOOL: Final = "karpenter.sh/nodepool"
GATED: Final = {
    "type": "PodScheduled",
    "status": "False",
    "reason": "SchedulingGated",
    "message": "Scheduling is blocked due to non-empty scheduling gates",
    "lastTransitionTime": "2030-01-01T00:00:00Z",
}
"""As the API server writes it at creation."""


def pool_node(
    name: str, pool: str = "blue", *, label: str = POOL, age: float = 3600, labels: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """A node of 2 NUMA nodes of 16 CPUs each in a node group. age: seconds."""
    raw = node(name=name, labels={label: pool, **(labels or {})})
    raw["metadata"]["creationTimestamp"] = utc(int(EPOCH - age))
    return raw


def filler(node: str, cpu: int = 32) -> dict[str, Any]:
    """A pod that holds these CPUs of a node, by default all."""
    return bound(name=f"filler-{node}", node=node, cpu=cpu, numa=None, annotations={"example.com/filler": ""})


def full(name: str, **how: Any) -> dict[str, Any]:
    """The NRT of such a node whose CPUs are all in use. Without a `filler`, they are free in sum."""
    return nrt(node=name, free=[0, 0], **how)


class AskingLeader(Leader):
    """`second`: seconds since the time of the test began."""

    def __init__(self, *objects: Mapping[str, Any], autoscaler: Autoscaler = "ClusterAutoscaler", **how: Any) -> None:
        self.second = 0.0
        asking, rules = Asking(autoscaler, **how), Rules(max_affinity_values=2)
        super().__init__(autoscaler=autoscaler)
        self.cache._clock = lambda: EPOCH + self.second
        self.answers = ScaleUpAnswers(self.cache, rules, asking, self.cache.current_time)
        events: Any = self.api
        narrowing = Narrowing(
            self.cache, self.api, events, rules, asking.narrow_after, asking.new_node_seconds, self.is_leader
        )
        lacking_room = self.controller.planner.lacking_room
        exporters = MissingExporterReports(events, asking.new_node_seconds)
        self.marks = ScaleUpMarks(
            self.cache, self.api, lacking_room, self.answers, narrowing, exporters, self.provisioning(), self.is_leader
        )
        self.has(*objects)

    def provisioning(self) -> Provisioning | None:
        """What asks for gangs as a whole; None: nothing does."""
        return None

    def has(self, *objects: Mapping[str, Any]) -> None:
        """These objects exist from now on. Pods have the condition of their creation."""
        for raw in objects:
            if raw["kind"] == "Pod":
                self.api.has({"status": {"conditions": [GATED]}, **raw})
            else:
                put(self.cache, raw)

    async def after(self, seconds: float) -> None:
        """So much later: a cycle, a sweep, and the cycle that writes what it found."""
        self.second += seconds
        await self.cycle()
        await self.marks.sweep(self.second)
        await self.cycle()

    async def settle(self) -> None:
        """The time that a pod must lack room before it is marked, and more."""
        await self.after(0)
        await self.after(3)

    def marked(self) -> set[str]:
        """The names of the pods that an autoscaler sees."""
        return {key.partition("/")[2] for key, raw in self.api.pods.items() if is_marked(raw)}

    def message(self, name: str) -> str:
        """What the condition PodScheduled of a pod says."""
        return str(scheduled_condition(self.api.pods[f"default/{name}"])["message"])

    def text(self, name: str) -> str:
        """What the reporter would write about a pod."""
        report = self.reporter._to_report.get("default", f"default/{name}")
        return "" if report is None else report.why.text
