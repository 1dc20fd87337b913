"""Reviews that a client other than the API server sends to the leader, without client certificates."""

from __future__ import annotations

import contextlib
import itertools
import threading
import time
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from tests.cluster.direct import ask, binding_review
from tests.cluster.gated import PLACEMENT, Pods, pod
from tests.cluster.nodes import Machine
from tests.cluster.webhook_process import LocalWebhook, local_webhook

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tests.cluster.control_plane import ControlPlane

# The claim does not exist: the scheduler never binds these pods.
CLAIM = {"name": "data", "persistentVolumeClaim": {"claimName": "missing"}}
UNRESERVED = 'topology_webhook_bindings_unreserved_total{reason="doubted"}'
ASSUMED_PODS = "topology_webhook_assumed_pods"


@pytest.fixture(scope="module", params=["Never", "Always"])
def webhook(control_plane: ControlPlane, request: pytest.FixtureRequest) -> Iterator[LocalWebhook]:
    """A webhook that answers every client."""
    values = {"settings": {"gate": request.param}}
    with local_webhook(control_plane, values=values, client_certificates=False) as running:
        assert running.wait_until_called()
        yield running


@pytest.fixture
def forger(control_plane: ControlPlane, namespace: str) -> Iterator[Pods]:
    """The pods of another tenant."""
    other = f"{namespace}-forger"
    control_plane.create_namespace(other)
    yield Pods(control_plane, other)
    control_plane.delete_namespace(other)


@contextlib.contextmanager
def forging(webhook: LocalWebhook, reviews: Sequence[dict[str, Any]], rate: float) -> Iterator[Callable[[], int]]:
    """Send these reviews in turn at this rate, from two threads. Yields a function that counts the answers."""
    ended = threading.Event()
    answered = itertools.count()
    turns = itertools.cycle(reviews)
    port = webhook.replicas[0].backend.port

    def forge() -> None:
        following = time.monotonic()
        while not ended.wait(max(0.0, following - time.monotonic())):
            following += 2 / rate
            with contextlib.suppress(OSError):
                ask(port, "/mutate/bindings", next(turns))
                next(answered)

    threads = [threading.Thread(target=forge) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        yield lambda: int(repr(answered)[6:-1])
    finally:
        ended.set()
        for thread in threads:
            thread.join()


def unbound(pods: Pods, count: int) -> list[dict[str, Any]]:
    """Reviews of Bindings to n0, for pods of another tenant that will never be bound."""
    reviews = []
    for number in range(count):
        raw = pods.create(pod(f"forged-{number}", volumes=[CLAIM]))
        metadata = raw["metadata"]
        reviews.append(binding_review(pods.namespace, metadata["name"], "n0", uid=metadata["uid"]))
    pods.plane.wait_for("their gates to go", lambda: not pods.gated())
    return reviews


def seconds_until_bound(pods: Pods, name: str) -> float:
    """Seconds until a new pod of 8 CPUs is bound."""
    began = time.monotonic()
    pods.create(pod(name))
    pods.wait_until_bound(name)
    return time.monotonic() - began


@pytest.mark.parametrize(("count", "rate"), [(1, 4), (1, 50), (12, 50)])
def test_forged_bindings_do_not_keep_another_tenants_pods_from_being_bound(
    webhook: LocalWebhook, known: Callable[..., None], pods: Pods, forger: Pods, count: int, rate: float,
    record_property: Callable[[str, object], None],
) -> None:  # fmt: skip
    # n0 ── NUMA 0 [8]  NUMA 1 [8]      [free cpus: the forger's pods would take all of it]
    known(Machine("n0", free=(8, 8)))
    reviews = unbound(forger, count)
    with forging(webhook, reviews, rate) as answered:
        pods.plane.wait_for("the attack", lambda: answered() >= 8)
        took = [seconds_until_bound(pods, name) for name in ("a", "b")]
        record_property(f"seconds until bound, {count} pods, {rate} forged reviews a second", took)
        # Each pod's binding waits for one that is believed, the first time for longest, and for one look at it.
        # 40 s and more without an end was what it took before; the bound is the scheduler's longest pause.
        assert max(took) < 10
    assert pods.allocation("a")[1] != pods.allocation("b")[1]


def test_a_forged_binding_changes_nothing_that_outlives_it(
    webhook: LocalWebhook, known: Callable[..., None], pods: Pods, forger: Pods, control_plane: ControlPlane
) -> None:
    known(Machine("n0", free=(8, 8)), Machine("n1", free=(2, 2)))
    before = {name: raw["metadata"] for name, raw in forger.all().items()}
    (review,) = unbound(forger, 1)
    victim = pods.create(pod("victim", volumes=[CLAIM]))["metadata"]
    control_plane.wait_for("its gate to go", lambda: not pods.gated())
    forged_pods = forger.all(), pods.all()
    port = webhook.replicas[0].backend.port
    elsewhere = [
        binding_review(pods.namespace, "victim", "n1", uid=victim["uid"]),
        binding_review(pods.namespace, "victim", "no-such-node", uid=victim["uid"]),
        binding_review(pods.namespace, "no-such-pod", "n0"),
        binding_review(pods.namespace, "victim", "n0", uid="another"),
        binding_review(forger.namespace, review["name"], "n1"),
    ]
    for _ in range(5):
        for each in elsewhere:
            ask(port, "/mutate/bindings", each)
        ask(port, "/mutate/bindings", review)
    wait_until_given_back = partial(control_plane.wait_for, "all to be given back")
    wait_until_given_back(lambda: webhook.replicas[0].metrics()[ASSUMED_PODS] == 0)
    assert before == {}
    for pods_before, now in zip(forged_pods, (forger.all(), pods.all()), strict=True):
        for name, raw in now.items():
            for part, was in _written(pods_before[name]).items():
                assert _written(raw)[part] == was, (name, part)


def test_a_binding_by_no_scheduler_is_guarded_and_reserves_nothing(
    webhook: LocalWebhook, known: Callable[..., None], pods: Pods
) -> None:
    known(Machine("n0", free=(8, 2)))
    raw = pods.create(pod("a", volumes=[CLAIM]))["metadata"]
    pods.plane.wait_for("its gate to go", lambda: not pods.gated())
    port = webhook.replicas[0].backend.port
    review = binding_review(pods.namespace, "a", "n0", uid=raw["uid"]) | {"userInfo": {"username": "nobody"}}
    counted = 'topology_webhook_bindings_unreserved_total{reason="user"}'
    before = webhook.replicas[0].metrics().get(counted, 0)
    assert ask(port, "/mutate/bindings", review) == "allowed"
    assert webhook.replicas[0].metrics()[counted] == before + 1


def _written(raw: dict[str, Any]) -> dict[str, object]:
    """What the service could have written. The placement repeats the scheduler's message, which may change."""
    metadata = raw["metadata"]
    return {
        "annotations": metadata.get("annotations", {}) | {PLACEMENT: ""},
        "labels": metadata.get("labels"),
        "spec": raw["spec"],
        "node": raw["status"].get("nominatedNodeName"),
    }
