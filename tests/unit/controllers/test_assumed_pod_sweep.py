"""Assumed pods that came to nothing are given back, and only those."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from webhook.controllers.assumed_pod_sweep import AssumedPodSweep
from webhook.kube.api_errors import UnreachableError
from webhook.state.assumed.assumed_pod import AssumedPod
from webhook.state.cluster_cache import ClusterCache

ASSUMED = AssumedPod("ns/p", "u", "n", {0: {"cpu": 1000}}, {"cpu": 1000}, None, expires=70)


def cache_of_one_assumed_pod() -> tuple[ClusterCache, list[bool]]:
    """And a list that grows with each change."""
    cache, changes = ClusterCache(), list[bool]()
    cache.assume(ASSUMED)
    cache.changed.subscribe(lambda: changes.append(True))
    return cache, changes


def pod(uid: str = "u", node: str = "") -> dict[str, Any]:
    return {"metadata": {"name": "p", "uid": uid}, "spec": {"nodeName": node} if node else {}}


async def left_after(now: float, found: Mapping[str, Any] | None) -> int:
    """How many assumed pods are left; what is given back may be what somebody waits for."""

    async def fetch(namespace: str, name: str) -> Mapping[str, Any] | None:
        assert (namespace, name) == ("ns", "p")
        return found

    cache, changes = cache_of_one_assumed_pod()
    await AssumedPodSweep(cache, fetch).sweep(now)
    assert len(changes) == 1 - cache.assumed_count
    return cache.assumed_count


@pytest.mark.parametrize(
    "found", [None, pod(), pod(node="m"), pod(uid="another", node="n")], ids=["gone", "waiting", "elsewhere", "another"]
)
async def test_an_assumed_pod_that_came_to_nothing_is_given_back_after_its_time(
    found: Mapping[str, Any] | None,
) -> None:
    assert await left_after(69, found) == 1
    assert await left_after(70, found) == 0


async def test_an_assumed_pod_that_was_taken_stays_until_the_pod_is_seen() -> None:
    assert await left_after(70, pod(node="n")) == 1


async def test_the_next_pod_of_its_name_is_not_taken_for_one_that_was_just_read() -> None:
    async def fetch(*_: str) -> Mapping[str, Any]:
        return pod(node="n")

    cache, _ = cache_of_one_assumed_pod()
    sweep = AssumedPodSweep(cache, fetch)
    await sweep.sweep(70)
    cache.assume(replace(ASSUMED, uid="another"))
    await sweep.sweep(71)
    assert cache.assumed_count == 0


async def test_an_api_server_that_does_not_answer_settles_nothing() -> None:
    async def fetch(_: str, __: str) -> Mapping[str, Any] | None:
        raise UnreachableError("no route")

    cache, _ = cache_of_one_assumed_pod()
    await AssumedPodSweep(cache, fetch).sweep(70)
    assert cache.assumed_count == 1


async def test_all_is_settled_when_no_assumed_pod_is_open() -> None:
    async def fetch(_: str, __: str) -> Mapping[str, Any] | None:
        return None

    cache, _ = cache_of_one_assumed_pod()
    sweep = AssumedPodSweep(cache, fetch)
    settled = asyncio.create_task(sweep.settle())
    await asyncio.sleep(0)
    assert not settled.done()
    await sweep.sweep(70)
    await settled


@pytest.mark.parametrize(
    ("found", "told"), [(pod(), [("ns/p", "u", 70)]), (pod(node="n"), [])], ids=["waiting", "bound"]
)
async def test_of_a_binding_that_did_not_come_the_guard_is_told(
    found: Mapping[str, Any], told: list[tuple[str, str, float]]
) -> None:
    async def fetch(*_: str) -> Mapping[str, Any]:
        # Meanwhile the pod is reviewed once more.
        cache.assume(replace(ASSUMED, is_binding=True, node="n"))
        return found

    (cache, _), heard = cache_of_one_assumed_pod(), list[tuple[str, str, float]]()
    cache.assume(replace(ASSUMED, is_binding=True))
    await AssumedPodSweep(cache, fetch, lambda *about: heard.append(about)).sweep(70)
    assert (heard, cache.assumed_count) == (told, 0 if told else 1)
