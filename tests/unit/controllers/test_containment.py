"""A cycle of the leader on a cluster in memory: faults at each of its boundaries, and no waiting for anything."""

import asyncio
import inspect
import sys
from collections.abc import Callable, Iterator
from functools import cached_property, partial
from itertools import pairwise
from types import ModuleType
from typing import Any

import pytest
from structlog.testing import capture_logs

from tests.builders.clusters import put
from tests.builders.pods import gated
from tests.unit.controllers.leader import TERM, HangingLeader
from webhook.controllers.placement import controller as controlling
from webhook.controllers.placement import fence
from webhook.controllers.status_reporter import StatusReporter
from webhook.internal_errors import Where, internal_error_counts
from webhook.kube.pacing import Backoff
from webhook.kube.write import Outcome, Write
from webhook.model.names import MIN_MEMBER
from webhook.placing import planner
from webhook.placing.gang import gated_gang as exact_allocations
from webhook.placing.pod.gated_pods import GatedPod


class InjectedError(Exception):
    """No caller knows it."""


def waiting(name: str, *, group: str = "", members: int = 0, owner: str = "") -> dict[str, Any]:
    raw = gated(name=name, group=group)
    if members:
        raw["metadata"]["annotations"][MIN_MEMBER] = str(members)
    if owner:
        reference = {"apiVersion": "batch/v1", "kind": "Job", "name": owner, "uid": owner, "controller": True}
        raw["metadata"]["ownerReferences"] = [reference]
    return raw


async def test_a_cycle_waits_for_nothing_whatever_hangs() -> None:
    pods = [waiting(f"p{number:03}") for number in range(100)]
    site = HangingLeader(
        *pods, waiting("owned", members=1, owner="w"), waiting("g-0", group="g"), waiting("g-1", group="g")
    )
    for _ in range(3):
        site.turn()
        await asyncio.sleep(0)
    assert site.waiting_because()["default/owned"] == "waiting: its owners: they are being read"
    # Of the writes that hang only so many were begun.
    assert len(site.api.patched) == 4


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """A traceback takes half a second to be made readable for a terminal."""
    with capture_logs():
        yield


def faulty_for(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, marked: str) -> None:
    attribute = inspect.getattr_static(owner, name)
    function: Any = getattr(owner, name)
    if is_property(attribute):
        function = attribute.fget if isinstance(attribute, property) else attribute.func

    def raises(*arguments: Any, **named: Any) -> Any:
        if any(marked in repr(argument) for argument in arguments):
            raise InjectedError(name)
        return function(*arguments, **named)

    monkeypatch.setattr(owner, name, property(raises) if is_property(attribute) else raises)


def rooms(module: ModuleType, found: dict[str, ModuleType]) -> dict[str, ModuleType]:
    """The modules of this package that a module uses, itself among them."""
    if module.__name__ not in found:
        found[module.__name__] = module
        for one in vars(module).values():
            home = getattr(one, "__module__", "") or ""
            if home.startswith("webhook.controllers."):
                rooms(sys.modules[home], found)
    return found


def of_a_pod() -> list[tuple[Any, str]]:
    """Whatever a cycle calls with a pod: functions in the rooms it uses, and a pod's own properties."""
    functions = [
        (room, name)
        for room in rooms(controlling, {}).values()
        for name, function in vars(room).items()
        if inspect.isfunction(function) and function.__module__.startswith("webhook.") and takes_a_pod(function)
    ]
    # By its key a pod is named in the log; nothing is made up for it.
    properties = [(GatedPod, name) for name, one in vars(GatedPod).items() if is_property(one) and name != "key"]
    return [*functions, *properties, (GatedPod, "from_object"), (StatusReporter, "news"), (StatusReporter, "waits")]


def is_property(attribute: object) -> bool:
    return isinstance(attribute, property | cached_property)


def takes_a_pod(function: Callable[..., Any]) -> bool:
    names = {"raw", "gated", "pod", "annotations"}
    return not names.isdisjoint(inspect.signature(function).parameters)


@pytest.mark.parametrize(("room", "name"), of_a_pod(), ids=lambda one: getattr(one, "__name__", one))
async def test_a_fault_with_one_pod_wherever_it_comes_from_is_that_pods(
    monkeypatch: pytest.MonkeyPatch, room: Any, name: str
) -> None:
    # One that fits, one that fits nowhere, one that nobody here places, one with an owner, one that asks for nothing.
    faulty = {name: waiting(f"faulty-{name}") for name in ("fits", "large", "foreign", "unasked")}
    faulty["owned"] = waiting("faulty-owned", members=1, owner="w")
    faulty["member"] = waiting("faulty-member", group="g", members=1)
    faulty["large"]["spec"]["nodeSelector"] = {"no": "where"}
    faulty["foreign"]["spec"]["schedulerName"] = "another"
    faulty["unasked"]["metadata"]["annotations"] = {"topology-webhook.dev/inherit": "true"}
    for raw in faulty.values():
        raw["metadata"]["annotations"]["note"] = "faulty"
        raw["spec"]["priority"] = 100
    site = HangingLeader(*faulty.values(), waiting("a"), waiting("b"))
    faulty_for(monkeypatch, room, name, "faulty")
    site.api.answers.set()
    for _ in range(3):
        site.turn()
        await site.controller.settle()
        if {"default/a", "default/b"} <= set(site.api.patched):
            return
    raise AssertionError(site.api.patched)


