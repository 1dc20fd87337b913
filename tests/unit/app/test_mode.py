"""What each mode makes of a handler's answer, and the events about pods that mode Observe reports at their binding."""

import asyncio
from typing import Any

import pytest

from tests.builders import pods
from tests.builders.clusters import cluster_cache
from tests.builders.nodes import node, nrt
from tests.builders.pods import pod
from tests.builders.reviews import binding_review
from webhook.admission.handler import Handler, LeaderNeededError, NotNowError
from webhook.admission.response import Allowed, Denied, Observed, Patched, Response
from webhook.app.webhooks import ObservedBindings, Observer, in_mode
from webhook.formats.kubernetes.admission_review import AdmissionRequest
from webhook.internal_errors import Where, internal_error_counts
from webhook.kube.events import PodEvent
from webhook.model.names import NUMA_TOPOLOGY_SPEC, PLACEMENT
from webhook.state.rules import Rules

SINGLE = {NUMA_TOPOLOGY_SPEC: pods.SINGLE}
REFUSED = Denied("n0 is full", "InsufficientCapacity")
PATCH = ({"op": "remove", "path": "/a"},)
FAR = 3600.0


class Answers:
    """A handler with one answer, which it gives at once or never."""

    def __init__(self, answer: Response | Exception | None) -> None:
        self._answer = answer
        self.deadline = 0.0

    async def handle(self, request: AdmissionRequest) -> Response:
        self.deadline = request.deadline
        if self._answer is None:
            await asyncio.Event().wait()
        if isinstance(self._answer, Exception):
            raise self._answer
        assert self._answer is not None
        return self._answer


async def observed(answer: Response | Exception | None) -> tuple[Response, list[Response]]:
    told: list[Response] = []
    response = await Observer(Answers(answer), lambda _, decided: told.append(decided)).handle(
        binding_review("p", deadline=asyncio.get_running_loop().time() + FAR)
    )
    return response, told


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (REFUSED, Observed("deny", "InsufficientCapacity")),
        (Patched(PATCH, verdict="wait"), Observed("wait")),
        (Patched(PATCH, ("w",)), Observed("change")),
        (Patched(()), Observed("allow")),
        (Allowed(("w",)), Observed("allow")),
    ],
)
async def test_observe_admits_unchanged_and_keeps_what_was_decided(answer: Response, expected: Observed) -> None:
    response, told = await observed(answer)
    assert response == Allowed()
    assert (response.verdict, response.observed, response.message) == ("allow", expected, answer.message)
    assert told == [answer]


@pytest.mark.parametrize("answer", [NotNowError("no leader"), ValueError("a bug"), None])
async def test_observe_admits_what_cannot_be_decided(answer: Exception | None) -> None:
    response, told = await observed(answer)
    assert (response, response.observed, told) == (Allowed(), Observed("none"), [])


@pytest.mark.parametrize("reason", ["NotLeader", "LeaderChanged", "BindingInProgress"])
async def test_a_refusal_until_more_is_known_is_no_verdict(reason: str) -> None:
    response, told = await observed(Denied("later", reason, misrouted=reason == "NotLeader"))
    assert (response, response.observed, told) == (Allowed(), Observed("none", reason), [])
    assert response.misrouted == (reason == "NotLeader")


async def test_what_only_the_leader_knows_it_observes_and_else_nobody_does() -> None:
    told: list[Response] = []
    handler = Answers(LeaderNeededError("n0", Denied("later", "NotLeader", misrouted=True)))
    with pytest.raises(LeaderNeededError) as needed:
        await Observer(handler, lambda _, response: told.append(response)).handle(binding_review("p", deadline=FAR))
    admitted = needed.value.otherwise
    assert (needed.value.node, admitted, admitted.misrouted) == ("n0", Allowed(), True)
    assert admitted.observed == Observed("none")
    assert told == []


