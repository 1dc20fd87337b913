"""AdmissionReviews of every webhook, through the real application over a socket.

1. The status is below 500, or it is intended: 503 and 504 for a Binding that has to wait.
2. A pod with an invalid annotation is denied, and a pod that must be aligned goes only to nodes that can align it.
   Short rules check this (`oracle.py`), not the engine.
3. CPU time and memory stay within bounds, and the answer for an honest pod stays the same.
"""

import json
from collections.abc import Awaitable, Iterator, Mapping
from contextlib import AsyncExitStack
from functools import partial
from io import BytesIO
from random import Random
from typing import TYPE_CHECKING, Any

from aiohttp.test_utils import TestClient, TestServer

from tests.fuzz import corpus, oracle
from tests.fuzz.mutate import JSONS, TEXTS, mutated
from tests.fuzz.outcome import BrokenError, within_bounds
from tests.handlers import HandlerOf
from tests.unit.metrics.sample import SAMPLE
from webhook.admission.binding.guard import BindingGuard, LeaderState
from webhook.admission.claim import ClaimGuard
from webhook.admission.response import Response
from webhook.app.webhooks import handlers_of
from webhook.codec import dumps
from webhook.formats.kubernetes.admission_review import AdmissionRequest
from webhook.metrics import Metrics
from webhook.model.raw import Draft
from webhook.server.health import Health
from webhook.server.routes import review_app
from webhook.state.cluster_cache import ClusterCache
from webhook.state.rules import Rules

if TYPE_CHECKING:
    from webhook.admission.handler import Handler

_KINDS = {"pods": "Pod", "bindings": "Binding", "nodes": "Node"}
_MEANT = {503, 504}
HONEST = "/mutate/pods"


class Reviews:
    """A server, and the cluster behind it, which is recreated for each input."""

    name = "reviews"

    def __init__(self) -> None:
        self._stack = AsyncExitStack()
        self._client: TestClient[Any, Any] | None = None
        self._now: Mapping[str, Handler] = {}
        self._seeds = _seeds()
        self._parts = [*corpus.pods(), *corpus.nodes(), *corpus.workloads()]

    def draw(self, random: Random) -> tuple[str, Draft]:
        """A path, and the review that is posted there."""
        path, whole = random.choice(self._seeds)
        if random.random() < 0.15:
            return path, mutated(random, whole, self._parts)
        request = whole["request"]
        changed = dict(request)
        for field in ("object", "oldObject"):
            if isinstance(request.get(field), dict) and random.random() < 0.9:
                changed[field] = mutated(random, request[field], self._parts)
        annotations = request["object"].get("metadata", {}).get("annotations") or {}
        if path.endswith("/pods") and annotations and random.random() < 0.2:
            texts = {**annotations, random.choice(sorted(annotations)): random.choice((*JSONS, *TEXTS))}
            metadata = {**request["object"]["metadata"], "annotations": texts}
            changed["object"] = {**request["object"], "metadata": metadata}
        return path, {**whole, "request": changed}

    async def check(self, drawn: tuple[str, Draft]) -> None:
        """Post it."""
        path, review = drawn
        try:
            body = dumps(review)
        except (ValueError, TypeError, RecursionError):  # no client can send that
            return
        await self._start()
        before = await self._ask(HONEST, _honest())
        with within_bounds(f"POST {path} of {len(body)} bytes"):
            status, text = await self._post(path, body)
        if status >= 500 and not (status in _MEANT and path == "/mutate/bindings") and oracle.is_typed(path, review):
            raise BrokenError(f"{path}: HTTP {status}: {text}")
        if status == 200:
            _judge(path, review, json.loads(text)["response"])
        if path != "/mutate/bindings" and await self._ask(HONEST, _honest()) != before:
            raise BrokenError("an honest pod is answered otherwise than before")

    def may_fail(self, drawn: Any) -> bool:
        """See Part."""
        return not oracle.is_typed(*drawn)

    def smaller(self, drawn: tuple[str, Draft]) -> Iterator[tuple[str, Draft]]:
        """The review without some of its parts."""
        path, review = drawn
        for less in oracle.without_parts(review):
            yield path, less

    async def stop(self) -> None:
        """End the server."""
        await self._stack.aclose()
        self._client = None

    async def _start(self) -> None:
        cache = ClusterCache()
        corpus.populate(cache)
        for raw in corpus.pods():
            cache.pods.upsert(f"team/{raw['metadata']['name']}", raw)
        guard = BindingGuard(cache, _no_pod, lambda _: LeaderState.ALL, Rules(), 30.0, lambda *_: None)
        claims = ClaimGuard(cache.devices, lambda _: LeaderState.ALL, Rules())
        self._now = handlers_of(Rules(), cache.snapshot, guard, claims)
        if self._client is None:
            # One server for all: what answers behind it changes.
            paths = {path: HandlerOf(partial(self._answer, path)) for path in self._now}
            app = review_app(paths, Health(lambda: (), lambda: True), Metrics(lambda: SAMPLE))
            client = TestClient(TestServer(app, host="127.0.0.1"))
            self._client = await self._stack.enter_async_context(client)

    def _answer(self, path: str, request: AdmissionRequest) -> Response | Awaitable[Response]:
        return self._now[path].handle(request)

    async def _ask(self, path: str, review: Draft) -> str:
        status, text = await self._post(path, dumps(review))
        return f"{status} {text}"

    async def _post(self, path: str, body: bytes) -> tuple[int, str]:
        assert self._client is not None
        headers = {"Content-Type": "application/json"}
        async with self._client.post(f"{path}?timeout=1s", data=BytesIO(body), headers=headers) as answer:
            return answer.status, await answer.text()


