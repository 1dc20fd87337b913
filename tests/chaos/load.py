"""The load of honest tenants: single pods of every policy, gangs with and without a required rack, Jobs.

1. The seed alone decides what comes: the same units in the same order, whatever the speed of the machine.
2. A creation that fails is retried until it succeeds. The pods of some gangs come late.
3. A unit that has run completely for a while is deleted, so that the cluster never fills up.
"""

from __future__ import annotations

import contextlib
import http.client
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Any

from tests.cluster.api import ApiError
from tests.cluster.gated import SINGLE, SPEC, pod
from tests.cluster.mixed_load import RACKS
from tests.cluster.stubborn import done

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator, Sequence

    from tests.chaos.journal import Journal
    from tests.cluster.api import Api

RUN_LABEL = "example.com/chaos"
UNIT_LABEL = "example.com/unit"
POLICIES = ("SingleNUMANode", "Restricted", "BestEffort", "", None)
"""Of single pods. Empty: annotated without a policy of its own; None: not annotated, and so not gated."""
CLAIM_TEMPLATE = "gpu"
ALIGNED = frozenset({"SingleNUMANode", "Restricted"})
LATE_SECONDS = 4.0
RETRY_SECONDS = 0.5
# An outage may hold up many creations, each in a thread.
CLIENTS = 32
# A creation that was refused for so long is given up: that pod is lost.
PATIENCE_SECONDS = 180.0


@dataclass(frozen=True)
class Pace:
    """How much comes.

    By default two units a second on average, each of 7 CPUs on average; the fleet has 2,048 of them (see bed.py). With
    a life of 20 s 280 are in use, and 420 more are wanted after an outage of 30 s: a third of what is there.
    """

    longest_gap: float = 1.0
    """Seconds between two units."""
    life: float = 20.0
    """Seconds that a unit runs."""
    grace: int = 0
    """Seconds that a pod has to end. With 0, the API server forgets a deleted pod at once."""


DEFAULT_PACE = Pace()


class LoadKind(StrEnum):
    POD = "pod"
    GANG = "gang"
    JOB = "job"


@dataclass(frozen=True)
class Unit:
    """What a tenant creates at once."""

    name: str
    namespace: str
    kind: LoadKind
    size: int = 1
    minimum: int = 1
    """How many of its pods must start together."""
    cpu: int = 2
    """Of each pod."""
    policy: str | None = "SingleNUMANode"
    racked: bool = False
    """Whether all its pods must be in one rack."""
    late: int = 0
    """How many of its pods come later than the others."""
    grace: int = 0
    """Seconds that each pod has to end."""
    has_claim: bool = False
    """Whether each pod has a claim for a device."""

    def pods(self, run: str) -> list[dict[str, Any]]:
        """The pods to create; none for a Job."""
        annotations: dict[str, str] = {}
        if self.kind is LoadKind.GANG:
            annotations = {"pod-group-name": self.name, "topology-webhook.dev/min-member": str(self.minimum)}
        return [self._pod(f"{self.name}-{number}", run, annotations) for number in range(self.size)]

    def job(self, run: str) -> dict[str, Any]:
        """The Job to create. Only the Job asks for a rack; its pods inherit that from their owner."""
        template = self._pod("", run, {}, restartPolicy="Never")
        del template["metadata"]["name"]
        template["metadata"]["annotations"] = SINGLE
        size = {"parallelism": self.size, "completions": self.size, "completionMode": "Indexed"}
        # A pod that goes with its node is made again.
        spec = {**size, "backoffLimit": 1000, "template": template}
        annotations = RACKS if self.racked else {}
        metadata = {"name": self.name, "labels": {RUN_LABEL: run}, "annotations": annotations}
        return {"metadata": metadata, "spec": spec}

    def _pod(self, name: str, run: str, annotations: dict[str, str], **spec: Any) -> dict[str, Any]:
        asked = {**annotations, **(RACKS if self.racked else {})}
        raw = pod(name, cpu=self.cpu, annotations=asked, terminationGracePeriodSeconds=self.grace, **spec)
        if self.policy is None:
            del raw["metadata"]["annotations"][SPEC]
        else:
            raw["metadata"]["annotations"][SPEC] = f'{{"numaTopologyPolicy": "{self.policy}"}}'
        raw["metadata"]["labels"] = {RUN_LABEL: run, UNIT_LABEL: self.name}
        if self.has_claim:
            raw["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": CLAIM_TEMPLATE}]
            raw["spec"]["containers"][0]["resources"]["claims"] = [{"name": "gpu"}]
        return raw