async def test_a_pod_that_fails_waits_says_so_and_is_tried_again_later(monkeypatch: pytest.MonkeyPatch) -> None:
    site = HangingLeader(waiting("faulty"), waiting("a"))
    faulty_for(monkeypatch, planner, "find_assignment", "faulty")
    before = internal_error_counts().get(Where.POD, 0)
    for _ in range(10):
        site.turn()
    assert internal_error_counts()[Where.POD] == before + 1
    assert site.waiting_because()["default/faulty"].startswith("waiting: internal error: InjectedError")


async def test_a_pod_that_is_recreated_under_the_name_does_not_inherit_the_delay(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    site = HangingLeader(waiting("p"))
    with monkeypatch.context() as broken:
        faulty_for(broken, planner, "find_assignment", "p")
        site.turn()
    site.turn()
    assert site.cache.assumed_node("default/p") is None
    again = waiting("p")
    again["metadata"]["uid"] = "another"
    put(site.cache, again)
    site.turn()
    assert site.cache.assumed_node("default/p") is not None


async def test_a_gang_that_fails_gives_back_what_it_was_assumed_and_the_others_are_placed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    members = [waiting(f"g-{number}", group="g", members=3) for number in range(3)]
    site = HangingLeader(*members, waiting("z"))
    faulty_for(monkeypatch, exact_allocations.ExactAllocations, "of", "'g-2'")
    before = internal_error_counts().get(Where.GANG, 0)
    for _ in range(5):
        site.turn()
    assert internal_error_counts()[Where.GANG] == before + 1
    assert [site.cache.assumed_node(f"default/g-{number}") for number in range(3)] == [None] * 3
    assert site.cache.assumed_node("default/z") is not None
    assert set(site.waiting_because()) == {f"default/g-{number}" for number in range(3)}


async def test_a_pod_that_cannot_be_fenced_holds_up_the_others_no_longer_than_it_must(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    site = HangingLeader(waiting("refused"), waiting("a"))
    left = iter(range(5, -1, -1))
    monkeypatch.setattr(site, "seconds_until_settled", lambda _: float(next(left, 0)))
    monkeypatch.setattr(fence, "Backoff", partial(Backoff, base=0.0))

    async def annotate(key: str, *_: str) -> Write:
        return Write(Outcome.REFUSED if key == "default/refused" else Outcome.WRITTEN)

    monkeypatch.setattr(site.api, "annotate", annotate)
    async with asyncio.timeout(60):
        assert await site.controller._fence("", TERM)


async def test_a_write_that_fails_ends_nothing_but_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    site = HangingLeader(waiting("faulty"), waiting("a"))
    site.api.answers.set()
    faulty_for(monkeypatch, site.controller._writer, "write", "faulty")
    site.turn()
    await site.controller.settle()
    assert site.api.patched == ["default/a"]
    assert site.waiting_because()["default/faulty"].startswith("waiting: internal error")


async def test_a_pod_whose_placement_is_refused_says_so_once_and_is_tried_again_later_each_time() -> None:
    site = HangingLeader(waiting("full"), waiting("a"))
    site.api.answers.set()
    site.api.refused = frozenset({"default/full"})
    now = 0.0
    site.controller._delays._clock = lambda: now
    tried = []
    for _ in range(200):
        now += 1.0
        before = site.api.patched.count("default/full")
        site.turn()
        await site.controller.settle()
        if site.api.patched.count("default/full") > before:
            tried.append(now)
    assert site.api.patched.count("default/a") == 1
    assert [later - earlier for earlier, later in pairwise(tried)] == [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0]
    assert site.cache.assumed_node("default/full") is None
    told = site.waiting_because()["default/full"]
    assert told.startswith("waiting: it fits, but its placement cannot be written: 422 Invalid")
    assert len(told) <= 1000
    site.reporter._to_report.discard("default", "default/full")
    now += 60.0
    site.turn()
    await site.controller.settle()
    assert "default/full" not in site.waiting_because()


async def test_a_pod_whose_annotations_leave_no_room_for_a_placement_is_given_none() -> None:
    full = [waiting(f"full-{number}") for number in range(20)]
    for raw in full:
        raw["metadata"]["annotations"]["x"] = "x" * 250_000
    site = HangingLeader(*full, waiting("z"))
    site.api.answers.set()
    site.turn()
    await site.controller.settle()
    assert site.api.patched == ["default/z"]
    assert all("metadata.annotations" in site.waiting_because()[f"default/full-{number}"] for number in range(20))
