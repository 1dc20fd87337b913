"""A hostile tenant who may edit one namespace and reaches the webhook's port.

All at the same time, in a loop:
1. Pods whose owner references, if used as they are in a URL, would read another path or never get an answer.
2. Objects of the maximum size, as dry runs.
3. Reviews of bindings of other tenants' pods, sent directly to the leader's port.
4. Pods left to the scheduler that are never bound: their volume does not exist, or their spread is unsatisfiable.
"""

from __future__ import annotations

import http.client
import itertools
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

from tests.chaos.load import RUN_LABEL, UNIT_LABEL
from tests.cluster.api import Api, ApiError
from tests.cluster.controllers import collection
from tests.cluster.direct import ask, binding_review
from tests.cluster.gated import SINGLE, pod
from tests.cluster.kinds import KINDS, served
from tests.cluster.mixed_load import RACKS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from tests.chaos.faults import Stage

ACCOUNT = "tenant"
ROLES = "/apis/rbac.authorization.k8s.io/v1/namespaces"
CUSTOM_KINDS = ("LeaderWorkerSet", "JobSet", "RayCluster")
# Of each kind of attack; of forged reviews four a second kept a pod unbound for 40 s.
PAUSE_SECONDS: Mapping[str, float] = {"owners": 1.0, "huge": 2.0, "reviews": 0.25, "never bind": 2.0}
UID = "00000000-0000-0000-0000-000000000000"
OWNERS = (
    ("../../../../version?x=", "Job", "x"),
    ("v1", "Pods?watch=1&x=", "x"),
    ("batch/v1", "Job", "../../../../../../version"),
    ("batch/v1", "Job", "x?watch=1"),
    ("v1", "Secret", "../../kube-system/secrets/x"),
    ("batch/v1", "Job", "none"),
    ("example.com/v1", "Widget", "none"),
)
"""apiVersion, kind and name of owners; the last ones are names, of nothing."""


def hostile_tenant(stage: Stage) -> None:
    """Attack as long as honest tenants create pods."""
    with served(stage.bed.plane, [kind for kind in KINDS if kind.kind in CUSTOM_KINDS]):
        tenant = Tenant(stage)
        with tenant.attacking():
            time.sleep(stage.left())
    counts = ", ".join(f"{count} {what}" for what, count in sorted(tenant.done.items()))
    stage.notes.append(f"the hostile tenant: {counts}")


