"""The webhook's program with faults in it: what concerns an object named `faulty...` raises. Takes its arguments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from webhook.cli.app import main
from webhook.placement import controller, gang, gated, lineages, writer
from webhook.service import world

if TYPE_CHECKING:
    from collections.abc import Callable


class InjectedError(Exception):
    """No caller knows it."""


def fail_for(marked: str, owner: Any, name: str) -> None:
    """Have the function `name` of `owner` raise where an argument's text has `marked` in it."""
    function: Callable[..., Any] = getattr(owner, name)

    def faulty(*arguments: Any, **named: Any) -> Any:
        if any(marked in repr(argument) for argument in arguments):
            raise InjectedError(name)
        return function(*arguments, **named)

    setattr(owner, name, faulty)


if __name__ == "__main__":
    fail_for("faulty-place", controller, "find_place")
    fail_for("faulty-gang", gang, "search_group")
    fail_for("faulty-owner", lineages, "lineage_of")
    fail_for("faulty-read", gated, "parse_numa_intent")
    fail_for("faulty-write", writer.PlacementWriter, "write")
    fail_for("faulty-keep", world, "waits_for_us_alone")
    main()