def drawn(chance: random.Random, namespaces: Sequence[str]) -> Iterator[Unit]:
    """An endless sequence of units."""
    number = 0
    while True:
        kind = chance.choices((LoadKind.POD, LoadKind.GANG, LoadKind.JOB), (6, 3, 1))[0]
        name, namespace = f"{kind}-{number}", chance.choice(namespaces)
        size, racked = chance.randint(2, 5), chance.random() < 0.7
        if kind is LoadKind.POD:
            yield Unit(name, namespace, kind, cpu=chance.choice((1, 2, 4)), policy=chance.choice(POLICIES))
        elif kind is LoadKind.GANG:
            late = chance.choice((0, 0, 1))
            yield Unit(name, namespace, kind, size, size - late, chance.choice((2, 4)), racked=racked, late=late)
        else:
            yield Unit(name, namespace, kind, size, size if racked else 1, chance.choice((2, 4)), racked=racked)
        number += 1


class Load:
    """Creates and deletes. Use `running()`."""

    def __init__(
        self,
        api: Api,
        journal: Journal,
        run: str,
        namespaces: Sequence[str],
        chance: random.Random,
        pace: Pace = DEFAULT_PACE,
        *,
        has_claims: bool = False,
    ) -> None:
        """has_claims: each pod has a claim, made from the template `CLAIM_TEMPLATE` of its namespace."""
        self._api = api
        self._journal = journal
        self._run = run
        self._chance = chance
        self._pace = pace
        self._has_claims = has_claims
        self._drawn = drawn(chance, namespaces)
        self._stopped = threading.Event()
        self._aborted = threading.Event()
        self._lock = threading.Lock()
        self.units: dict[str, Unit] = {}
        """All that were begun, by name."""
        self.deleted: set[str] = set()
        """Names of units that their tenant has deleted."""
        self.given_up: Counter[str] = Counter()
        """Creations that were never taken, by their unit's name."""
        self.refusals: Counter[str] = Counter()
        """What the API server said to creations that it should have taken, and how often."""
        self.unanswered = 0
        """Creations that failed because the API server or etcd was down."""

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Create within this context. At its end begun units are completed, or abandoned if it ends with an error."""
        with ThreadPoolExecutor(CLIENTS) as clients:
            thread = threading.Thread(target=self._create_steadily, args=(clients,), name="load")
            thread.start()
            try:
                yield
            except BaseException:
                self._aborted.set()
                raise
            finally:
                self._stopped.set()
                thread.join()

    def left(self) -> list[Unit]:
        """The units that have not been deleted."""
        return [unit for unit in list(self.units.values()) if unit.name not in self.deleted]

    def delete_old(self) -> None:
        """Delete what has run long enough. Used after `running`."""
        for unit in self._old():
            self._delete(unit)

    def _old(self) -> list[Unit]:
        """Units to delete. From now on they count as deleted."""
        old = [unit for unit in self.left() if self._journal.has_run(unit, self._pace.life)]
        self.deleted.update(unit.name for unit in old)
        return old

    def _create_steadily(self, clients: ThreadPoolExecutor) -> None:
        for drawn_unit in self._drawn:
            if self._stopped.wait(self._chance.uniform(0, self._pace.longest_gap)):
                return
            unit = replace(drawn_unit, grace=self._pace.grace, has_claim=self._has_claims)
            self.units[unit.name] = unit
            clients.submit(self._create, unit)
            for each in self._old():
                clients.submit(self._delete, each)

    def _create(self, unit: Unit) -> None:
        if unit.kind is LoadKind.JOB:
            self._insist(unit, _jobs(unit.namespace), unit.job(self._run))
            return
        pods = unit.pods(self._run)
        for number, raw in enumerate(pods):
            if number == unit.size - unit.late:
                self._aborted.wait(LATE_SECONDS)
            self._insist(unit, _pods(unit.namespace), raw)

    def _insist(self, unit: Unit, path: str, raw: dict[str, Any]) -> None:
        """Retry until the object exists."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < deadline and not self._aborted.is_set():
            try:
                self._api.create(path, raw)
            except ApiError as error:
                if error.reason == "AlreadyExists":  # the answer to an earlier attempt was lost
                    return
                self._count(error)
            except (OSError, http.client.HTTPException):
                self._count(None)
            else:
                return
            self._aborted.wait(RETRY_SECONDS)
        self.given_up[unit.name] += 1

    def _count(self, error: ApiError | None) -> None:
        with self._lock:
            if error is not None and (error.status < 500 or "webhook" in error.message):
                self.refusals[error.message] += 1
            else:
                self.unanswered += 1

    def _delete(self, unit: Unit) -> None:
        paths = [f"{_pods(unit.namespace)}/{unit.name}-{number}" for number in range(unit.size)]
        if unit.kind is LoadKind.JOB:
            paths = [f"{_jobs(unit.namespace)}/{unit.name}"]
        for path in paths:
            done(partial(self._api.delete, path, {"propagationPolicy": "Background"}))


def _pods(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/pods"


def _jobs(namespace: str) -> str:
    return f"/apis/batch/v1/namespaces/{namespace}/jobs"
