"""What a search for victims costs: a small cluster."""

from tests.bench.preemption import lines, text


def test_a_pod_ends_one_pod_and_a_gang_as_many_as_it_has_members() -> None:
    pod, gang = lines(64)
    assert (pod["unit"], pod["victims"]) == ("pod", 1)
    assert (gang["unit"], gang["victims"]) == ("gang of 64", 64)
    assert text(gang).startswith("64 nodes, gang of 64: 64 victims, search ")
