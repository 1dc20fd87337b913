"""Ungates waiting pods without the service: for `topology-webhook ungate`, and before the chart is uninstalled.

1. If webhook configurations are to be removed, that is done first. Otherwise new pods would be gated, or denied as soon
   as no replica answers.
2. A pass lists the pods without a node, page by page, and patches those with our gate, some at a time. A patch names
   the version of the pod that it is based on, so it never overwrites a change.
3. The next pass repeats what failed. The pauses grow. A pod that the API server rejects is repeated without the text,
   because its annotations may be full, and given up after some attempts.
4. With configurations removed, it is complete when a pass that began `SETTLE_SECONDS` later finds no gated pod:
   each API server notices the removal a moment later. Otherwise when the pods of the first pass are ungated: the
   service may gate new pods at any time.

Source: the flow of Kueue's topology_ungater (patch what is gated, leave the rest to the next pass).
"""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from time import monotonic
from typing import Final

from webhook.cli.render.printable import shortened
from webhook.formats.kubernetes.gates import has_gate
from webhook.formats.patches.json_patch import Operation, pointer
from webhook.kube.api_errors import APIError, ClusterError, UnreachableError, mapping_or_empty
from webhook.kube.client import Client
from webhook.kube.informer import PAGE_SIZE
from webhook.kube.pacing import Backoff
from webhook.kube.pod_writes import PodWrites
from webhook.kube.resource import Resource, items_of, key_of
from webhook.kube.write import Outcome
from webhook.model.names import PLACEMENT, PLACEMENT_GATE
from webhook.model.raw import Raw

TEXT: Final = "ungated by `topology-webhook ungate`\nthe scheduler picks the node, no NUMA nodes are reserved"
"""The text in the annotation `placement` of a pod that this ungates."""

SETTLE_SECONDS: Final = 5.0
"""An API server watches the configurations, so it notices a removal within milliseconds; 5 s if it is overloaded."""

_AT_A_TIME: Final = 16
_ATTEMPTS: Final = 5
"""How often the API server may reject the patch of one pod. The pauses between them make 5 s or more."""

_LONGEST_ERROR: Final = 500
_CONFIGURATIONS: Final = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")


@dataclass(slots=True)
class Tally:
    """What was done so far."""

    removed: list[str] = field(default_factory=list)
    """The configurations that were removed."""
    ungated: Counter[str] = field(default_factory=Counter)
    """The number of ungated pods of each namespace; in a dry run, of gated pods."""
    gone: int = 0
    """Pods that were deleted meanwhile."""
    failed: dict[str, str] = field(default_factory=dict)
    """The pods that were not ungated in the last pass, with the reason."""
    complete: bool = False
    """Whether the last pass found nothing left to do. False: the time was over before."""
    trouble: str = ""
    """Why the last pass broke off; empty if it did not."""


