"""Preemptors that come before an exporter has shown what the victims of another one left, at several lags."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cluster.gated import Pods, wait_until_known
from tests.cluster.kubelets import Kubelets, even_machine, kubelets
from tests.cluster.webhook_process import QUICK_LEASE, LocalWebhook, local_webhook
from tests.integration.preempting import fill, of, priority_classes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cluster.control_plane import ControlPlane

__all__ = ["priority_classes"]  # a fixture

# k0 ── NUMA 0 [8]  NUMA 1 [8]; k1 likewise
FLEET = [even_machine(f"k{number}", cpus=8) for number in range(2)]
# Without fingerprints, a report written a twelfth of it after a binding shows the pod. The shorter lag varies from 1 to
# 3 s.
SETTINGS = {**QUICK_LEASE, "nrtAgeSeconds": 12}


@pytest.fixture(scope="module", params=[("rte", 2.0), ("nfd", 2.0), ("nfd", 8.0)], ids=str)
def machines(control_plane: ControlPlane, request: pytest.FixtureRequest) -> Iterator[Kubelets]:
    publisher, lag = request.param
    with kubelets(control_plane, FLEET, lag=lag, publisher=publisher) as running:
        yield running


@pytest.fixture(scope="module", autouse=True)
def webhook(control_plane: ControlPlane, machines: Kubelets) -> Iterator[LocalWebhook]:
    del machines
    with local_webhook(control_plane, values={"settings": SETTINGS}) as webhook:
        yield webhook


@pytest.fixture
def pods(control_plane: ControlPlane, namespace: str) -> Iterator[Pods]:
    pods = Pods(control_plane, namespace)
    wait_until_known(pods, len(FLEET))
    yield pods
    control_plane.delete_namespace(namespace)


def fill_and_report(pods: Pods) -> list[str]:
    """Fill the machines, and wait until their exporters show it; first, that the last test's pods are gone."""
    pods.plane.wait_for("reports of empty NUMA nodes", lambda: free_cpus(pods) == {"8"})
    low = fill(pods, *(machine.name for machine in FLEET))
    pods.plane.wait_for("reports of full NUMA nodes", lambda: free_cpus(pods) == {"0"})
    return low


def free_cpus(pods: Pods) -> set[str]:
    """What the NodeResourceTopologies show as free."""
    path = "/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies"
    zones = [zone for raw in pods.plane.api.get(path)["items"] for zone in raw["zones"]]
    return {each["available"] for zone in zones for each in zone["resources"] if each["name"] == "cpu"}


def wait_until_ended(pods: Pods, names: list[str], count: int) -> None:
    pods.plane.wait_for(f"the end of {count} pods", lambda: len(set(names) - pods.all().keys()) == count)


def ended(pods: Pods, names: list[str]) -> int:
    return len(set(names) - pods.all().keys())


def test_a_second_preemptor_that_fits_beside_the_first_ends_no_pod(pods: Pods) -> None:
    low = fill_and_report(pods)
    pods.create(of("first", "high", 4))
    wait_until_ended(pods, low, 1)
    pods.create(of("second", "high", 4))
    pods.wait_until_bound("first", "second")
    assert pods.bound()["first"] == pods.bound()["second"]
    assert ended(pods, low) == 1


def test_a_preemptor_of_higher_priority_ends_no_third_pod(pods: Pods) -> None:
    low = fill_and_report(pods)
    pods.create(of("first", "middle"))
    wait_until_ended(pods, low, 1)
    pods.create(of("higher", "high"))
    pods.wait_until_bound("first", "higher")
    assert ended(pods, low) == 2


@pytest.mark.parametrize("is_reported", [True, False])
def test_the_next_preemptor_takes_the_place_of_one_that_is_deleted(pods: Pods, *, is_reported: bool) -> None:
    low = fill_and_report(pods) if is_reported else fill(pods, *(machine.name for machine in FLEET))
    pods.create(of("first", "high"))
    wait_until_ended(pods, low, 1)
    pods.delete("first")
    pods.create(of("second", "high"))
    pods.wait_until_bound("second")
    assert ended(pods, low) == 1
