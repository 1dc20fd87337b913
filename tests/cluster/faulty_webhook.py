"""The webhook's program with faults: work on an object named `faulty...` raises. Has the program's arguments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from webhook.cli.app import main
from webhook.controllers import owner_chains
from webhook.controllers.placement import assignment_writer
from webhook.placing import planner
from webhook.placing.gang import gated_gang
from webhook.placing.pod import gated_pods
from webhook.state import pod_indexes

if TYPE_CHECKING:
    from collections.abc import Callable


class InjectedError(Exception):
    """An exception type that no caller handles."""


def fail_for(marked: str, owner: Any, name: str) -> None:
    """Make the function `name` of `owner` raise if the text of an argument contains `marked`."""
    function: Callable[..., Any] = getattr(owner, name)

    def faulty(*arguments: Any, **named: Any) -> Any:
        if any(marked in repr(argument) for argument in arguments):
            raise InjectedError(name)
        return function(*arguments, **named)

    setattr(owner, name, faulty)


if __name__ == "__main__":
    fail_for("faulty-place", planner, "find_assignment")
    fail_for("faulty-gang", gated_gang, "search_gang")
    fail_for("faulty-owner", owner_chains, "owner_chain_of")
    fail_for("faulty-read", gated_pods, "parse_numa_intent")
    fail_for("faulty-write", assignment_writer.AssignmentWriter, "write")
    fail_for("faulty-keep", pod_indexes, "waits_for_us_alone")
    main()