async def test_observe_waits_for_no_other_binding_longer_than_a_second() -> None:
    handler = Answers(Allowed())
    await Observer(handler, lambda *_: None).handle(
        binding_review("p", deadline=asyncio.get_running_loop().time() + FAR)
    )
    assert handler.deadline < asyncio.get_running_loop().time() + 1.0


async def test_a_report_that_fails_is_contained() -> None:
    def fails(*_: object) -> None:
        raise ValueError

    before = internal_error_counts().get(Where.REVIEW, 0)
    response = await Observer(Answers(REFUSED), fails).handle(
        binding_review("p", deadline=asyncio.get_running_loop().time() + FAR)
    )
    assert response == Allowed()
    assert internal_error_counts()[Where.REVIEW] == before + 1


async def test_off_asks_no_handler_and_enforce_changes_none() -> None:
    handlers: dict[str, Handler] = {"/a": Answers(ValueError("not to be called"))}
    assert (
        in_mode("Off", handlers, lambda *_: None)["/a"].handle(
            binding_review("p", deadline=asyncio.get_running_loop().time() + FAR)
        )
        == Allowed()
    )
    assert in_mode("Enforce", handlers, lambda *_: None) is handlers


def events(
    annotations: dict[str, str] | None, decided: Response, rules: Rules | None = None, **more: Any
) -> list[PodEvent]:
    # n0 ── NUMA 0 [2]  NUMA 1 [2]      [free cpus of 16]
    raw = pod(cpu=8, metadata={"name": "p", "uid": "u", "annotations": annotations or {}})
    cache = cluster_cache(node(name="n0"), nrt(node="n0", free=(2, 2)), raw)
    told: list[PodEvent] = []
    ObservedBindings(cache, rules or Rules(), told.append).report(binding_review("p", **more), decided)
    return told


def reasons(told: list[PodEvent]) -> list[tuple[str, str]]:
    return [(event.reason, event.type) for event in told]


def test_a_refusal_and_what_became_of_the_pod_at_its_creation_are_events_of_the_pod() -> None:
    creation, binding = events(SINGLE, REFUSED)
    assert (creation.key, creation.uid, creation.reason, creation.type) == (
        "default/p",
        "u",
        "PodWouldBeGated",
        "Normal",
    )
    assert creation.note.startswith("mode Observe, not applied: waiting: SingleNUMANode: none of 1 node")
    note = "mode Observe, not applied: n0 is full"
    assert binding == PodEvent("default/p", "u", "BindingWouldBeRefused", note, "Binding", "Warning")


def test_an_invalid_annotation_is_a_warning_event() -> None:
    (creation, _) = events({NUMA_TOPOLOGY_SPEC: "not JSON"}, Patched((), message="bound to n0"))
    assert (creation.reason, creation.type) == ("PodWouldBeDenied", "Warning")
    assert NUMA_TOPOLOGY_SPEC in creation.note


def test_a_pod_without_gate_has_the_event_of_its_binding_alone() -> None:
    decided = Patched((), message="bound to n0 on NUMA node 1")
    (binding,) = events(SINGLE, decided, Rules(no_capacity="Allow"))
    note = "mode Observe, not applied: bound to n0 on NUMA node 1"
    assert (binding.reason, binding.type, binding.note) == ("BindingWouldBeAllowed", "Normal", note)


@pytest.mark.parametrize("annotations", [None, {**SINGLE, PLACEMENT: "placed before"}])
def test_the_creation_of_unmanaged_pods_and_of_those_decided_before_is_not_reported(
    annotations: dict[str, str] | None,
) -> None:
    assert events(annotations, Allowed()) == []


def test_dry_runs_and_other_objects_have_no_events() -> None:
    assert events(SINGLE, REFUSED, dryRun=True) == []
    assert events(SINGLE, REFUSED, kind={"kind": "Pod"}) == []


def test_a_binding_of_an_unknown_pod_has_no_event_of_a_creation() -> None:
    other = {"metadata": {"name": "p", "uid": "another"}, "target": {"name": "n0"}}
    assert reasons(events(SINGLE, REFUSED, object=other)) == [("BindingWouldBeRefused", "Warning")]
