"""The patch that writes the CA bundle, and the webhooks that it covers."""

from typing import Any

import jsonpatch
import pytest
from kubernetes.aio.client import Configuration

from webhook.kube.ca_bundle import CABundleKeeper, bundle_patch
from webhook.kube.client import Client
from webhook.kube.credentials import Credentials

SERVICES = {("ns", "webhook"), ("ns", "webhook-bind")}


def webhook(name: str, target: dict[str, Any], bundle: str | None = None) -> dict[str, Any]:
    return {"name": name, "clientConfig": target | ({"caBundle": bundle} if bundle else {})}


OURS = {"service": {"namespace": "ns", "name": "webhook", "path": "/mutate/pods"}}
FOR_THE_LEADER = {"service": {"namespace": "ns", "name": "webhook-bind", "path": "/mutate/bindings"}}
OTHERS = {"service": {"namespace": "ns", "name": "other"}}
URL = {"url": "https://127.0.0.1:8443/mutate/pods"}


def test_ours_get_the_bundle_and_others_are_left_alone() -> None:
    configuration = {
        "webhooks": [webhook("a", OURS), webhook("b", OTHERS), webhook("c", URL), webhook("d", FOR_THE_LEADER, "old")]
    }
    patched = jsonpatch.apply_patch(configuration, bundle_patch(configuration, "new", SERVICES))
    assert [each["clientConfig"].get("caBundle") for each in patched["webhooks"]] == ["new", None, "new", "new"]


def test_where_the_bundle_stands_nothing_is_written() -> None:
    configuration = {"webhooks": [webhook("a", OURS, "new"), webhook("b", OTHERS)]}
    assert bundle_patch(configuration, "new", SERVICES) == []
    assert bundle_patch({}, "new", SERVICES) == []


def test_a_list_that_was_reordered_meanwhile_is_not_written_into() -> None:
    configuration = {"webhooks": [webhook("a", OURS), webhook("b", OTHERS)]}
    patch = bundle_patch(configuration, "new", SERVICES)
    reordered = {"webhooks": configuration["webhooks"][::-1]}
    with pytest.raises(jsonpatch.JsonPatchTestFailed):
        jsonpatch.apply_patch(reordered, patch)


async def test_once_published_a_bundle_that_is_lost_for_a_moment_does_not_make_every_replica_unready() -> None:
    keeper = CABundleKeeper(Client(Credentials(Configuration(), "test")), ["webhook"], SERVICES)
    published = [keeper.published]
    keeper.publish("new")
    for informer in keeper.informers:
        informer.synced.set()
    for bundle in (None, "new", None):
        keeper._kept[0].upsert(
            "webhook", {"metadata": {"resourceVersion": "1"}, "webhooks": [webhook("a", OURS, bundle)]}
        )
        published.append(keeper.published)
    assert published == [False, False, True, True]