class Ungater:
    """Ungates the gated pods of one namespace, or of all ("")."""

    def __init__(
        self, client: Client, namespace: str = "", *, settle: float = SETTLE_SECONDS, page_size: int = PAGE_SIZE
    ) -> None:
        self.tally = Tally()
        self._client = client
        self._writes = PodWrites(client)
        self._pods = Resource("", "v1", "pods", namespace).path
        self._page_size = page_size
        self._settle = settle
        self._slots = asyncio.Semaphore(_AT_A_TIME)
        self._rejections: Counter[str] = Counter()  # by uid
        self._given_up: dict[str, str] = {}  # by uid
        self._only: set[str] | None = None  # uids; None: every gated pod

    async def remove_webhooks(self, name: str) -> None:
        """Delete the mutating and the validating configuration of this name, if they exist. Raises ClusterError."""
        for plural in _CONFIGURATIONS:
            try:
                await self._client.delete(f"{Resource('admissionregistration.k8s.io', 'v1', plural).path}/{name}")
            except APIError as error:
                if error.status != 404:
                    raise
            else:
                self.tally.removed.append(f"{plural}/{name}")

    async def count(self) -> None:
        """Count the gated pods and write nothing. Raises ClusterError."""
        async for page in self._pages():
            self.tally.ungated.update(raw["metadata"]["namespace"] for raw in page if has_gate(raw))
        self.tally.complete = True

    async def ungate(self, seconds: float, *, until_none: bool) -> None:
        """Ungate, until complete or for this time. until_none: the configurations were removed just now.

        Raises ClusterError if the API server does not answer at first, or forbids to list pods.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._repeat(until_none=until_none)

    async def _repeat(self, *, until_none: bool) -> None:
        began, backoff, answered = monotonic(), Backoff(base=1.0, cap=5.0), False
        while True:
            settles_in = began + self._settle - monotonic() if until_none else 0.0
            try:
                left = await self._pass()
            except ClusterError as error:
                if not (_is_expired(error) or (answered and _is_temporary(error))):
                    raise
                self.tally.trouble = str(error)
                await asyncio.sleep(backoff.next(0.2))
                continue
            answered = True
            self.tally.trouble = ""
            if not left and settles_in <= 0:
                self.tally.complete = True
                return
            if not until_none:
                self._only = left
            await asyncio.sleep(backoff.next(0.2) if left else settles_in)

    async def _pass(self) -> set[str]:
        """Try each gated pod once; returns the uids of those to try again."""
        left: set[str] = set()
        there: set[str] = set()
        async for page in self._pages():
            gated = {raw["metadata"]["uid"]: raw for raw in page if has_gate(raw)}
            there.update(map(key_of, gated.values()))
            given_up = gated.keys() & self._given_up.keys()
            self.tally.failed |= {key_of(gated[uid]): self._given_up[uid] for uid in given_up}
            tried = gated.keys() - given_up
            if self._only is not None:
                tried &= self._only
            await asyncio.gather(*(self._try(gated[uid], left) for uid in tried))
        # Only now: the time may be over within a pass, and those that failed before it count until they are tried.
        self.tally.failed = {key: error for key, error in self.tally.failed.items() if key in there}
        return left

    async def _try(self, raw: Raw, left: set[str]) -> None:
        key, uid = key_of(raw), raw["metadata"]["uid"]
        async with self._slots:
            write = await self._writes.patch(key, ungating(raw, "" if self._rejections[uid] else TEXT))
        self.tally.failed.pop(key, None)
        match write.outcome:
            case Outcome.WRITTEN:
                self.tally.ungated[raw["metadata"]["namespace"]] += 1
                return
            case Outcome.GONE:
                self.tally.gone += 1
                return
            case Outcome.REFUSED:
                self._rejections[uid] += 1
            case _:
                pass
        self.tally.failed[key] = error = shortened(write.error, _LONGEST_ERROR)
        if self._rejections[uid] < _ATTEMPTS:
            left.add(uid)
        else:
            self._given_up[uid] = error

    async def _pages(self) -> AsyncIterator[list[Raw]]:
        # A gated pod has no node. Gates themselves cannot be selected.
        query: dict[str, str | int] = {"limit": self._page_size, "fieldSelector": "spec.nodeName="}
        while True:
            page = await self._client.get(self._pods, query)
            yield items_of(page, self._pods)
            more = mapping_or_empty(page.get("metadata")).get("continue")
            if not more:
                return
            query["continue"] = more


def ungating(raw: Raw, text: str) -> list[Operation]:
    """The JSON patch that removes our gate from this version of a pod; other gates stay. text: "" writes none."""
    metadata = raw["metadata"]
    gates = [gate for gate in raw["spec"]["schedulingGates"] if gate.get("name") != PLACEMENT_GATE]
    patch: list[Operation] = [
        {"op": "replace", "path": "/metadata/resourceVersion", "value": metadata["resourceVersion"]},
        {"op": "replace", "path": "/spec/schedulingGates", "value": gates},
    ]
    if text:
        path = pointer(("metadata", "annotations", PLACEMENT))
        value: object = text
        if not metadata.get("annotations"):
            path, value = pointer(("metadata", "annotations")), {PLACEMENT: value}
        patch.append({"op": "add", "path": path, "value": value})
    return patch


def _is_expired(error: ClusterError) -> bool:
    """Whether the list changed too much between two pages; a new list is complete."""
    return isinstance(error, APIError) and error.status == 410


def _is_temporary(error: ClusterError) -> bool:
    return isinstance(error, UnreachableError) or (
        isinstance(error, APIError) and (error.status == 429 or error.status >= 500)
    )
