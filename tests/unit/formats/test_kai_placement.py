"""What KAI-Scheduler's exporter writes into pods, and what others may write in its place."""

import json

import pytest

from tests.builders.pods import bound, gated
from webhook.formats.kai_placement import UNREADABLE, parse_observed
from webhook.formats.kubernetes.resident import ResidentPod
from webhook.model.names import KAI_OBSERVED_PLACEMENT


def test_zones_are_numa_nodes_whose_amounts_are_quantities() -> None:
    text = '[{"zone":"node-1","amount":{"cpu":"8","memory":"1Gi"}},{"zone":"node-0","amount":{"nvidia.com/gpu":"2"}}]'
    assert parse_observed(text) == ((0, {"nvidia.com/gpu": 2}), (1, {"cpu": 8_000, "memory": 2**30}))


@pytest.mark.parametrize(
    "text",
    [
        "", "8", "null", "[]", "{}", "[8]", "[null]", '[{"zone":"node-0"}]', '[{"zone":"node-0","amount":{"cpu":"0"}}]',
        '[{"zone":"rack-0","amount":{"cpu":"8"}}]', '[{"zone":0,"amount":{"cpu":"8"}}]',
        '[{"zone":"node-0","amount":["cpu"]}]', '[{"zone":"node-0","amount":{"cpu":"-8"}}]',
        '[{"zone":"node-0","amount":{"cpu":"8"}},{"zone":"node-0","amount":{"cpu":"8"}}]', "[" * 100_000, "\ud800",
        json.dumps([{"zone": f"node-{n}", "amount": {"cpu": "8"}} for n in range(17)]),
        json.dumps([{"zone": "node-0", "amount": {"a.com/" + "x" * 9_000: "8"}}]),
    ],
)  # fmt: skip
def test_anything_else_is_unreadable(text: str) -> None:
    assert parse_observed(text) == UNREADABLE


def test_of_a_bound_pod_it_is_read_up_to_what_the_pod_requests() -> None:
    def observed(**annotations: str) -> object:
        return ResidentPod.from_object(bound(name="p", node="n", cpu=4, annotations=annotations)).observed

    assert observed() is None
    assert observed(**{KAI_OBSERVED_PLACEMENT: '[{"zone":"node-1","amount":{"cpu":"64"}}]'}) == ((1, {"cpu": 4_000}),)
    assert observed(**{KAI_OBSERVED_PLACEMENT: "?"}) == ()
    waiting = gated(annotations={KAI_OBSERVED_PLACEMENT: '[{"zone":"node-1","amount":{"cpu":"4"}}]'})
    assert ResidentPod.from_object(waiting).observed is None
