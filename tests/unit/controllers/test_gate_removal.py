"""In the modes Observe and Off no pod stays gated."""

from typing import Any

from tests.builders.clusters import cluster_cache
from tests.builders.pods import pod
from tests.unit.controllers.leader import ApiServer, metrics
from webhook.controllers.gate_removal import GateRemoval
from webhook.kube.write import Outcome
from webhook.model.names import PLACEMENT, PLACEMENT_GATE

OURS, OTHERS = {"name": PLACEMENT_GATE}, {"name": "kueue.x-k8s.io/admission"}


class FakeCluster:
    """Pods a, b with our gate, and c with another gate as well."""

    def __init__(self) -> None:
        cache = cluster_cache()
        self.leads = True
        self.api = ApiServer(cache)
        for name, gates in {"a": [OURS], "b": [OURS], "c": [OURS, OTHERS]}.items():
            raw = pod(metadata={"name": name, "namespace": "default", "uid": name, "resourceVersion": "1"})
            self.api.has({**raw, "spec": {**raw["spec"], "schedulingGates": gates}})
        events: Any = self.api
        self.removal = GateRemoval(cache, self.api, events, "Observe", lambda: self.leads, metrics(), 2)

    def gates(self, name: str) -> list[str]:
        return [gate["name"] for gate in self.api.pods[f"default/{name}"]["spec"].get("schedulingGates", ())]


async def test_the_leader_ungates_pods_that_our_gate_alone_holds_back_and_they_say_why() -> None:
    cluster = FakeCluster()
    cluster.leads = False
    await cluster.removal.sweep(0)
    assert cluster.api.patched == []
    cluster.leads = True
    await cluster.removal.sweep(0)
    assert [cluster.gates(name) for name in "abc"] == [[], [], [PLACEMENT_GATE, OTHERS["name"]]]
    text = cluster.api.pods["default/a"]["metadata"]["annotations"][PLACEMENT]
    assert text.startswith("ungated: the mode is Observe, so no pod is placed")
    assert sorted(cluster.api.told()) == [("default/a", "Ungated"), ("default/b", "Ungated")]
    raw = cluster.api.pods["default/c"]
    cluster.api.has({**raw, "spec": {**raw["spec"], "schedulingGates": [OURS]}})  # the other gate was removed
    await cluster.removal.sweep(0)
    assert cluster.gates("c") == []


async def test_a_write_that_fails_is_counted_and_tried_again() -> None:
    cluster = FakeCluster()
    cluster.api.outcome = Outcome.REFUSED
    await cluster.removal.sweep(0)
    assert len(cluster.api.patched) == 2
    await cluster.removal.sweep(0.1)
    assert len(cluster.api.patched) == 2  # not yet
    assert cluster.api.told() == []
    cluster.api.outcome = Outcome.WRITTEN
    await cluster.removal.sweep(30)
    assert cluster.gates("a") == []
