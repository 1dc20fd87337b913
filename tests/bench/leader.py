"""The leader's own CPU time for a burst, without HTTP, TLS and the API server, on nodes with 4 NUMA nodes each.

The cache, the mutating webhook, the placement controller and the binding guard are real. A simulated API server applies
their patches and shows each change to the cache, as the JSON text of a watch event. A simulated scheduler binds each
pod as soon as it is ungated. Their own time is subtracted.

- `pods`: pods that are created at once, each placed for itself.
- `gang`: the same as members of one gang.

Figures: CPU time of the thread for each pod, by what was done. Only runs that alternate on one machine compare.

    python -m tests.bench.leader [--nodes 100,1000] [--pods 500,2000] [--pause 0.005] [--json]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections import defaultdict
from time import monotonic, thread_time
from typing import TYPE_CHECKING, Any, Final

import structlog

from tests.builders.clusters import cluster_cache, machine, put
from tests.builders.pods import pod
from webhook.admission.binding.guard import BindingGuard, LeaderState
from webhook.admission.pod.mutate import PodMutator
from webhook.admission.response import Patched
from webhook.codec import dumps, loads
from webhook.controllers.placement.controller import PlacementController
from webhook.controllers.status_reporter import StatusReporter
from webhook.formats.kubernetes.admission_review import AdmissionRequest, Operation, User
from webhook.formats.kubernetes.gates import is_gated
from webhook.formats.patches.json_patch import apply
from webhook.kube.write import Outcome, Write
from webhook.model.names import MIN_MEMBER, POD_GROUP_NAME
from webhook.placing.planner import Limits
from webhook.state.rules import Rules

if TYPE_CHECKING:
    from collections.abc import Iterator

ZONES: Final = 4
CPUS: Final = 5
"""Of 16 in a NUMA node: three pods each."""
CONCURRENCY: Final = 32
CLIENTS: Final = 32
"""Pods that are created between two turns of the event loop."""


class Site:
    """The leader, and the parts that it needs of others."""

    def __init__(self, nodes: int) -> None:
        self.spent: dict[str, float] = defaultdict(float)
        self.refused = 0
        self.cache = cluster_cache()
        for number in range(nodes):
            put(self.cache, *machine(name=f"m{number}", free=(16,) * ZONES))
        put(self.cache, {"kind": "Namespace", "metadata": {"name": "default"}})
        rules = Rules()
        parts: Any = _Nothing(self)
        reporter = StatusReporter(parts, parts, self.cache.gated_pods, parts)
        limits = Limits(assume_ttl=60.0, concurrency=CONCURRENCY)
        self.controller = PlacementController(
            self.cache, parts, reporter, rules, limits, parts, parts, claim_writes=parts
        )
        self.mutator = PodMutator(self.cache.snapshot, rules, monotonic)
        self.guard = BindingGuard(self.cache, parts, lambda _: LeaderState.ALL, rules, 30.0, lambda *_: None)
        self._version = 0
        self._pods: dict[str, dict[str, Any]] = {}
        self._bindings: set[asyncio.Task[None]] = set()
        self._rules = rules
        self._left = 0
        self._all_bound = asyncio.Event()

    def timed(self, what: str) -> _Timed:
        """Count the CPU time of a block as that of `what`."""
        return _Timed(self.spent, what)

    async def burst(self, count: int, gang: str = "", pause: float = 0.0) -> dict[str, float]:
        """Create the pods and wait until all are bound; milliseconds of CPU time a pod.

        pause: seconds between two creations; 0: many in one turn of the event loop.
        """
        run = asyncio.create_task(self.controller.run())
        term: Any = object()
        self.controller.started(term)
        self._left = count
        began = thread_time()
        member = {POD_GROUP_NAME: gang, MIN_MEMBER: str(count)} if gang else {}
        for number in range(count):
            self.create(f"p{number:05}", number, member)
            if pause or number % CLIENTS == 0:
                await asyncio.sleep(pause)
        await self._all_bound.wait()
        total = thread_time() - began
        run.cancel()
        await asyncio.gather(run, return_exceptions=True)
        self.spent["placement"] = total - sum(self.spent.values())
        simulated = self.spent.pop("simulated")
        spent = {what: seconds / count * 1000 for what, seconds in self.spent.items()}
        return {**spent, "all": (total - simulated) / count * 1000}

    def create(self, name: str, number: int, annotations: dict[str, str]) -> None:
        with self.timed("simulated"):
            raw = pod(name=name, cpu=CPUS, annotations=annotations)
            request = self._request("Pod", raw, name)
        with self.timed("creation"):
            response = self.mutator.handle(request)
            assert isinstance(response, Patched), response
            response.to_object("u")
        with self.timed("simulated"):
            raw = apply(raw, map(dict, response.patch))
            stamp = f"2030-01-01T00:{number // 3600 % 60:02}:{number // 60 % 60:02}Z"
            raw["metadata"] |= {"uid": name, "creationTimestamp": stamp, "namespace": "default"}
        self.show(raw)

    def show(self, raw: dict[str, Any]) -> None:
        """The cache sees this version of a pod."""
        with self.timed("simulated"):
            self._version += 1
            key = f"default/{raw['metadata']['name']}"
            raw = {**raw, "metadata": {**raw["metadata"], "resourceVersion": str(self._version)}}
            self._pods[key] = raw
            text = dumps({"type": "MODIFIED", "object": raw})
        with self.timed("watching"):
            self.cache.pods.upsert(key, loads(text)["object"])

    async def patch(self, key: str, operations: Any) -> Write:
        """The API server writes a patch."""
        await asyncio.sleep(0.002)
        with self.timed("simulated"):
            dumps(list(operations))
            before = self._pods[key]
            raw = apply(before, operations)
        self.show(raw)
        if is_gated(before) and not is_gated(raw):
            task = asyncio.create_task(self._bind(raw))
            self._bindings.add(task)
            task.add_done_callback(self._bindings.discard)
        return Write(Outcome.WRITTEN)

    async def _bind(self, raw: dict[str, Any]) -> None:
        metadata = raw["metadata"]
        terms = raw["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        node = json.loads(metadata["annotations"]["topology-webhook.dev/numa"])["node"]
        assert node in json.dumps(terms)
        binding = {"metadata": {"name": metadata["name"], "uid": metadata["uid"]}, "target": {"name": node}}
        while True:
            await asyncio.sleep(0.002)
            with self.timed("simulated"):
                request = self._request("Binding", binding, metadata["name"])
            began, before = thread_time(), sum(self.spent.values())
            response = await self.guard.handle(request)
            if isinstance(response, Patched):
                response.to_object("u")
            # Others ran while it waited: their time is counted by themselves, or is the controller's.
            if before == sum(self.spent.values()):
                self.spent["binding"] += thread_time() - began
            if isinstance(response, Patched):
                break
            self.refused += 1
        await asyncio.sleep(0.002)
        with self.timed("simulated"):
            given = apply(binding, map(dict, response.patch))["metadata"].get("annotations") or {}
            annotations = {**metadata["annotations"], **given}
            bound = {**raw, "metadata": {**metadata, "annotations": annotations}}
            bound["spec"] = {**raw["spec"], "nodeName": node}
        self.show(bound)
        self._left -= 1
        if not self._left:
            self._all_bound.set()

    def _request(self, kind: str, raw: dict[str, Any], name: str) -> AdmissionRequest:
        user = User(min(self._rules.scheduler_users), ()) if kind == "Binding" else User("someone", ())
        resource, sub = ("pods", "binding") if kind == "Binding" else ("pods", "")
        names = ("u", "", "v1", kind, resource, sub, Operation.CREATE, "default", name)
        return AdmissionRequest(*names, raw, {}, user, False)


class _Timed:
    """A block whose CPU time is counted. A context manager of `contextlib` costs as much as some of the blocks."""

    __slots__ = ("_began", "_spent", "_what")

    def __init__(self, spent: dict[str, float], what: str) -> None:
        self._spent = spent
        self._what = what

    def __enter__(self) -> None:
        self._began = thread_time()

    def __exit__(self, *_: object) -> None:
        self._spent[self._what] += thread_time() - self._began


class _Nothing:
    """Metrics and events that nobody looks at here, leadership, and the writes of a site."""

    def __init__(self, site: Site) -> None:
        self._site = site

    def is_leader(self, _shard: str = "") -> bool:
        return True

    def seconds_until_settled(self, _shard: str = "") -> float:
        return 0.0

    async def patch(self, key: str, operations: Any) -> Write:
        return await self._site.patch(key, operations)

    def __getattr__(self, name: str) -> Any:
        return lambda *_, **__: None

    async def __call__(self, *_: Any) -> None:
        raise AssertionError("everything is in the cache")


def lines(nodes: list[int], pods: list[int], pause: float = 0.0) -> Iterator[dict[str, Any]]:
    """All measurements."""
    for fleet in nodes:
        for count in pods:
            if count > fleet * ZONES * (16 // CPUS):
                continue
            for what in ("pods", "gang"):
                site = Site(fleet)
                spent = asyncio.run(site.burst(count, "gang" if what == "gang" else "", pause))
                figures = {name: round(milliseconds, 3) for name, milliseconds in sorted(spent.items())}
                yield {"what": what, "nodes": fleet, "pods": count, "refused": site.refused, "cpu_ms": figures}


def main(arguments: list[str] | None = None) -> int:
    """Run this bench."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.leader")
    parser.add_argument("--nodes", default="100,1000")
    parser.add_argument("--pods", default="500,2000")
    parser.add_argument("--pause", type=float, default=0.0, help="seconds between two creations")
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    options = parser.parse_args(arguments)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(30))
    for line in lines(_numbers(options.nodes), _numbers(options.pods), options.pause):
        sys.stdout.write((json.dumps(line) if options.json else text(line)) + "\n")
        sys.stdout.flush()
    return 0


def _numbers(text: str) -> list[int]:
    return [int(number) for number in text.split(",")]


def text(line: dict[str, Any]) -> str:
    """A measurement as text."""
    spent = "  ".join(f"{what} {milliseconds:.2f}" for what, milliseconds in line["cpu_ms"].items())
    size = f"{line['what']}  {line['pods']} pods, {line['nodes']} nodes"
    return f"{size}  refused {line['refused']}  CPU in ms a pod: {spent}"


if __name__ == "__main__":
    sys.exit(main())
