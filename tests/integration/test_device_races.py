"""Others allocate devices, pods are deleted and leaders killed while the claims of gated pods are being allocated.

The leader's writes are held before a claim is allocated, or between that and the patch that ungates its pod.

    near  [16 16]  gpu-0 and gpu-1 near NUMA node 0      [free CPUs per NUMA node]
"""

from __future__ import annotations

import sys
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.builders.devices import DRIVER, claim_template, device_class, gpus, request, resource_slice, result
from tests.cluster.api import ApiError
from tests.cluster.gated import Pods, pod
from tests.cluster.nodes import Machine
from tests.cluster.webhook_process import NAMESPACE, QUICK_LEASE, RELEASE, LocalWebhook, local_webhook
from webhook.formats.dra import FINALIZER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.cluster.control_plane import ControlPlane

pytestmark = pytest.mark.long

API = "/apis/resource.k8s.io/v1"
HELD = Path(__file__).parents[1] / "cluster" / "held_webhook.py"


@pytest.fixture(scope="module")
def holds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that says which writes wait."""
    return tmp_path_factory.mktemp("holds")


@pytest.fixture(scope="module", autouse=True)
def webhook(control_plane: ControlPlane, holds: Path) -> Iterator[LocalWebhook]:
    with local_webhook(control_plane, replicas=2, values={"settings": {"drainSeconds": 2, **QUICK_LEASE}}) as webhook:
        for replica in webhook.replicas:
            replica.program = [sys.executable, HELD, str(holds)]
            replica.start_again()
        control_plane.wait_for("a leader to be called", lambda: len(webhook.leaders) == 1)
        assert webhook.wait_until_called()
        yield webhook


class Site:
    """Claims, and the writes of the leader to them and to their pods."""

    def __init__(self, plane: ControlPlane, pods: Pods, holds: Path) -> None:
        self.plane = plane
        self.pods = pods
        self.claims = f"{API}/namespaces/{pods.namespace}/resourceclaims"
        self._holds = holds
        self.ours = plane.api.acting_as(f"system:serviceaccount:{NAMESPACE}:{RELEASE}", "system:serviceaccounts")

    def create_pod(self, name: str, **named: str) -> None:
        """Create a pod with a claim, by default one that is made from the template."""
        raw = pod(name, cpu=8, resourceClaims=[{"name": "gpu", **(named or {"resourceClaimTemplateName": "gpu"})}])
        raw["spec"]["containers"][0]["resources"]["claims"] = [{"name": "gpu"}]
        self.pods.create(raw)

    def create_claim(self, name: str) -> None:
        spec = {"devices": {"requests": [request()]}}
        self.plane.api.create(self.claims, {"metadata": {"name": name}, "spec": spec})

    def claim_of(self, name: str) -> dict[str, Any]:
        """The claim of a pod."""
        (made,) = self.pods.get(name)["status"]["resourceClaimStatuses"]
        found: dict[str, Any] = self.plane.api.get(f"{self.claims}/{made['resourceClaimName']}")
        return found

    def allocate(self, name: str, device: str, *, pod: str = "", as_us: bool = False) -> None:
        """Allocate a claim as another allocator does. as_us: without a review, as if no replica answered."""
        api = self.ours if as_us else self.plane.api
        field = {"key": "metadata.name", "operator": "In", "values": ["near"]}
        allocation = {
            "devices": {"results": [result(device, pool="near")]},
            "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [field]}]},
        }
        api.patch(f"{self.claims}/{name}", {"metadata": {"finalizers": [FINALIZER]}})
        users = [{"resource": "pods", "name": pod, "uid": self.pods.get(pod)["metadata"]["uid"]}] if pod else []
        api.patch(f"{self.claims}/{name}/status", {"status": {"allocation": allocation, "reservedFor": users}})

    def held(self) -> dict[str, list[str]]:
        """Device -> the claims that have it."""
        found: dict[str, list[str]] = {}
        for raw in self.plane.api.get(self.claims)["items"]:
            allocation = raw.get("status", {}).get("allocation") or {"devices": {"results": []}}
            for one in allocation["devices"]["results"]:
                found.setdefault(one["device"], []).append(raw["metadata"]["name"])
        return found

    @contextmanager
    def holding(self, what: str) -> Iterator[Callable[[], None]]:
        """Hold these writes within this context; gives a function that waits until one is held."""
        hold, waits = self._holds / what, self._holds / f"{what}.waits"
        waits.unlink(missing_ok=True)
        hold.touch()

        def wait() -> None:
            self.plane.wait_for(f"a write of a {what} to wait", waits.exists)

        try:
            yield wait
        finally:
            hold.unlink()


@pytest.fixture
def site(control_plane: ControlPlane, known: Callable[..., None], pods: Pods, holds: Path) -> Iterator[Site]:
    api = control_plane.api
    made = [(f"{API}/deviceclasses", device_class()), (f"{API}/resourceslices", resource_slice("near", gpus(0, 0)))]
    for path, raw in made:
        api.create(path, raw)
    api.create(f"{API}/namespaces/{pods.namespace}/resourceclaimtemplates", claim_template(namespace=pods.namespace))
    known(Machine("near", free=(16, 16)))
    site = Site(control_plane, pods, holds)
    yield site
    site.ours.close()
    pods.delete(*pods.all())
    for raw in api.get(site.claims)["items"]:
        name = f"{site.claims}/{raw['metadata']['name']}"
        with suppress(ApiError):  # those of pods go by themselves
            api.patch(f"{name}/status", {"status": {"reservedFor": None, "allocation": None}})
            api.delete(name)
    for path, raw in reversed(made):
        api.delete(f"{path}/{raw['metadata']['name']}")


def other_than(device: str) -> str:
    return "gpu-1" if device == "gpu-0" else "gpu-0"


def assumed_device(site: Site) -> str:
    """The device that the leader has chosen: another claim that takes it is refused, by a dry run."""
    site.create_claim("probe")
    for device in ("gpu-0", "gpu-1"):
        try:
            site.plane.api.patch(
                f"{site.claims}/probe/status?dryRun=All",
                {"status": {"allocation": {"devices": {"results": [result(device, pool="near")]}}}},
            )
        except ApiError as error:
            assert f"device {DRIVER}/near/{device} has just been given to another claim" in error.message  # noqa: PT017
            return device
    raise AssertionError("no device is assumed")


def test_an_allocation_of_an_assumed_device_is_refused_and_of_another_one_counts_at_once(site: Site) -> None:
    site.create_claim("other")
    with site.holding("claim") as wait:
        site.create_pod("p")
        wait()
        device = assumed_device(site)
        with pytest.raises(ApiError, match="has just been given to another claim"):
            site.allocate("other", device)
        site.allocate("other", other_than(device))
    site.pods.wait_until_bound("p")
    assert site.held() == {device: [site.claim_of("p")["metadata"]["name"]], other_than(device): ["other"]}
    site.create_pod("q")
    site.pods.wait_until_told("q", "WaitingForPlacement")
    assert site.pods.gated() == {"q"}


def test_a_pod_whose_claim_or_device_others_have_taken_first_is_placed_again(site: Site) -> None:
    site.create_claim("other")
    with site.holding("claim") as wait:
        site.create_pod("p")
        wait()
        device = assumed_device(site)
        site.allocate("other", device, as_us=True)
    site.pods.wait_until_bound("p")
    assert site.held() == {device: ["other"], other_than(device): [site.claim_of("p")["metadata"]["name"]]}


def test_a_pod_whose_own_claim_others_have_allocated_is_placed_again(site: Site) -> None:
    with site.holding("claim") as wait:
        site.create_pod("p")
        wait()
        device, name = assumed_device(site), site.claim_of("p")["metadata"]["name"]
        site.allocate(name, other_than(device), pod="p")
    site.pods.wait_until_bound("p")
    assert site.held() == {"gpu-0": [name]}


@pytest.mark.parametrize("named", [{}, {"resourceClaimName": "own"}], ids=["template", "claim"])
def test_a_pod_that_is_deleted_while_it_is_gated_leaves_no_allocation(site: Site, named: dict[str, str]) -> None:
    if named:
        site.create_claim("own")
    with site.holding("pod") as wait:
        site.create_pod("p", **named)
        wait()
        assert len(site.held()) == 1
        assert site.pods.gated() == {"p"}
        site.pods.delete("p")
        site.plane.wait_for("no device to be held", lambda: not site.held())
    site.create_pod("q", **named)
    site.pods.wait_until_bound("q")
    assert len(site.held()) == len(site.plane.api.get(site.claims)["items"]) == 1


def test_what_a_leader_that_is_killed_has_allocated_is_taken_back_and_the_pod_is_placed(
    site: Site, webhook: LocalWebhook
) -> None:
    with site.holding("pod") as wait:
        site.create_pod("p")
        wait()
        ((device, names),) = site.held().items()
        (leader,) = webhook.leaders
        leader.process.kill()
    site.pods.wait_until_bound("p")
    assert list(site.held().values()) == [names], device
    reserved = site.claim_of("p")["status"]["reservedFor"]
    assert [one["uid"] for one in reserved] == [site.pods.get("p")["metadata"]["uid"]]
    (next_leader,) = {*webhook.replicas} - {leader}
    assert '"claim.taken_back"' in next_leader.process.log.read_text()
    leader.start_again()
