"""The faults, one function each. It returns when what it broke is repaired, by itself or by the product.

A fault gets a `Stage`, waits with `Stage.last`, and draws random values with `Stage.chance`.
"""

from __future__ import annotations

import base64
import time
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from tests.cluster.api import ApiError
from tests.cluster.mixed_load import TOPOLOGIES as RACK_TOPOLOGIES
from tests.cluster.nodes import NODES, RACK_LABEL, TOPOLOGIES, create_machines, delete_machines
from tests.cluster.stubborn import done, stubbornly, until
from tests.cluster.webhook_process import LEASE, NAMESPACE, QUICK_LEASE, RELEASE

if TYPE_CHECKING:
    import random

    from tests.chaos.bed import Bed
    from tests.chaos.journal import Journal

CA_SECRET = f"/api/v1/namespaces/{NAMESPACE}/secrets/{RELEASE}-ca"
CONFIGURATIONS = tuple(
    f"/apis/admissionregistration.k8s.io/v1/{kind}webhookconfigurations/{RELEASE}"
    for kind in ("mutating", "validating")
)
NRT_CRD = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/noderesourcetopologies.topology.node.k8s.io"
# Until a supervisor starts again what crashed.
DOWN_SECONDS = 3.0
# Longer than the Lease: another replica leads when the first one goes on.
SHORTEST_PAUSE_SECONDS = QUICK_LEASE["leaseDurationSeconds"] + 2.0
DELETED_NODES = 4
CHANGED = {
    "settings": {"gangStrategy": "Spread", "scoreStrategy": "LeastAllocated"},
    "webhook": {"timeoutSeconds": 4},
}
"""Values of an upgrade that change what the program does and how it is called."""


@dataclass
class Stage:
    """What a fault works with."""

    bed: Bed
    journal: Journal
    chance: random.Random
    seconds: float
    """How long the load lasts, fault or not."""
    run: str
    """The label of everything that is created."""
    hostile: str
    """A namespace beside those of the honest tenants."""
    ends: float
    """When the load ends, in seconds of `time.monotonic`."""
    lasted: float = 0.0
    """How long something was broken, by the fault's own doing."""
    notes: list[str] = field(default_factory=list)
    """What people want to know about it."""

    def left(self) -> float:
        """Seconds until the load ends."""
        return max(0.0, self.ends - time.monotonic())

    def last(self, seconds: float) -> None:
        """Let the fault last for this time, or for half of the load's time if that is shorter."""
        self._sleep(min(seconds, max(SHORTEST_PAUSE_SECONDS, self.seconds / 2)))

    def last_all(self, seconds: float) -> None:
        """Let the fault last for this time, or for all of the load's time if that is shorter: the load goes on."""
        self._sleep(min(seconds, self.seconds))

    def _sleep(self, span: float) -> None:
        time.sleep(span)
        self.lasted += span


def leader_killed(stage: Stage) -> None:
    """The leader gets SIGKILL, and its container is started again."""
    leader = stage.bed.leader()
    with stage.bed.held(leader):
        leader.process.kill()
        stage.last(DOWN_SECONDS)
        leader.start(leader.backend)


def claims_disturbed(stage: Stage) -> None:
    """The leader is killed while it allocates claims, then the API server, then the next leader."""
    leader_killed(stage)
    component_killed("kube-apiserver", stage)
    stage.bed.wait_until_served()
    leader_killed(stage)


def leader_paused(stage: Stage) -> None:
    """The leader gets SIGSTOP. It continues 30 s later, when another replica leads."""
    leader = stage.bed.leader()
    leader.process.pause()
    try:
        stage.last(30.0)
    finally:
        leader.process.resume()


def component_killed(program: str, stage: Stage) -> None:
    """A component of the control plane gets SIGKILL, and is started again."""
    stage.bed.plane.restart(program, down=DOWN_SECONDS)
    stage.lasted += DOWN_SECONDS
    stubbornly(partial(stage.bed.plane.wait_until_ready, program))


def ca_secret_deleted(stage: Stage) -> None:
    """The Secret with the CA is deleted. A replica that starts then finds none, or a new one."""
    done(partial(stage.bed.plane.api.delete, CA_SECRET))
    replica = stage.chance.choice(stage.bed.webhook.replicas)
    with stage.bed.held(replica):
        replica.process.kill()
        replica.start(replica.backend)
    until("the CA Secret to be back", partial(_has_data, stage.bed))


def ca_bundle_emptied(stage: Stage) -> None:
    """caBundle of every webhook is emptied, and later replaced by a foreign certificate."""
    api = stage.bed.plane.api
    right = {path: _bundles(api, path) for path in CONFIGURATIONS}
    somebody_elses = base64.b64encode(stage.bed.plane.ca.read_bytes()).decode()
    for wrong in ("", somebody_elses):
        for path in CONFIGURATIONS:
            stubbornly(partial(_write_bundles, api, path, wrong))
        for path in CONFIGURATIONS:
            until("caBundle to be right again", lambda path=path: _bundles(api, path) == right[path])  # type: ignore[misc]


