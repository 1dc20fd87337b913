"""A place on its way into a pod, against an API server that answers as the test says."""

from typing import Any

from tests.builders.clusters import assuming
from tests.builders.pods import gated
from tests.unit.controllers.leader import ClaimServer
from tests.unit.controllers.pod_api import Server
from webhook.controllers.placement.assignment_writer import AssignmentWriter
from webhook.formats.koordinator.numa_allocation import AllocationKey, NUMAAllocation
from webhook.formats.patches.json_patch import apply
from webhook.kube.write import Outcome
from webhook.model.names import NUMA_ALLOCATION
from webhook.placing.pod.assignment import Assignment
from webhook.placing.pod.controller_patches import assignment_patch
from webhook.placing.pod.gated_pods import GatedPod
from webhook.state.cluster_cache import ClusterCache

PLACE = Assignment(NUMAAllocation("n0", ((0, {"cpu": 8000}),)), "placed on n0, NUMA 0")

KEY = AllocationKey.create()


def waiting(version: str = "1", **more: Any) -> dict[str, Any]:
    raw = gated(name="p", **more)
    raw["metadata"]["resourceVersion"] = version
    return raw


async def written(server: Server, *, leads: bool = True) -> tuple[Outcome, bool]:
    """What became of the write, and whether the promise still stands."""
    cache = ClusterCache()
    cache.use_allocation_key(KEY)
    writer = AssignmentWriter(cache, server, ClaimServer(cache), lambda _: leads, assume_ttl=60.0)
    pod = GatedPod.from_object(waiting())
    write = await writer.write(pod, PLACE, assuming(cache)(pod, PLACE))
    return write.outcome, cache.assumed_by(pod.key) is not None


async def test_the_assumed_pod_stands_once_the_place_is_written() -> None:
    assert await written(Server(Outcome.WRITTEN)) == (Outcome.WRITTEN, True)


async def test_what_was_written_proves_that_it_is_ours() -> None:
    server = Server(Outcome.WRITTEN)
    await written(server)
    assigned = apply(waiting(), server.sent[0])
    assert NUMA_ALLOCATION in KEY.believed(assigned)["metadata"]["annotations"]


async def test_who_leads_no_more_sends_nothing_and_assumed_pods_nothing() -> None:
    server = Server()
    _, assumed = await written(server, leads=False)
    assert (server.sent, assumed) == ([], False)


async def test_a_pod_that_changed_in_what_does_not_matter_is_written_from_its_new_version() -> None:
    server = Server(Outcome.STALE, Outcome.WRITTEN, now=waiting("2"))
    assert await written(server) == (Outcome.WRITTEN, True)
    assert [patch[0]["value"] for patch in server.sent] == ["1", "2"]


async def test_a_pod_that_asks_for_something_else_now_has_its_turn_again() -> None:
    for now in (waiting("2", cpu="4"), waiting("2", nodeSelector={"a": "b"}), None):
        assert await written(Server(Outcome.STALE, now=now)) == (Outcome.STALE, False)


async def test_a_patch_whose_answer_was_lost_is_sent_again_and_found_in_the_pod() -> None:
    metadata = {**waiting("2")["metadata"], "annotations": {}}
    assigned = {**waiting(), "metadata": metadata}
    for operation in assignment_patch(waiting(), PLACE.allocation, PLACE.text)[1:]:
        name = operation["path"].rpartition("/")[2].replace("~1", "/")
        if operation["path"].startswith("/metadata/annotations"):
            metadata["annotations"][name] = operation["value"]
    assigned["spec"] = {**assigned["spec"], "schedulingGates": []}
    server = Server(Outcome.UNKNOWN, Outcome.STALE, now=assigned)
    assert await written(server) == (Outcome.WRITTEN, True)
    assert server.sent[0] == server.sent[1]


async def test_what_the_api_server_refuses_is_given_back() -> None:
    for outcome in (Outcome.REFUSED, Outcome.GONE):
        assert await written(Server(outcome)) == (outcome, False)


async def test_what_is_refused_after_a_patch_without_an_answer_stays_assumed() -> None:
    assert await written(Server(Outcome.UNKNOWN, Outcome.REFUSED)) == (Outcome.REFUSED, True)
    assert await written(Server(Outcome.NOT_NOW, Outcome.REFUSED)) == (Outcome.REFUSED, False)
