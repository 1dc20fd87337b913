"""Pod names that are computed on demand equal the written-out list."""

import tracemalloc

import pytest

from tests.builders.workloads import template, workload
from webhook.formats.workload.readers import read_workload
from webhook.formats.workload.record import PodNames


def test_names_are_those_of_the_controllers() -> None:
    assert list(PodNames("w", range(3))) == ["w-0", "w-1", "w-2"]
    assert list(PodNames("w", range(1, 3))) == ["w-1", "w-2"]
    assert list(PodNames("w", range(6), 3)) == ["w-0-0", "w-0-1", "w-0-2", "w-1-0", "w-1-1", "w-1-2"]
    assert PodNames("w", range(3)) == ("w-0", "w-1", "w-2")
    assert PodNames("w", range(3)) != ("w-0", "w-1")


def test_a_slice_keeps_the_names() -> None:
    names = PodNames("w", range(1, 8))
    assert list(names[:2]) == ["w-1", "w-2"]
    assert list(names[2:]) == ["w-3", "w-4", "w-5", "w-6", "w-7"]
    assert names[-1] == "w-7"


@pytest.mark.parametrize(
    "names", [PodNames("w-a", range(4)), PodNames("w-a", range(2, 9)), PodNames("w-a", range(12), 4)]
)
def test_the_rank_of_a_name_is_its_place(names: PodNames) -> None:
    assert [names.rank(name) for name in names] == list(range(len(names)))
    assert all(name in names for name in names)


@pytest.mark.parametrize("name", ["w", "w-", "w-00", "w-3", "w-0-0", "w--1", "x-0", "w-0x", "w-٣", "w-" + "9" * 5000])
def test_other_names_have_no_rank(name: str) -> None:
    assert PodNames("w", range(3)).rank(name) is None


@pytest.mark.parametrize("name", ["w-0", "w-0-4", "w-3-0", "w-0-00", "w-0-0-0"])
def test_other_names_have_no_rank_in_jobs(name: str) -> None:
    assert PodNames("w", range(12), 4).rank(name) is None


def test_a_line_that_asks_for_150000_pods_takes_no_more_memory_than_one_for_two() -> None:
    spec = {"replicas": 150_000, "leaderWorkerTemplate": {"size": 1, "workerTemplate": template()}}
    raw = workload(kind="LeaderWorkerSet", spec=spec)
    tracemalloc.start()
    found = read_workload(raw)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found is not None
    assert len(found.gangs) == 150_000
    assert len(found.distinct) == 1
    assert found.gangs[149_999].name == "w-149999"
    assert peak < 1 << 17