def lease_deleted(stage: Stage) -> None:
    """The Lease is deleted, and deleted again when it is back."""
    for _ in range(2):
        done(partial(stage.bed.plane.api.delete, LEASE))
        until("a Lease with a holder", lambda: _get(stage.bed, LEASE).get("spec", {}).get("holderIdentity"))


def nrt_crd_deleted(stage: Stage) -> None:
    """The CRD of the NodeResourceTopologies and thus all of them are deleted. 15 s later all are back."""
    plane = stage.bed.plane
    done(partial(plane.api.delete, NRT_CRD))
    stage.last(15.0)
    until("the CRD to be gone", lambda: not _get(stage.bed, NRT_CRD))
    plane.install_crds()
    for machine in stage.bed.fleet:
        done(partial(plane.api.create, TOPOLOGIES, machine.topology()))


def topology_changed(stage: Stage) -> None:
    """The Topology is deleted, the racks are renamed node by node, and the Topology is created again."""
    api, path = stage.bed.plane.api, f"{RACK_TOPOLOGIES}/racks"
    topology = stubbornly(partial(api.get, path))
    done(partial(api.delete, path))
    stage.last(DOWN_SECONDS)
    suffix = f"{stage.chance.randrange(16**6):06x}"
    for machine in stage.chance.sample(stage.bed.fleet, len(stage.bed.fleet)):
        label = {RACK_LABEL: f"{machine.labels[RACK_LABEL]}-{suffix}"}
        stubbornly(partial(api.patch, f"{NODES}/{machine.name}", {"metadata": {"labels": label}}))
    kept = {key: topology[key] for key in ("apiVersion", "kind", "spec")}
    done(partial(api.create, RACK_TOPOLOGIES, {**kept, "metadata": {"name": "racks"}}))


def upgraded(stage: Stage) -> None:
    """`helm upgrade` with other values, replica after replica; `helm rollback`, replica after replica."""
    webhook = stage.bed.webhook
    for change in (partial(webhook.upgrade, CHANGED), webhook.rollback):
        change()
        for replica in webhook.replicas:
            with stage.bed.held(replica):
                webhook.roll_out(replica)


def nodes_deleted(stage: Stage) -> None:
    """Nodes are deleted with their pods, as when machines are returned. Later nodes of the same names come."""
    api = stage.bed.plane.api
    busy = sorted({pod.node for pod in stage.journal.pods() if pod.bound is not None and not pod.gone})
    names = set(stage.chance.sample(busy, min(DELETED_NODES, len(busy))))
    nodes = stubbornly(partial(api.get, NODES))["items"]
    labels = {node["metadata"]["name"]: node["metadata"]["labels"] for node in nodes}
    gone = [replace(machine, labels=labels[machine.name]) for machine in stage.bed.fleet if machine.name in names]
    delete_machines(api, gone)
    stage.last(DOWN_SECONDS)
    # As the garbage collector of pods does after a minute. A binding may have been under way when the node went.
    for raw in stubbornly(partial(api.get, "/api/v1/pods"))["items"]:
        if raw["spec"].get("nodeName") in names:
            metadata = raw["metadata"]
            stage.journal.excused.add(metadata["uid"])
            path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}"
            done(partial(api.delete, path, {"gracePeriodSeconds": 0}))
    stage.last(DOWN_SECONDS)
    create_machines(api, gone)


def all_replicas_stopped(stage: Stage) -> None:
    """Both replicas stop in an orderly way, and start again 20 s later."""
    replicas = stage.bed.webhook.replicas
    with stage.bed.held(*replicas):
        for replica in replicas:
            replica.process.ask_to_stop()
        for replica in replicas:
            replica.process.stop()
        stage.last(20.0)
        for replica in replicas:
            replica.start(replica.backend)


def _has_data(bed: Bed) -> bool:
    return bool(_get(bed, CA_SECRET).get("data"))


def _get(bed: Bed, path: str) -> dict[str, Any]:
    """An object; empty if it does not exist."""
    try:
        found: dict[str, Any] = bed.plane.api.get(path)
    except ApiError as error:
        if error.status != 404:
            raise
        return {}
    return found


def _bundles(api: Any, path: str) -> list[str]:
    return [webhook["clientConfig"].get("caBundle", "") for webhook in api.get(path)["webhooks"]]


def _write_bundles(api: Any, path: str, bundle: str) -> None:
    count = len(_bundles(api, path))
    operations = [
        {"op": "add", "path": f"/webhooks/{index}/clientConfig/caBundle", "value": bundle} for index in range(count)
    ]
    api.request("PATCH", path, operations, "application/json-patch+json")
