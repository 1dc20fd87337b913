"""The informer and discovery on a real API server."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest

from tests.cluster.api import ApiError
from tests.cluster.control_plane import ControlPlane
from tests.cluster.fixtures import name_of
from webhook.kube.client import Client
from webhook.kube.discovery import DiscoveredInformer, Wanted, locate
from webhook.kube.informer import Informer, Phase
from webhook.kube.large_field import LargeField
from webhook.kube.resource import Resource
from webhook.model.raw import Raw

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


class Copy:
    """A handler that keeps everything."""

    def __init__(self) -> None:
        self.objects: dict[str, Raw] = {}

    def upsert(self, key: str, raw: Raw) -> None:
        self.objects[key] = raw

    def delete(self, key: str) -> None:
        self.objects.pop(key, None)


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110 # nothing to wait on: the condition is any expression
            await asyncio.sleep(0.02)


@pytest.fixture
async def client(control_plane: ControlPlane) -> AsyncIterator[Client]:
    async with await Client.connect(control_plane.kubeconfig) as client:
        yield client


@asynccontextmanager
async def running(informer: Informer | DiscoveredInformer) -> AsyncIterator[None]:
    task = asyncio.create_task(informer.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait({task})
        if not task.cancelled():
            task.result()


def config_map(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}


async def test_pages_events_and_deletions_arrive(control_plane: ControlPlane, namespace: str, client: Client) -> None:
    resource = Resource("", "v1", "configmaps", namespace)
    create = partial(control_plane.api.create, resource.path)
    control_plane.api.in_parallel([partial(create, config_map(f"c{number}")) for number in range(25)])
    copy = Copy()
    informer = Informer(client, resource, copy, page_size=10)
    async with running(informer):
        await informer.synced.wait()
        assert len(copy.objects) >= 25  # and kube-root-ca.crt, sooner or later
        create(config_map("late"))
        await until(lambda: f"{namespace}/late" in copy.objects)
        control_plane.api.delete(f"{resource.path}/c7")
        await until(lambda: f"{namespace}/c7" not in copy.objects)
        assert all("managedFields" not in raw["metadata"] for raw in copy.objects.values())
        assert informer.status.phase is Phase.WATCHING


async def test_a_field_selector_by_name_sees_that_object_only(
    control_plane: ControlPlane, namespace: str, client: Client
) -> None:
    resource = Resource("", "v1", "configmaps", namespace)
    copy = Copy()
    informer = Informer(client, resource, copy, field_selector="metadata.name=mine")
    async with running(informer):
        await informer.synced.wait()
        assert copy.objects == {}
        control_plane.api.create(resource.path, config_map("other"))
        control_plane.api.create(resource.path, config_map("mine"))
        await until(lambda: copy.objects)
        assert list(copy.objects) == [f"{namespace}/mine"]


@pytest.fixture
def crd(control_plane: ControlPlane, request: pytest.FixtureRequest) -> Iterator[dict[str, Any]]:
    """A CRD with two versions, not installed yet; removed afterwards."""
    group = f"g{name_of(request)}.example.test"
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    versions = [
        {"name": name, "served": True, "storage": name == "v1alpha1", "schema": schema}
        for name in ("v1alpha1", "v1alpha2")
    ]
    names = {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"}
    yield {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"things.{group}"},
        "spec": {"group": group, "names": names, "scope": "Cluster", "versions": versions},
    }
    try:
        control_plane.api.delete(f"{CRDS}/things.{group}")
    except ApiError as error:
        if error.status != 404:
            raise


def discovering(client: Client, crd: dict[str, Any], copy: Copy) -> DiscoveredInformer:
    wanted = Wanted(crd["spec"]["group"], "things", ("v1alpha2", "v1alpha1"))
    informer = Informer(client, Resource(wanted.group, "v1alpha2", "things"), copy)
    return DiscoveredInformer(client, wanted, informer, poll_seconds=0.2)


def thing_created(control_plane: ControlPlane, crd: dict[str, Any]) -> bool:
    """Create the Thing `t`; False while the API server does not serve it yet."""
    version = f"{crd['spec']['group']}/v1alpha1"
    try:
        control_plane.api.create(
            f"/apis/{version}/things", {"apiVersion": version, "kind": "Thing", "metadata": {"name": "t"}}
        )
    except ApiError:
        return False
    return True


async def test_a_crd_that_is_installed_late_is_picked_up_and_one_that_is_removed_leaves_nothing(
    control_plane: ControlPlane, client: Client, crd: dict[str, Any]
) -> None:
    copy = Copy()
    discovered = discovering(client, crd, copy)
    async with running(discovered):
        await discovered.informer.synced.wait()
        assert discovered.informer.status.phase is Phase.ABSENT
        for _ in range(2):
            control_plane.api.create(CRDS, crd)
            await until(partial(thing_created, control_plane, crd))
            await until(lambda: "t" in copy.objects)
            control_plane.api.delete(f"{CRDS}/{crd['metadata']['name']}")
            await until(lambda: discovered.informer.status.phase is Phase.ABSENT)
            assert copy.objects == {}


async def test_the_preferred_version_that_is_served_is_read_and_the_other_one_when_it_ends(
    control_plane: ControlPlane, client: Client, crd: dict[str, Any]
) -> None:
    control_plane.api.create(CRDS, crd)
    group = crd["spec"]["group"]
    copy = Copy()
    discovered = discovering(client, crd, copy)
    async with running(discovered):
        await until(lambda: discovered.informer.status.phase is Phase.WATCHING)
        found = await locate(client, Wanted(group, "things", ("v1alpha2", "v1alpha1")))
        assert found == Resource(group, "v1alpha2", "things")
        await until(partial(thing_created, control_plane, crd))
        await until(lambda: copy.objects.get("t", {}).get("apiVersion") == f"{group}/v1alpha2")
        crd["spec"]["versions"][1]["served"] = False
        control_plane.api.patch(f"{CRDS}/{crd['metadata']['name']}", {"spec": {"versions": crd["spec"]["versions"]}})
        await until(lambda: copy.objects.get("t", {}).get("apiVersion") == f"{group}/v1alpha1")


class Completing(Copy):
    """A handler that also takes objects without their large field."""

    def __init__(self) -> None:
        super().__init__()
        self.completed: list[str] = []

    def upsert_rest(self, key: str, raw: Raw) -> bool:
        self.completed.append(raw["metadata"]["annotations"]["note"])
        return True


async def test_the_first_event_after_a_list_is_not_decoded_whole_if_the_large_field_is_that_of_the_list(
    control_plane: ControlPlane, client: Client, crd: dict[str, Any]
) -> None:
    control_plane.api.create(CRDS, crd)
    await until(partial(thing_created, control_plane, crd))
    resource = Resource(crd["spec"]["group"], "v1alpha2", "things")
    control_plane.api.patch(f"{resource.path}/t", {"zones": [{"name": "node-0", "type": "Node"}]})
    copy = Completing()
    informer = Informer(client, resource, copy, large_field=LargeField("zones", copy.upsert_rest))
    async with running(informer):
        await informer.synced.wait()
        for note in ("first", "second"):
            control_plane.api.patch(f"{resource.path}/t", {"metadata": {"annotations": {"note": note}}})
        await until(lambda: len(copy.completed) == 2)
        control_plane.api.patch(f"{resource.path}/t", {"zones": []})
        await until(lambda: copy.objects["t"]["zones"] == [])
    assert copy.completed == ["first", "second"]
