"""Since when pods and gangs wait, for the metrics."""

from typing import Any

import pytest

from tests.builders.pods import gated
from webhook.controllers.waiting_pods import oldest_waiting


def waits(name: str, second: int | None, group: str | None = None) -> dict[str, Any]:
    raw = gated(name=name, group=group) if group else gated(name=name)
    raw["metadata"]["creationTimestamp"] = None if second is None else f"1970-01-01T00:00:{second:02}Z"
    return raw


@pytest.mark.parametrize(
    ("pods", "oldest"),
    [
        ([], (None, None)),
        ([("a", 5, None), ("b", 3, None)], (3, None)),
        ([("a", 5, "g"), ("b", 3, None), ("c", 4, "h")], (3, 4)),
        ([("a", None, "g")], (None, None)),
    ],
)
def test_the_oldest_pod_and_the_oldest_member_of_a_gang_count(
    pods: list[tuple[str, int | None, str | None]], oldest: tuple[int | None, int | None]
) -> None:
    assert oldest_waiting(waits(*each) for each in pods) == oldest