async def _no_pod(namespace: str, name: str) -> Mapping[str, Any] | None:
    del namespace, name
    return None


def _judge(path: str, review: Draft, response: Mapping[str, Any]) -> None:
    request = review["request"]
    pod, operation = request.get("object"), request.get("operation")
    if response.get("uid") != request.get("uid"):
        raise BrokenError(f"the answer is to {response.get('uid')!r}")
    if path == "/validate/pods" and operation == "CREATE" and response["allowed"] and oracle.must_be_denied(pod):
        raise BrokenError("a pod whose annotation is wrong is let in")
    if path == "/mutate/pods" and operation == "CREATE" and response["allowed"]:
        oracle.check_mutation(pod, response)


def _honest() -> Draft:
    return _review("pods", corpus.pod("honest", "9"))


def _review(plural: str, held: Draft, operation: str = "CREATE", old: Draft | None = None, **more: Any) -> Draft:
    group, _, version = held.get("apiVersion", "v1").rpartition("/")
    kind = {"group": group, "version": version, "kind": _KINDS.get(plural, held.get("kind", ""))}
    resource = {"group": group, "version": version, "resource": plural}
    request = {
        "uid": "u1",
        "kind": kind,
        "resource": resource,
        "name": held["metadata"].get("name", ""),
        "namespace": "team",
        "operation": operation,
        "userInfo": {"username": "system:kube-scheduler", "groups": ["system:authenticated"]},
        "object": held,
        "oldObject": old,
        "dryRun": False,
        "options": None,
        **more,
    }
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}


def _seeds() -> list[tuple[str, Draft]]:
    made: list[tuple[str, Draft]] = []
    for pod in corpus.pods():
        made += [(path, _review("pods", pod)) for path in ("/mutate/pods", "/mutate/pods", "/validate/pods")]
        made.append(("/validate/pods", _review("pods", pod, "UPDATE", corpus.pod(pod["metadata"]["name"]))))
    for name, node in (("plain", "n1"), ("rich", "n3"), ("plain", "n0"), ("nobody", "n9")):
        binding: Draft = {"metadata": {"name": name, "namespace": "team", "uid": f"uid-{name}"}}
        binding["target"] = {"apiVersion": "v1", "kind": "Node", "name": node}
        made += [("/mutate/bindings", _review("bindings", binding, subResource="binding"))] * 3
    for held in corpus.nodes()[:2]:
        made += [
            ("/validate/nodes", _review("nodes", held)),
            ("/validate/nodes", _review("nodes", held, "UPDATE", held)),
        ]
    made += [
        ("/validate/namespaces", _review("namespaces", held, "UPDATE", {**held, "metadata": {}}))
        for held in corpus.namespaces()
    ]
    for workload in corpus.workloads():
        plural = workload["kind"].lower() + "s"
        made += [(path, _review(plural, workload)) for path in ("/mutate/workloads", "/validate/workloads")]
    return made
