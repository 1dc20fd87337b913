"""The strategy that annotations name for a gang."""

import pytest

from tests.builders.workloads import template, workload
from webhook.formats.workload.common_fields import most_named, strategy_of, strategy_of_gang
from webhook.formats.workload.readers import read_workload
from webhook.model.errors import UserError
from webhook.model.names import STRATEGY
from webhook.model.options import GangStrategy
from webhook.model.raw import Draft


def job_set(own: str | None, *templates: str | None) -> Draft:
    """A JobSet of one gang, with a strategy of its own and of each replicated job's pods."""
    jobs = [
        {"name": f"j{number}", "template": {"spec": {"template": template(annotations=naming(strategy))}}}
        for number, strategy in enumerate(templates)
    ]
    return workload(kind="JobSet", annotations=naming(own), spec={"replicatedJobs": jobs})


def naming(strategy: str | None) -> dict[str, str]:
    return {} if strategy is None else {STRATEGY: strategy}


def named_by(raw: Draft) -> GangStrategy | None:
    found = read_workload(raw)
    assert found is not None
    return strategy_of_gang(found, found.gangs[0])


@pytest.mark.parametrize(
    ("own", "templates", "named"),
    [
        (None, (None, None), None),
        ("Spread", (None, None), GangStrategy.SPREAD),
        ("Spread", ("Balanced", "Balanced"), GangStrategy.BALANCED),
        (None, ("Balanced", None), GangStrategy.BALANCED),
        ("", (None, None), None),
    ],
)
def test_a_template_overrides_its_workload(
    own: str | None, templates: tuple[str | None, ...], named: GangStrategy | None
) -> None:
    assert named_by(job_set(own, *templates)) == named


def test_parts_that_differ_are_named_with_the_place_of_one() -> None:
    with pytest.raises(UserError) as error:
        named_by(job_set("Spread", "Balanced", None))
    assert str(error.value) == (
        f"metadata.annotations[{STRATEGY}]: The parts name different strategies: Balanced, Spread. "
        "All pods of a gang have one: name the same everywhere."
    )


@pytest.mark.parametrize("text", ["balanced", "Balance", " Balanced"])
def test_an_unknown_value_is_shown_with_the_allowed_ones_and_the_nearest(text: str) -> None:
    with pytest.raises(UserError) as error:
        strategy_of({STRATEGY: text}, "metadata.annotations")
    assert str(error.value) == (
        f'metadata.annotations[{STRATEGY}]: "{text}" is not a strategy. '
        "Write one of BinPack, Spread, Balanced, Nearest. Did you mean Balanced?"
    )


def test_a_huge_value_is_shortened() -> None:
    with pytest.raises(UserError) as error:
        strategy_of({STRATEGY: "B\n" * 100_000}, "metadata.annotations")
    assert len(str(error.value)) < 400


def test_the_strategy_of_most_members_counts_and_on_a_tie_the_first() -> None:
    assert most_named([{}, {STRATEGY: "Spread"}, {STRATEGY: "Balanced"}, {STRATEGY: "Balanced"}]) == "Balanced"
    assert most_named([{STRATEGY: "Spread"}, {STRATEGY: "Balanced"}]) == "Spread"
    assert most_named([{}]) is None
