"""The handlers of all webhooks in the mode that the operator set: whether decisions are applied.

- Enforce: the decision is the answer.
- Observe: the decision is made, logged and counted. The answer admits the object unchanged, without a warning.
- Off: nothing is decided. The answer admits the object unchanged.

In Observe no fault of ours changes what the user gets. A review that cannot be decided in time is admitted as well,
whatever the webhook's failurePolicy.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Final

from webhook.admission.handler import Handler, NotNowError
from webhook.admission.response import Allowed, Denied, Observed, Patched, Response
from webhook.internal_errors import Where, contained, internal_error
from webhook.model.admission_review import AdmissionRequest
from webhook.model.rules import Mode

# A binding may wait for others while it is decided, up to half of the time to its deadline. In Observe nothing depends
# on the result, so it must not delay the scheduler by seconds.
_MOST_SECONDS: Final = 0.5

# Refusals until the leader knows more. The scheduler would try again, so they are no verdict on the node.
_NOT_YET: Final = frozenset({"BindingInProgress", "LeaderChanged", "NotLeader"})

OnObserved = Callable[[AdmissionRequest, Response], None]
"""Called with each review in mode Observe and the response that is not applied."""


def in_mode(mode: Mode, handlers: Mapping[str, Handler], on_observed: OnObserved) -> Mapping[str, Handler]:
    """The handlers in this mode."""
    match mode:
        case "Enforce":
            return handlers
        case "Observe":
            return {path: Observer(handler, on_observed) for path, handler in handlers.items()}
        case "Off":
            return dict.fromkeys(handlers, Off())


class Off:
    """Admits every object unchanged."""

    def handle(self, request: AdmissionRequest) -> Response:
        """Decide nothing."""
        del request
        return Allowed(message="the mode is Off")


class Observer:
    """Admits every object unchanged, and reports what the handler would have answered."""

    def __init__(self, handler: Handler, on_observed: OnObserved) -> None:
        self._handler = handler
        self._on_observed = on_observed

    async def handle(self, request: AdmissionRequest) -> Response:
        """Decide without applying the decision."""
        loop = asyncio.get_running_loop()
        deadline = min(request.deadline, loop.time() + _MOST_SECONDS)
        try:
            async with asyncio.timeout_at(deadline):
                decided = self._handler.handle(replace(request, deadline=deadline))
                if isinstance(decided, Awaitable):
                    decided = await decided
        except (NotNowError, TimeoutError) as error:
            return Allowed(message=f"not decided: {str(error) or 'too late'}", observed=Observed("none"))
        except Exception as error:  # noqa: BLE001 # the answer must not depend on a fault of ours
            return Allowed(message=internal_error(Where.REVIEW, error, uid=request.uid), observed=Observed("none"))
        observed = _observed(decided)
        if observed.verdict != "none":
            with contained(Where.REVIEW, uid=request.uid):
                self._on_observed(request, decided)
        return Allowed(
            message=decided.message,
            decided=decided.decided,
            fit_count=decided.fit_count,
            excluded=decided.excluded,
            not_aligned=decided.not_aligned,
            unreserved=decided.unreserved,
            misrouted=decided.misrouted,
            observed=observed,
        )


def _observed(decided: Response) -> Observed:
    match decided:
        case Denied(reason=reason):
            return Observed("none" if reason in _NOT_YET else "deny", reason)
        case Patched(patch=patch, verdict="allow") if patch:
            return Observed("change")
        case _:
            return Observed(decided.verdict)
