"""Leaders that show an autoscaler the pods behind the gate. Their time is the test's."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from tests.builders.clusters import put
from tests.builders.nodes import node, nrt
from tests.builders.pods import bound, gated
from tests.unit.controllers.leader import Leader
from webhook.controllers.autoscaling.exporter_reports import MissingExporterReports
from webhook.controllers.autoscaling.marks import ScaleUpMarks
from webhook.controllers.autoscaling.narrowing import Narrowing
from webhook.controllers.autoscaling.provisioning import Provisioning
from webhook.controllers.autoscaling.provisioning_writer import ProvisioningWriter
from webhook.formats.autoscaling import Autoscaler, ProvisioningClass, is_marked, scheduled_condition
from webhook.formats.kubernetes.timestamps import utc
from webhook.kube.pacing import RateLimiter
from webhook.kube.provisioning_request_client import ProvisioningWrites
from webhook.kube.write import WRITTEN, Outcome, Write
from webhook.model.names import MIN_MEMBER
from webhook.model.raw import Raw
from webhook.placing.autoscaling.answers import ScaleUpAnswers
from webhook.state.rules import Asking, Rules

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

    async def after(self, *seconds: float) -> None:
        """So much later, and later again: each time a cycle, a sweep, and the cycle that writes what it found."""
        for each in seconds:
            self.second += each
            await self.cycle()
            await self.marks.sweep(self.second)
            await self.cycle()
            self.show()

    def show(self) -> None:
        """Let the cache see what was written."""

    async def settle(self) -> None:
        """The time that a pod must lack room before it is marked, and more."""
        await self.after(0, 3)

    def marked(self) -> set[str]:
        """The names of the pods that an autoscaler sees."""
        return {key.partition("/")[2] for key, raw in self.api.pods.items() if is_marked(raw)}

    def message(self, name: str) -> str:
        """What the condition PodScheduled of a pod says."""
        return str(scheduled_condition(self.api.pods[f"default/{name}"])["message"])


ATOMIC: Final[ProvisioningClass] = "best-effort-atomic-scale-up.autoscaling.x-k8s.io"


class FakeProvisioningApi(ProvisioningWrites):
    """The requests and PodTemplates that exist, by namespace/name, and the order of the writes."""

    def __init__(self, leader: "RequestingLeader") -> None:
        self.requests: dict[str, dict[str, Any]] = {}
        self.templates: dict[str, dict[str, Any]] = {}
        self.refusal: Write | None = None
        """What becomes of each creation of a request."""
        self.written: list[str] = []
        self._leader = leader
        self._uids = 0

    async def create(self, version: str, body: Raw) -> Write:
        assert body["apiVersion"] == f"autoscaling.x-k8s.io/{version}"
        if self.refusal is not None:
            return self.refusal
        for each in body["spec"]["podSets"]:
            assert f"{body['metadata']['namespace']}/{each['podTemplateRef']['name']}" in self.templates
        return self._create(self.requests, body)

    async def create_template(self, body: Raw) -> Write:
        return self._create(self.templates, body)

    def _create(self, among: dict[str, dict[str, Any]], body: Raw) -> Write:
        key = f"{body['metadata']['namespace']}/{body['metadata']['name']}"
        if key in among:
            return Write(Outcome.STALE, "409 AlreadyExists", status=409)
        self._uids += 1
        created = utc(int(EPOCH + self._leader.second))
        among[key] = {**body, "metadata": {**body["metadata"], "uid": f"u{self._uids}", "creationTimestamp": created}}
        self.written.append(f"+{body.get('kind')}")
        return WRITTEN

    async def delete(self, version: str, namespace: str, name: str, uid: str) -> Write:
        assert self.requests[f"{namespace}/{name}"]["metadata"]["uid"] == uid
        del self.requests[f"{namespace}/{name}"]
        self.written.append("-ProvisioningRequest")
        return WRITTEN

    async def delete_template(self, namespace: str, name: str, uid: str) -> Write:
        assert self.templates[f"{namespace}/{name}"]["metadata"]["uid"] == uid
        del self.templates[f"{namespace}/{name}"]
        self.written.append("-PodTemplate")
        return WRITTEN

    async def read_template(self, namespace: str, name: str) -> Mapping[str, Any] | None:
        return self.templates.get(f"{namespace}/{name}")


class RequestingLeader(AskingLeader):
    """`objects`: what it has made."""

    def __init__(self, *objects: Mapping[str, Any], class_name: ProvisioningClass = ATOMIC, **how: Any) -> None:
        self._class_name: ProvisioningClass = class_name
        super().__init__(*objects, provisioning_class=class_name, **how)
        self.requests = self.cache.provisioning_requests
        self.requests.serve("v1")
        self._shown: set[str] = set()

    def provisioning(self) -> Provisioning:
        self.objects = FakeProvisioningApi(self)
        self.writer = ProvisioningWriter(self.cache, self.objects, self.is_leader, RateLimiter(1e9))
        return Provisioning(self.cache, self.writer, self._class_name)

    def show(self) -> None:
        """Let the cache see the requests as they are."""
        for key in self._shown - self.objects.requests.keys():
            self.requests.feed.delete(key)
        for key, raw in self.objects.requests.items():
            self.requests.feed.upsert(key, raw)
        self._shown = set(self.objects.requests)

    async def after(self, *seconds: float) -> None:
        self.show()
        await super().after(*seconds)

    async def requested(self) -> dict[str, Any]:
        """Let the gang be asked for, and return its request."""
        await self.settle()
        await self.after(1)
        (raw,) = self.objects.requests.values()
        return raw

    def replies(self, *conditions: tuple[str, str], reason: str = "Told", message: str = "by the autoscaler") -> None:
        """The autoscaler answers the one request: (type, status) of its conditions."""
        (raw,) = self.objects.requests.values()
        raw["status"] = {
            "conditions": [
                {"type": type_, "status": status, "reason": reason, "message": message} for type_, status in conditions
            ]
        }

    def pod_sets(self) -> list[tuple[dict[str, Any], int]]:
        """The template spec and the count of each pod set of the one request."""
        (raw,) = self.objects.requests.values()
        namespace = raw["metadata"]["namespace"]
        return [
            (self.objects.templates[f"{namespace}/{each['podTemplateRef']['name']}"]["template"], each["count"])
            for each in raw["spec"]["podSets"]
        ]


# n0 ── NUMA 0 [0 of 16 free]  NUMA 1 [0 of 16 free], in group blue
FULL: Final = pool_node("n0"), full("n0"), filler("n0")


def gang(names: Iterable[str] = "ab", group: str = "g", minimum: int = 2, **how: Any) -> list[dict[str, Any]]:
    annotations = {MIN_MEMBER: str(minimum), **how.pop("annotations", {})}
    return [gated(name=name, group=group, annotations=annotations, **how) for name in names]
