"""200 pods of CPUs, memory and claims while the leader is killed twice: each has its devices beside its CPUs.

    52 machines ── NUMA 0 [16 CPUs, 4 GPUs] ── NUMA 1 [16 CPUs, 4 GPUs]

A pod has 4 CPUs for each GPU, so that a NUMA node runs out of both at once: a kubelet takes the first NUMA node with
enough CPUs, and the GPUs beside them are free. With two GPUs for each of 100 pods and one for each of the others, 298
of 416 are taken when the last pod comes. Of 104 NUMA nodes one has two free then, wherever the pods are.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from tests.builders.devices import DRIVER, NUMA, claim_template, device_class, match, request
from tests.cluster.claim_journal import CLAIMS, DRA, ClaimJournal, left_over
from tests.cluster.gated import Pods, pod, wait_until_known
from tests.cluster.kubelets import even_machine, kubelets
from tests.cluster.webhook_process import QUICK_LEASE, local_webhook
from tests.proof.dra import alignments

if TYPE_CHECKING:
    from tests.cluster.control_plane import ControlPlane
    from tests.cluster.webhook_process import LocalWebhook, Replica

pytestmark = pytest.mark.long

MACHINES = [even_machine(f"gpu-{number:02}", slices={DRIVER: (4, 4)}) for number in range(52)]
COUNT, DELETED = 200, 10
# Two leaders die and the next one waits 8 s before it gives out everything; the machine that runs this may be busy.
SECONDS = 300.0


def with_gpus(name: str, count: int) -> dict[str, Any]:
    raw = pod(name, cpu=4 * count)
    raw["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": f"gpus-{count}"}]
    raw["spec"]["containers"][0]["resources"]["claims"] = [{"name": "gpu"}]
    return raw


def test_devices_are_beside_the_cpus_none_is_given_twice_and_none_is_left_when_the_leader_dies_twice(
    control_plane: ControlPlane, pods: Pods
) -> None:
    api = control_plane.api
    values = {"settings": QUICK_LEASE, "webhook": {"timeoutSeconds": 30, "bindTimeoutSeconds": 1}}
    api.create(f"{DRA}/deviceclasses", device_class())
    try:
        for count, alike in ((1, []), (2, [match(NUMA)])):
            template = claim_template(f"gpus-{count}", [request(count=count)], constraints=alike)
            template["metadata"]["namespace"] = pods.namespace
            api.create(f"{DRA}/namespaces/{pods.namespace}/resourceclaimtemplates", template)
        with (
            kubelets(control_plane, MACHINES, lag=0.5) as fleet,
            local_webhook(control_plane, replicas=3, values=values) as webhook,
            ClaimJournal.following(api) as claims,
        ):
            assert webhook.wait_until_called()
            wait_until_known(pods, len(MACHINES))

            raws = [with_gpus(f"p{number:03}", 1 + number % 2) for number in range(COUNT)]
            for part, raw in ((raws[:100], raws[100:130]), (raws[130:170], raws[170:])):
                api.in_parallel(partial(pods.create, each) for each in part)
                (leader,) = control_plane.wait_for("a leader", lambda: webhook.leaders)
                leader.process.kill()
                api.in_parallel(partial(pods.create, each) for each in raw)
                waiting = sorted(pods.gated())[:DELETED]
                assert waiting
                pods.delete(*waiting)
                api.in_parallel(partial(pods.create, each) for each in raws if each["metadata"]["name"] in waiting)
                control_plane.wait_for("another leader", partial(is_led_by_another, webhook, leader))
                leader.start_again()
            control_plane.wait_for("all to run", lambda: len(running(pods)) == COUNT, SECONDS)

            found = alignments(claims.devices(), fleet.events("admitted"), MACHINES)
            assert len(found) == COUNT
            assert {each.pod: each for each in found if each.apart or len(each.cpus) > 1} == {}
            assert claims.twice == {}
            assert fleet.events("rejected") == []

            def left() -> list[str]:
                return left_over(api.get(CLAIMS)["items"], list(pods.all().values()))

            assert left() == []
            pods.delete(*sorted(pods.all())[::2])
            control_plane.wait_for("the devices of deleted pods to be free", lambda: not left())
            pods.delete(*pods.all())
            control_plane.wait_for("all devices to be free", lambda: not left())
    finally:
        api.delete(f"{DRA}/deviceclasses/{DRIVER}")


def is_led_by_another(webhook: LocalWebhook, leader: Replica) -> bool:
    return webhook.leaders not in ([], [leader])


def running(pods: Pods) -> list[str]:
    return [name for name, raw in pods.all().items() if raw["status"]["phase"] == "Running"]
