"""In a burst equal pods get the same answer for a moment, although the cluster changes with each pod that is bound."""

from typing import Any, Final

import pytest

from tests.builders.clusters import cluster_cache, machine, put
from tests.builders.pods import bound, pod
from tests.unit.admission.pod.creations import review
from webhook.admission.pod.mutate import PodMutator
from webhook.admission.pod.recent_answers import MOMENT_SECONDS
from webhook.admission.response import Response
from webhook.state.rules import Rules

# A little more, so that ten of them are more than a moment whatever rounding does.
TENTH: Final = MOMENT_SECONDS / 9.9


class Burst:
    """Equal pods that are created, each after a pod was bound. n0 ── NUMA 0 [16]  NUMA 1 [16]    [free cpus]"""

    def __init__(self, rules: Rules | None = None, **how: Any) -> None:
        self.cache = cluster_cache(*machine(name="n0", free=(16, 16)))
        self.now = 0.0
        self.rules = rules or Rules()
        self.handler = PodMutator(self.cache.snapshot, self.rules, lambda: self.now)
        self._raw = pod(cpu=4, **how)
        self._bound = 0

    def creates(self, count: int, seconds: float) -> list[Response]:
        """So many, so many seconds apart."""
        answers = []
        for _ in range(count):
            self.now += seconds
            self._bound += 1
            put(self.cache, bound(name=f"b{self._bound}", node="n0", cpu=1))
            answers.append(self.handler.handle(review(self._raw)))
        return answers

    def found(self) -> Response:
        """The answer for the cluster as it is now."""
        return PodMutator(self.cache.snapshot, self.rules).handle(review(self._raw))


def distinct(answers: list[Response]) -> int:
    return len({id(answer) for answer in answers})


def test_equal_pods_of_a_burst_get_one_answer_for_a_moment() -> None:
    burst = Burst()
    first = burst.creates(10, TENTH)
    assert distinct(first) == 10  # it is not known yet that more come
    then = burst.creates(20, TENTH)
    assert distinct(then) == 2
    assert then[-1] != burst.found()
    assert burst.creates(1, MOMENT_SECONDS)[0] == burst.found()


def test_pods_that_come_one_by_one_get_an_answer_each() -> None:
    burst = Burst()
    for answer in [burst.creates(1, MOMENT_SECONDS)[0] for _ in range(10)]:
        assert answer is not None
    assert distinct(burst.creates(10, MOMENT_SECONDS)) == 10
    assert burst.creates(1, MOMENT_SECONDS)[0] == burst.found()


def test_a_burst_after_a_pause_begins_with_an_answer_each() -> None:
    burst = Burst()
    burst.creates(20, TENTH)
    burst.now += 3 * MOMENT_SECONDS
    assert distinct(burst.creates(9, TENTH)) == 9


@pytest.mark.parametrize(
    "rules",
    [Rules(gate="WhenNeeded"), Rules(gate="Never"), Rules(no_capacity="Allow"), Rules(no_capacity="Deny")],
    ids=["WhenNeeded", "Never", "Allow", "Deny"],
)
def test_an_answer_that_depends_on_what_is_free_is_not_given_again(rules: Rules) -> None:
    burst = Burst(rules)
    assert distinct(burst.creates(30, TENTH)) == 30
    assert burst.creates(1, 0)[0] == burst.found()


def test_a_pod_that_gets_no_gate_is_not_given_an_old_answer() -> None:
    burst = Burst(nodeSelector={"no": "node"})
    assert distinct(burst.creates(30, TENTH)) == 30
