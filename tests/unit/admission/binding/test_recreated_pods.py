"""A binding of a recreated pod whose predecessor's last events come late."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from tests.builders.clusters import cluster_cache, machine, put
from tests.builders.pods import bound, created, gated
from webhook.admission.binding.guard import BindingGuard, LeaderState
from webhook.admission.response import Patched, Response
from webhook.formats.kubernetes.admission_review import AdmissionRequest
from webhook.state.rules import Rules

if TYPE_CHECKING:
    from webhook.state.cluster_cache import ClusterCache


class Site:
    """n0 ── NUMA 0 [8]      [free cpus]"""

    def __init__(self) -> None:
        self.cache: ClusterCache = cluster_cache(*machine(name="n0", free=(8,)), *machine(name="n1", free=(8,)))
        self.server: dict[str, Mapping[str, Any]] = {}
        self.guard = BindingGuard(self.cache, self.fetch, lambda: LeaderState.ALL, Rules(), 70, lambda *_: None, None)

    async def fetch(self, namespace: str, name: str) -> Mapping[str, Any] | None:
        return self.server.get(f"{namespace}/{name}")

    async def bind(self, name: str, uid: str) -> Response:
        request = AdmissionRequest.from_object(
            {
                "apiVersion": "admission.k8s.io/v1",
                "kind": "AdmissionReview",
                "request": {
                    "uid": "1",
                    "kind": {"group": "", "version": "v1", "kind": "Binding"},
                    "resource": {"group": "", "version": "v1", "resource": "pods"},
                    "subResource": "binding",
                    "name": name,
                    "namespace": "default",
                    "operation": "CREATE",
                    "userInfo": {"username": "system:kube-scheduler"},
                    "object": {
                        "kind": "Binding",
                        "metadata": {"name": name, "uid": uid},
                        "target": {"kind": "Node", "name": "n0"},
                    },
                },
            }
        )
        return await self.guard.handle(replace(request, deadline=asyncio.get_running_loop().time() + 0.4))


@pytest.mark.parametrize("before", ["bound", "gated", "nothing"])
@pytest.mark.parametrize("event", ["deleting", "deleted", "another in between"])
async def test_what_a_recreated_pod_was_given_stays_reserved_when_its_predecessor_is_shown_to_end(
    before: str, event: str
) -> None:
    site = Site()
    first = {
        "bound": bound(name="w-0", node="n1", metadata={"uid": "first"}),
        "gated": gated(name="w-0", metadata={"uid": "first"}),
        "nothing": None,
    }[before]
    if first is not None:
        put(site.cache, first)
    # The scheduler has seen the next pod of this name before we do.
    second = created(name="w-0", metadata={"uid": "second"})
    site.server["default/w-0"] = second
    assert isinstance(await site.bind("w-0", "second"), Patched)
    assert site.cache.assumed_node("default/w-0") == "n0"
    # The last events of the first one arrive.
    if first is not None and event == "deleting":
        deleting = {"deletionTimestamp": "2030-01-01T00:00:30Z"}
        put(site.cache, {**first, "metadata": {**first["metadata"], **deleting}})
    if first is not None and event == "deleted":
        site.cache.pods.delete("default/w-0")
    if event == "another in between":
        site.cache.pods.delete("default/w-0")
        put(site.cache, gated(name="w-0", metadata={"uid": "between"}))
        site.cache.pods.delete("default/w-0")
    put(site.cache, second)
    other = created(name="other")
    site.server["default/other"] = other
    put(site.cache, other)
    answer = await site.bind("other", "other")
    assert not isinstance(answer, Patched), "its only NUMA node was given to w-0"
