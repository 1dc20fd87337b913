"""Leaders that follow one another: nothing is assigned twice and nothing is lost."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from itertools import cycle
from typing import TYPE_CHECKING

import pytest

from tests.cluster.api import ApiError
from tests.cluster.audit import overcommitted
from tests.cluster.gated import Pods, pod, scheduler_paused
from tests.cluster.nodes import TOPOLOGIES, Machine, machines
from tests.cluster.stubborn import until
from tests.cluster.terms import overlapping, terms
from tests.cluster.two_replicas import QUICK, TwoReplicas, two_replicas
from tests.cluster.webhook_process import NAMESPACE, QUICK_LEASE, local_webhook

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.cluster.control_plane import ControlPlane

# n0 ── NUMA 0 [8]  NUMA 1 [8]      [free cpus of 16]: room for two pods of 8
PODS = ("a", "b", "c", "d")
POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmission"
NOT_TODAY = "not today"


@pytest.fixture
def cluster(control_plane: ControlPlane, namespace: str, create_machines: Callable[..., None]) -> Iterator[TwoReplicas]:
    """No binding passes without an allocation."""
    create_machines(Machine("n0", free=(8, 8)))
    with two_replicas(control_plane, namespace, QUICK, timeoutSeconds=2, bindFailurePolicy="Fail") as cluster:
        for name in PODS:
            cluster.create_pod(name, cpu=8)
        yield cluster


def try_to_bind(cluster: TwoReplicas) -> None:
    """Bind every pod that has no node, all at the same time. Refused pods stay."""
    left = set(PODS) - Pods(cluster.plane, cluster.namespace).bound().keys()
    with ThreadPoolExecutor(len(PODS)) as clients:
        for attempt in [clients.submit(cluster.bind, name) for name in left]:
            with suppress(ApiError):
                attempt.result()


def serves_topologies(cluster: TwoReplicas) -> bool:
    with suppress(ApiError):
        cluster.plane.api.get(TOPOLOGIES)
        return True
    return False


def check_that_two_are_bound(cluster: TwoReplicas) -> None:
    """Bind until both NUMA nodes are taken, and check that nothing was assigned twice."""
    pods = Pods(cluster.plane, cluster.namespace)

    def both_taken() -> bool:
        try_to_bind(cluster)
        return len(pods.bound()) == 2

    until("both NUMA nodes to be taken", both_taken)
    try_to_bind(cluster)
    assert len(pods.bound()) == 2
    until("an API server that has just started to serve the NRTs", lambda: serves_topologies(cluster))
    assert overcommitted(cluster.plane, pods.all().values()) == {}
    led = terms(replica.process.log for replica in cluster.webhook.replicas)
    assert overlapping(led) == []


def test_two_takeovers_in_quick_succession_give_nothing_out_twice(cluster: TwoReplicas) -> None:
    (first,) = cluster.leading()
    second = cluster.other(first)
    cluster.bind("a")
    first.process.kill()
    cluster.wait_until_found(second)
    first.start_again()
    second.process.kill()
    # Within the horizon of the last takeover: what it must wait for has begun anew.
    cluster.wait_until_found(first)
    with pytest.raises(ApiError, match="leader has just changed"):
        cluster.bind("b")
    second.start(second.backend)
    check_that_two_are_bound(cluster)
    assert len(terms(replica.process.log for replica in cluster.webhook.replicas)) == 3


def test_an_api_server_that_is_killed_under_a_leader_makes_no_second_one(cluster: TwoReplicas) -> None:
    cluster.bind("a")
    for _ in range(2):
        cluster.plane.restart("kube-apiserver", down=1.0)
        cluster.plane.wait_until_ready("kube-apiserver")
        until("a leader", cluster.leading)
        assert len(cluster.leading()) == 1
    check_that_two_are_bound(cluster)


def test_a_binding_that_never_lands_is_given_back(cluster: TwoReplicas) -> None:
    assert cluster.bind("d")
    with refused_by_somebody_else(cluster):
        # The other NUMA node is promised to whoever comes first, though nobody has it; as soon as the promise is
        # given back, the next one has it.
        names = cycle("abc")
        until(
            "a promise to be in the way",
            lambda: "can no longer hold this pod" in refusal_in_the_end(cluster, next(names)),
        )
    check_that_two_are_bound(cluster)


def test_placed_pods_keep_their_room_when_the_key_of_the_allocations_is_lost_with_all_replicas(
    control_plane: ControlPlane, pods: Pods, known: Callable[..., None]
) -> None:
    values = {"settings": {"gate": "Always", **QUICK_LEASE}, "webhook": {"bindFailurePolicy": "Fail"}}
    with local_webhook(control_plane, replicas=2, values=values) as webhook:
        known(*machines(8, 2, prefix="key"))  # each with room for 4 pods of 8 CPUs
        with scheduler_paused(control_plane):
            for number in range(16):
                pods.create(pod(f"old-{number:02}"))
            control_plane.wait_for("the first to be placed", lambda: not pods.gated())
            for replica in webhook.replicas:
                replica.process.kill()
            control_plane.api.delete(f"/api/v1/namespaces/{NAMESPACE}/secrets/topology-webhook-hint-key")
            for replica in webhook.replicas:
                replica.start_again()
            for number in range(16):
                pods.create(pod(f"new-{number:02}"))
            control_plane.wait_for("the others to be placed", lambda: not pods.gated())
        control_plane.wait_for("all to be bound", lambda: len(pods.bound()) == 32)
        assert overcommitted(control_plane, pods.all().values()) == {}


def refusal_in_the_end(cluster: TwoReplicas, name: str) -> str:
    """The final reason for a refused binding: a binding in progress blocks its node for some seconds."""

    def refusal() -> str:
        with pytest.raises(ApiError) as refused:
            cluster.bind(name)
        return "" if refused.value.reason == "BindingInProgress" else refused.value.message

    return until(f"the turn of {name}", refusal)


@contextmanager
def refused_by_somebody_else(cluster: TwoReplicas) -> Iterator[None]:
    """A policy denies bindings after the guard has answered."""
    api, name = cluster.plane.api, cluster.namespace
    bindings = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods/binding"], "operations": ["CREATE"]}
    own = {"resourceRules": [bindings], "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": name}}}
    policy = {"matchConstraints": own, "validations": [{"expression": "false", "message": NOT_TODAY}]}
    api.create(f"{POLICIES}policies", {"metadata": {"name": name}, "spec": policy})
    binding = {"policyName": name, "validationActions": ["Deny"]}
    api.create(f"{POLICIES}policybindings", {"metadata": {"name": name}, "spec": binding})
    path = f"/api/v1/namespaces/{name}/pods/d/binding?dryRun=All"

    def is_asked() -> bool:
        try:
            api.create(path, {"metadata": {"name": "d"}, "target": {"kind": "Node", "name": "n0"}})
        except ApiError as error:
            return NOT_TODAY in error.message
        return False

    try:
        cluster.plane.wait_for("the policy to be asked", is_asked)
        yield
    finally:
        api.delete(f"{POLICIES}policybindings/{name}")
        api.delete(f"{POLICIES}policies/{name}")
