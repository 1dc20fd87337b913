"""Labels the leader's Pod, so that a Service can select it.

Level-triggered: the actual labels are compared with the desired ones at each change of role, and every few seconds
while leading. This repairs a lost label, one that a dead leader left behind, and one from an earlier run of this
container. The label may still be wrong for a moment: callers find the leader by it, but no replica decides by it
whether it leads.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Final, NoReturn

import structlog

from webhook.kube.api_errors import APIError, ClusterError
from webhook.kube.client import Client
from webhook.kube.pacing import Backoff
from webhook.kube.resource import items_of
from webhook.model.names import ROLE_LABEL

log = structlog.get_logger(__name__)

LEADER: Final = "leader"
# One list of one or two pods from the API server's cache: cheap enough to repair a label about as fast as a kubelet
# notices an unready pod.
_LOOK_AGAIN_SECONDS: Final = 5.0


class RoleLabel:
    """Keeps the label on the Pod `namespace/pod_name` while `leading()`, and then on no other Pod of the namespace."""

    def __init__(self, client: Client, namespace: str, pod_name: str, leading: Callable[[], bool]) -> None:
        self._client = client
        self._pods = f"/api/v1/namespaces/{namespace}/pods"
        self._pod_name = pod_name
        self._leading = leading
        self._changed = asyncio.Event()
        self.error = ""
        """The error of the last read or write of labels; empty if there is none."""

    def role_changed(self) -> None:
        """Check at once, because `leading()` may have changed."""
        self._changed.set()

    async def run(self) -> NoReturn:
        """Keep the label correct until cancelled."""
        backoff = Backoff(cap=_LOOK_AGAIN_SECONDS)
        wait: float | None
        while True:
            self._changed.clear()
            try:
                await self.settle()
            except ClusterError as error:
                if not self.error:
                    log.warning("role_label.failing", pod=self._pod_name, error=str(error))
                self.error = str(error)
                wait = backoff.next()
            else:
                self.error = ""
                backoff.reset()
                wait = _LOOK_AGAIN_SECONDS if self._leading() else None
            with suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await self._changed.wait()

    async def settle(self) -> None:
        """Correct the labels once; raises ClusterError."""
        listed = await self._client.get(self._pods, {"labelSelector": f"{ROLE_LABEL}={LEADER}"})
        marked = {pod["metadata"]["name"] for pod in items_of(listed, self._pods)}
        if self._leading():
            # Other pods first: for callers, no leader for a moment is better than the wrong one.
            for name in marked - {self._pod_name}:
                await self._write(name, None)
            if self._pod_name not in marked:
                await self._write(self._pod_name, LEADER)
        elif self._pod_name in marked:
            await self._write(self._pod_name, None)

    async def _write(self, name: str, value: str | None) -> None:
        try:
            await self._client.patch(f"{self._pods}/{name}", {"metadata": {"labels": {ROLE_LABEL: value}}})
        except APIError as error:
            if error.status == 404 and name != self._pod_name:  # deleted in the meantime
                return
            raise
        log.info("role_label.written", pod=name, value=value)
