"""Pods without annotations: placed if `manage` covers them, on machines that run the kubelet's own admission code."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from tests.cluster.control_plane import CommandError
from tests.cluster.gated import NUMA, SPEC, Pods, pod, wait_until_known
from tests.cluster.kubelets import Kubelets, even_machine, kubelets
from tests.cluster.webhook_process import QUICK_LEASE, LocalWebhook, local_webhook

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tests.cluster.control_plane import ControlPlane

LABEL = "topology-webhook.dev/manage"
MANAGED = "topology-webhook.dev/managed"
DEFAULTS = "topology-webhook.dev/numa-defaults"
GPU = "example.com/gpu"


def plain(name: str, cpu: int = 9, limits: Mapping[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    """A Guaranteed pod without annotations. limits: only these are set."""
    raw = pod(name, cpu=cpu, **spec)
    del raw["metadata"]["annotations"]
    if limits is not None:
        raw["spec"]["containers"][0]["resources"] = {"limits": dict(limits)}
    return raw


def say(plane: ControlPlane, namespace: str, **metadata: Any) -> None:
    """Write labels or annotations of a namespace."""
    plane.api.patch(f"/api/v1/namespaces/{namespace}", {"metadata": metadata})


def annotations_of(pods: Pods, name: str) -> dict[str, str]:
    found: dict[str, str] = pods.get(name)["metadata"].get("annotations") or {}
    return found


def wait_until_managed(pods: Pods, raw: Mapping[str, Any], mode: str | None) -> None:
    """Wait until this mode would manage such a pod at its creation. None: no mode would."""

    def managed() -> bool:
        tried = pods.plane.api.create(f"{pods.path}?dryRun=All", {**raw, "metadata": {"name": "tried"}})
        return (tried["metadata"].get("annotations") or {}).get(MANAGED) == mode

    pods.plane.wait_for(f"pods to be managed by {mode}", managed)


FLEET = [even_machine(name, devices={GPU: (1, 1)}) for name in ("k0", "k1")]


@pytest.fixture
def machines(control_plane: ControlPlane, namespace: str) -> Iterator[Kubelets]:
    # k0 ── NUMA 0 [16 cpus, 1 GPU]  NUMA 1 [16 cpus, 1 GPU]      [free]
    # k1 ── NUMA 0 [16 cpus, 1 GPU]  NUMA 1 [16 cpus, 1 GPU]
    with kubelets(control_plane, FLEET) as running:
        yield running
        control_plane.delete_namespace(namespace)


@pytest.fixture
def unreported(control_plane: ControlPlane, namespace: str) -> Iterator[Kubelets]:
    """The same machines with slow exporters, whose NodeResourceTopologies show nothing of the test."""
    with kubelets(control_plane, FLEET, lag=100_000.0) as running:
        yield running
        control_plane.delete_namespace(namespace)


def given(machines: Kubelets) -> dict[str, tuple[str, list[int]]]:
    """Pod -> the node and the NUMA nodes on which a kubelet gave it CPUs; no NUMA nodes if it gave none."""
    return {
        event["pod"].partition("/")[2]: (event["node"], list(map(int, event["containers"][0].get("cpusPerNuma") or ())))
        for event in machines.events("admitted")
    }


# By the sums of its two machines there is room for 6 pods of 9 cpus, on their NUMA nodes for 4.
CROWD = [f"p{number}" for number in range(6)]


@pytest.mark.parametrize(("setting", "label"), [("Aligned", None), ("Annotated", "aligned"), ("Annotated", "all")])
def test_unannotated_pods_no_longer_run_away_from_kubelets(
    control_plane: ControlPlane, pods: Pods, machines: Kubelets, setting: str, label: str | None
) -> None:
    with local_webhook(control_plane, values={"settings": {"manage": setting}}):
        wait_until_known(pods, 2)
        say(control_plane, pods.namespace, labels={LABEL: label})
        wait_until_managed(pods, plain("any"), label or setting.lower())
        for name in CROWD:
            pods.create(plain(name))
        control_plane.wait_for("four to run", lambda: len(given(machines)) == 4)
        running = sorted(given(machines))
        # The allocation says what the kubelet did.
        assert {name: pods.allocation(name) for name in running} == given(machines)
        assert pods.gated() == set(CROWD) - set(running)
        for name in CROWD:
            assert annotations_of(pods, name)[MANAGED] == (label or setting.lower())
        # What ends leaves room for one that waits.
        pods.delete(running[0])
        control_plane.wait_for("a fifth to run", lambda: len(given(machines)) == 5)
    assert machines.events("rejected") == []


def test_the_namespaces_label_has_them_left_alone_where_the_setting_would_manage_them(
    control_plane: ControlPlane, pods: Pods, machines: Kubelets
) -> None:
    with local_webhook(control_plane, values={"settings": {"manage": "All"}}):
        wait_until_known(pods, 2)
        say(control_plane, pods.namespace, labels={LABEL: "annotated"})
        wait_until_managed(pods, plain("any"), None)
        for name in CROWD:
            pods.create(plain(name))
        pods.wait_until_bound(*CROWD)
        # As without a webhook: three by the sums of a machine, of which its kubelet takes two.
        control_plane.wait_for("the kubelets' answers", lambda: len(machines.events("rejected")) == 2)
        assert all(not {MANAGED, NUMA} & annotations_of(pods, name).keys() for name in CROWD)
        # One that asks is placed: it waits for what is free on NUMA nodes.
        pods.create(pod("asks", cpu=9))
        assert pods.gated() == {"asks"}


def test_of_aligned_pods_those_with_devices_count_and_others_are_left_alone(
    control_plane: ControlPlane, pods: Pods, machines: Kubelets
) -> None:
    with local_webhook(control_plane, values={"settings": {"manage": "Aligned"}}):
        wait_until_known(pods, 2)
        # Burstable: its cpus have no NUMA node, its GPU has.
        gpu = plain("gpu", limits={GPU: "1", "memory": "1Gi"})
        wait_until_managed(pods, gpu, "aligned")
        pods.create(gpu)
        pods.create(plain("burstable", limits={"cpu": "2"}))
        pods.wait_until_bound("gpu", "burstable")
        assert annotations_of(pods, "gpu")[MANAGED] == "aligned"
        assert MANAGED not in annotations_of(pods, "burstable")
        node, numa_nodes = pods.allocation("gpu")
        assert (node, len(numa_nodes)) == (pods.bound()["gpu"], 1)
        # Beside each other at once: the GPUs that are given are counted before any NodeResourceTopology shows it.
        for number in range(3):
            pods.create(plain(f"more-{number}", cpu=2, limits={GPU: "1", "cpu": "2", "memory": "1Gi"}))
        pods.wait_until_bound(*(f"more-{number}" for number in range(3)))
        control_plane.wait_for("all to be admitted", lambda: len(given(machines)) == 5)
    assert machines.events("rejected") == []


def test_a_namespaces_annotations_hold_where_a_pod_says_nothing_and_a_mistake_in_them_stays_there(
    control_plane: ControlPlane, pods: Pods, machines: Kubelets
) -> None:
    settings = {"manage": "Aligned", "defaultNumaTopologyPolicy": "Restricted", "defaultExclusive": "Preferred"}
    single = '{"numaTopologyPolicy": "SingleNUMANode"}'
    del machines
    with local_webhook(control_plane, values={"settings": settings}):
        wait_until_known(pods, 2)

        def defaults(raw: Mapping[str, Any]) -> Any:
            tried = pods.plane.api.create(f"{pods.path}?dryRun=All", raw)
            text = tried["metadata"]["annotations"].get(DEFAULTS)
            return None if text is None else json.loads(text)

        # No machine has policy restricted, but the setting asks for it.
        with pytest.raises(Exception, match="no node has a NUMA policy that goes with Restricted"):
            defaults(plain("denied"))
        say(control_plane, pods.namespace, annotations={SPEC: single})
        both = {"numaTopologyPolicy": "SingleNUMANode", "singleNUMANodeExclusive": "Preferred"}
        control_plane.wait_for("the annotation to count", lambda: _tried(partial(defaults, plain("p"))) == both)
        pods.create(plain("p"))
        pods.create(pod("own", cpu=2, annotations={SPEC: '{"numaTopologyPolicy": ""}'}))
        pods.wait_until_bound("p", "own")
        assert json.loads(annotations_of(pods, "p")[DEFAULTS]) == both
        assert DEFAULTS not in annotations_of(pods, "own")
        say(control_plane, pods.namespace, annotations={SPEC: '{"numaTopologyPolicy": "Single"}'})
        wrong = f'namespace {pods.namespace}: metadata.annotations\\[{SPEC}\\].numaTopologyPolicy: "Single" is unknown'
        control_plane.wait_for("the mistake to count", lambda: _tried(partial(defaults, plain("q"))) is None)
        with pytest.raises(Exception, match=wrong):
            pods.create(plain("q"))
        # Who leaves nothing open does not need it, and other namespaces have not made it.
        pods.create(pod("r", cpu=2, annotations={SPEC: '{"numaTopologyPolicy": ""}'}))
        other = pods.plane.api.create(
            "/api/v1/namespaces/default/pods?dryRun=All", pod("s", annotations={SPEC: single})
        )
        assert json.loads(other["metadata"]["annotations"][DEFAULTS])["singleNUMANodeExclusive"] == "Preferred"


def _tried(call: Any) -> Any:
    try:
        return call()
    except Exception:  # noqa: BLE001 - denied so far, or now
        return None


def test_an_unknown_label_is_told_when_it_is_written_and_at_each_pods_creation(
    control_plane: ControlPlane, pods: Pods
) -> None:
    def warned(*arguments: str, raw: Mapping[str, Any] | None = None) -> str:
        """The stderr of kubectl, whether it succeeds or not."""
        try:
            control_plane.kubectl(*arguments, "--warnings-as-errors", input=None if raw is None else json.dumps(raw))
        except CommandError as error:
            return str(error)
        return ""

    told = f"namespace {pods.namespace}: metadata.labels[{LABEL}]: 'alined' is unknown, so the setting manage applies. "
    told += "Allowed are annotated, aligned, all. Did you mean aligned?"
    with local_webhook(control_plane):
        assert told in warned("label", "namespace", pods.namespace, f"{LABEL}=alined")
        raw = {"apiVersion": "v1", "kind": "Pod", **plain("p")}
        create = partial(warned, "create", "--dry-run=server", "-n", pods.namespace, "-f", "-", raw=raw)
        control_plane.wait_for("the warning", lambda: told in create())
        say(control_plane, pods.namespace, labels={LABEL: None})
        control_plane.wait_for("silence", lambda: create() == "")


def test_the_first_pod_of_a_new_namespace_is_managed_by_its_label(control_plane: ControlPlane) -> None:
    with local_webhook(control_plane):
        for number in range(10):
            name = f"new-{number}"
            namespace = {"metadata": {"name": name, "labels": {LABEL: "all"}}}
            control_plane.api.create("/api/v1/namespaces", namespace)
            try:
                # A pod of another user would wait for its ServiceAccount.
                raw = plain("first", serviceAccountName="none", automountServiceAccountToken=False)
                control_plane.api.create(f"/api/v1/namespaces/{name}/serviceaccounts", {"metadata": {"name": "none"}})
                created = control_plane.api.create(f"/api/v1/namespaces/{name}/pods", raw)
                assert created["metadata"]["annotations"][MANAGED] == "all"
            finally:
                control_plane.delete_namespace(name)


def test_a_pod_that_was_bound_while_no_webhook_answered_gets_its_allocation(
    control_plane: ControlPlane, pods: Pods, unreported: Kubelets
) -> None:
    values = {"settings": {**QUICK_LEASE, "manage": "Aligned"}}
    with local_webhook(control_plane, values=values) as webhook:
        wait_until_known(pods, 2)
        wait_until_managed(pods, plain("any"), "aligned")
        (replica,) = webhook.replicas
        port = replica.backend.port
        webhook.install(1, 1)  # nobody listens there; the replica sees all that happens
        wait_until_managed(pods, plain("any"), None)
        names = [f"missed-{number}" for number in range(2)]
        for name in names:
            pods.create(plain(name))
            pods.wait_until_bound(name)
        control_plane.wait_for("both to be admitted", lambda: len(given(unreported)) == 2)
        assert all(MANAGED not in annotations_of(pods, name) for name in names)
        for name in names:
            control_plane.wait_for("an allocation", lambda: NUMA in annotations_of(pods, name))  # noqa: B023
        assert {name: pods.allocation(name) for name in names} == given(unreported)
        # One that nobody saw created either, and that is bound when the webhook answers again: it is guarded.
        pods.create(plain("late", schedulingGates=[{"name": "example.com/held"}]))
        _call_again(webhook, port, pods)
        control_plane.api.patch(f"{pods.path}/late", {"spec": {"schedulingGates": None}})
        pods.wait_until_bound("late")
        control_plane.wait_for("it to be admitted", lambda: "late" in given(unreported))
        assert pods.allocation("late") == given(unreported)["late"]
    assert unreported.events("rejected") == []


def _call_again(webhook: LocalWebhook, port: int, pods: Pods) -> None:
    webhook.install(port, port)
    wait_until_managed(pods, plain("any"), "aligned")
