"""Which webhooks of a configuration get the bundle, and by which patch."""

from typing import Any

import jsonpatch
import pytest

from webhook.cluster.ca_bundle import bundle_patch

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
