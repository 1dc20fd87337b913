"""What was given to pods and is on its way into them: looked after until every one of them shows it, or never will.

A grant is made before its answer leaves. As a rule an informer shows the pod bound a moment later, and the grant has
done its work. Where that does not come in time, the pod itself is asked:
1. Bound to the node of the grant, or placed there: the informer is behind; the grant stays until it has caught up.
2. Anything else (waiting, bound elsewhere, another pod of that name, gone): the answer was lost, or somebody later
   refused the binding. The API server has given the request up by now, so it comes to nothing; the grant is given back.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from time import monotonic
from typing import Any, Final, NoReturn, Protocol

import structlog

from webhook.admission.bind import placed_on
from webhook.admission.gate import waits_for_us_alone
from webhook.cluster.election import Term
from webhook.cluster.errors import ClusterError
from webhook.engine.reserve.grant import Grant

log = structlog.get_logger(__name__)

# An overdue grant has been there for a minute; some seconds more cost nothing.
_PERIOD_SECONDS: Final = 5.0
_POLL_SECONDS: Final = 0.05

Fetch = Callable[[str, str], Awaitable[Mapping[str, Any] | None]]
"""(namespace, name) -> the pod by one GET; None when there is none."""


class GrantedWorld(Protocol):
    """Where the grants are kept."""

    on_change: Callable[[], None]
    """To be called when what was given has come free."""

    def overdue_grants(self, now: float) -> tuple[Grant, ...]:
        """The grants that no object has come to show in time."""

    def withdraw(self, grant: Grant) -> None:
        """Give a grant back."""

    @property
    def open_grants(self) -> int:
        """How many grants no object shows yet."""


class GrantSweep:
    """Gives back what came to nothing. Runs on every replica: who led before may still hold some."""

    def __init__(self, world: GrantedWorld, fetch: Fetch) -> None:
        self._world = world
        self._fetch = fetch

    async def run(self) -> NoReturn:
        """Sweep for ever."""
        while True:
            await asyncio.sleep(_PERIOD_SECONDS)
            await self.sweep(monotonic())

    async def sweep(self, now: float) -> None:
        """Look at every overdue grant once."""
        for grant in self._world.overdue_grants(now):
            namespace, _, name = grant.pod.partition("/")
            try:
                pod = await self._fetch(namespace, name)
            except ClusterError as error:
                log.warning("grant.retry", pod=grant.pod, error=str(error))
                return
            if not _took(pod, grant):
                log.info("grant.given_back", pod=grant.pod, node=grant.node)
                self._world.withdraw(grant)
                self._world.on_change()

    def started(self, term: Term) -> None:
        """Nothing begins with a term."""

    def stopped(self) -> None:
        """Nothing ends with it: the grants are still there."""

    async def settle(self) -> None:
        """Wait until every grant is shown by an object or given back."""
        while self._world.open_grants:  # noqa: ASYNC110 # many objects, of which none is waited for by itself
            await asyncio.sleep(_POLL_SECONDS)


def _took(pod: Mapping[str, Any] | None, grant: Grant) -> bool:
    if pod is None or pod["metadata"].get("uid") != grant.uid:
        return False
    if node := pod["spec"].get("nodeName"):
        return bool(node == grant.node)
    hint = placed_on(pod)
    return hint is not None and hint.node == grant.node and not waits_for_us_alone(pod)
