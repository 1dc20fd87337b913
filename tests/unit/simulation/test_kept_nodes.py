"""For which gangs the simulation keeps nodes, and from whom."""

from tests.builders.pods import plain
from webhook.formats.kubernetes.pod import Pod
from webhook.formats.workload.record import Workload
from webhook.simulation.run import KeptNodes
from webhook.simulation.workload import GangRequest, PodKind, SimulatedWorkload, WantedGang, WantedPod


def gang(namespace: str, at: float) -> WantedGang:
    kind = PodKind(Pod.from_object(plain(namespace=namespace)), None)
    member = WantedPod(0, SimulatedWorkload("w", at, ()), kind, "m")
    request = GangRequest(Workload("Job", namespace, "w", "", (), {}))
    return WantedGang(request, {"m": member})


def test_of_each_namespace_the_first_gang_has_nodes_kept_also_if_it_asks_last() -> None:
    kept = KeptNodes()
    first, second, other, last = gang("a", 1), gang("a", 2), gang("b", 3), gang("c", 4)
    kept.keep(second, frozenset("x"))
    kept.keep(other, frozenset("y"))
    assert [kept.may_keep(each) for each in (first, second, other, last)] == [True, True, True, True]
    kept.keep(first, frozenset("z"))
    assert [kept.may_keep(each) for each in (first, second, other)] == [True, False, True]
    assert kept.take_released() == {"x"}
    assert kept.closed_to(last) == {"y", "z"}
    assert kept.closed_to(second) == {"z"}
    kept.keep(first, frozenset())
    assert kept.may_keep(second)
    assert kept.take_released() == {"z"}
    assert kept.closed_to(last) == {"y"}