class Tenant:
    """Use `attacking()`."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._path = f"/api/v1/namespaces/{stage.hostile}/pods"
        self._api = _account(stage)
        self._ended = threading.Event()
        self._number = itertools.count()
        self.done: Counter[str] = Counter()
        """Attacks by kind and by what came of them."""

    @contextmanager
    def attacking(self) -> Iterator[None]:
        """Run all attacks within this context."""
        attacks = {
            "owners": self._odd_owner,
            "huge": self._huge_object,
            "reviews": self._forged_review,
            "never bind": self._never_binds,
        }
        with closing(self._api), ThreadPoolExecutor(len(attacks)) as threads:
            for what, attack in attacks.items():
                threads.submit(self._repeat, what, attack)
            try:
                yield
            finally:
                self._ended.set()

    def _repeat(self, what: str, attack: Callable[[int], str]) -> None:
        for number in itertools.count():
            try:
                answer = attack(number)
            except ApiError as error:
                answer = str(error.status)
            except (OSError, http.client.HTTPException):
                answer = "no answer"
            self.done[f"{what}: {answer}"] += 1
            if self._ended.wait(PAUSE_SECONDS[what]):
                return

    def _odd_owner(self, number: int) -> str:
        api_version, kind, name = OWNERS[number % len(OWNERS)]
        reference = {"apiVersion": api_version, "kind": kind, "name": name, "uid": UID, "controller": True}
        raw = self._pod(f"owned-{number}", RACKS)
        raw["metadata"]["ownerReferences"] = [reference]
        self._api.create(self._path, raw)
        return "taken"

    def _huge_object(self, number: int) -> str:
        namespace = self._stage.hostile
        huge = (_huge_pod, _huge_environment, _leader_worker_set, _job_set, _ray_cluster)[number % 5]()
        path = collection(namespace, huge.get("apiVersion", "v1"), huge["kind"])
        self._api.create(f"{path}?dryRun=All", huge)
        return "taken"

    def _forged_review(self, number: int) -> str:
        pods = [each for each in self._stage.journal.pods() if not each.gone and each.namespace != self._stage.hostile]
        if not pods:
            return "no pod"
        waiting = [each for each in pods if each.bound is None] or pods
        victim = waiting[number % len(waiting)]
        node = self._stage.bed.fleet[number % len(self._stage.bed.fleet)].name
        review = binding_review(victim.namespace, victim.name, node, uid=victim.uid)
        return ask(self._stage.bed.leader().backend.port, "/mutate/bindings", review)

    def _never_binds(self, number: int) -> str:
        if number % 2:
            volume = {"name": "v", "persistentVolumeClaim": {"claimName": "none"}}
            raw = self._pod(f"never-{number}", {}, cpu=3, volumes=[volume])
        else:
            labels = {"matchLabels": {UNIT_LABEL: "hostile"}}
            spread = {"maxSkew": 1, "topologyKey": "example.com/none", "whenUnsatisfiable": "DoNotSchedule"}
            raw = self._pod(
                f"never-{number}", {}, cpu=3, topologySpreadConstraints=[{**spread, "labelSelector": labels}]
            )
        self._api.create(self._path, raw)
        return "taken"

    def _pod(self, name: str, annotations: Mapping[str, str], cpu: int = 1, **spec: Any) -> dict[str, Any]:
        raw = pod(name, cpu=cpu, annotations=dict(annotations), **spec)
        raw["metadata"]["labels"] = {RUN_LABEL: self._stage.run, UNIT_LABEL: "hostile"}
        return raw


def _account(stage: Stage) -> Api:
    """An account that may edit the one namespace, and the custom kinds in it."""
    plane, namespace = stage.bed.plane, stage.hostile
    plane.api.create(f"/api/v1/namespaces/{namespace}/serviceaccounts", {"metadata": {"name": ACCOUNT}})
    groups = sorted({kind.api_version.partition("/")[0] for kind in KINDS if kind.kind in CUSTOM_KINDS})
    rules = [{"apiGroups": groups, "resources": ["*"], "verbs": ["*"]}]
    plane.api.create(f"{ROLES}/{namespace}/roles", {"metadata": {"name": ACCOUNT}, "rules": rules})
    subject = {"kind": "ServiceAccount", "name": ACCOUNT, "namespace": namespace}
    for kind, name in (("Role", ACCOUNT), ("ClusterRole", "edit")):
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name}
        body = {"metadata": {"name": f"{ACCOUNT}-{name}"}, "roleRef": reference, "subjects": [subject]}
        plane.api.create(f"{ROLES}/{namespace}/rolebindings", body)
    return Api(plane.url, plane.ca, plane.service_account_token(namespace, ACCOUNT))


def _huge_pod() -> dict[str, Any]:
    containers = [_container(f"c{number}", {f"example.com/r{number}": "1"}) for number in range(8_000)]
    return _unbound_pod("huge", SINGLE, containers)


def _huge_environment() -> dict[str, Any]:
    containers = [{"name": f"c{number}", "image": "none"} for number in range(10_000)]
    return _unbound_pod("env", {**SINGLE, "topology-webhook.dev/inject-env": "true"}, containers)


def _leader_worker_set() -> dict[str, Any]:
    spec = {"replicas": 150_000, "leaderWorkerTemplate": {"size": 1, "workerTemplate": _template()}}
    return _workload("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", spec)


def _job_set() -> dict[str, Any]:
    job = {"spec": {"parallelism": 1, "template": _template()}}
    jobs = [{"name": f"j{number}", "replicas": 1, "template": job} for number in range(5_000)]
    return _workload("jobset.x-k8s.io/v1alpha2", "JobSet", {"replicatedJobs": jobs})


def _ray_cluster() -> dict[str, Any]:
    groups = [{"groupName": f"g{number}", "replicas": 1, "template": _template()} for number in range(8_000)]
    spec = {"headGroupSpec": {"template": _template()}, "workerGroupSpecs": groups}
    return _workload("ray.io/v1", "RayCluster", spec)


def _workload(api_version: str, kind: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": "huge", "annotations": RACKS}, "spec": spec}


def _unbound_pod(name: str, annotations: Mapping[str, str], containers: list[Any]) -> dict[str, Any]:
    return {
        "kind": "Pod",
        "metadata": {"name": name, "annotations": dict(annotations)},
        "spec": {"containers": containers},
    }


def _container(name: str, amounts: Mapping[str, str]) -> dict[str, Any]:
    return {"name": name, "image": "none", "resources": {"requests": dict(amounts), "limits": dict(amounts)}}


def _template() -> dict[str, Any]:
    return {"metadata": {}, "spec": {"containers": [_container("c", {"cpu": "1", "memory": "1Gi"})]}}
