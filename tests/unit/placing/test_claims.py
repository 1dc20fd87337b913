"""Pods with resource claims: nodes and racks are chosen by what claims leave of their devices."""

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from tests.builders.clusters import cluster_cache, machine, put
from tests.builders.devices import (
    NUMA,
    claim,
    claim_template,
    device_class,
    first_available,
    gpus,
    request,
    resource_slice,
)
from tests.builders.pods import gated, pod
from tests.builders.topologies import topology
from webhook.admission.pod.mutation import mutate_pod
from webhook.model.names import KAI_REQUIRED_PLACEMENT, KAI_TOPOLOGY, MIN_MEMBER
from webhook.placing.gang.gang_search import GatedGang
from webhook.placing.planner import Attempt, Limits, Planner
from webhook.placing.pod.assignment import Assignment, NoAssignment
from webhook.placing.pod.decision import Verdict
from webhook.placing.pod.gated_pods import GatedPod
from webhook.state.cluster_cache import ClusterCache
from webhook.state.rules import Rules

RACK: Final = "example.com/rack"
ONE: Final[dict[str, Any]] = {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "gpu"}]}


def racks(counts: Mapping[str, int], *more: dict[str, Any]) -> ClusterCache:
    """Nodes with so many devices each, in the rack that their name begins with; more: templates, claims."""
    objects = [topology(labels=[RACK]), device_class(), *more]
    for name, count in counts.items():
        objects += machine(name=name, free=[16, 16], labels={RACK: name.partition("-")[0]})
        if count:
            objects.append(resource_slice(name, gpus(*(at % 2 for at in range(count)))))
    return cluster_cache(*objects)


def planner_of(cache: ClusterCache) -> Planner:
    return Planner(cache, Rules(), Limits(assume_ttl=1e12))


def read(planner: Planner, name: str) -> GatedPod:
    return planner.read(planner.state.gated_pods()[f"default/{name}"], None)


def gang(planner: Planner, *names: str) -> Attempt:
    """What comes of an attempt to place these members together."""
    members = tuple(read(planner, name) for name in names)
    assert members[0].membership is not None
    unit = GatedGang(members[0].membership, members)

    async def no_pause() -> None:
        return

    return asyncio.run(planner.attempt_gang(unit, members, planner.begin(), no_pause))


def members(cache: ClusterCache, count: int, **how: Any) -> list[str]:
    """Members of a gang that needs all of them in one rack."""
    asked = {KAI_TOPOLOGY: "network", KAI_REQUIRED_PLACEMENT: "rack", MIN_MEMBER: str(count)}
    names = [f"m{index}" for index in range(count)]
    put(cache, *(gated(name=name, cpu=2, group="g", annotations=asked, **{**ONE, **how}) for name in names))
    return names


def nodes_of(attempt: Attempt) -> list[str]:
    return sorted(assignment.allocation.node for _, assignment, _ in attempt.assumed)


def test_a_pod_prefers_nodes_whose_devices_serve_its_claims_and_the_scheduler_chooses() -> None:
    # Of alternatives the scheduler takes one.
    alternatives = claim_template(requests=[first_available("gpu", request("two", 2))])
    cache = racks({"a-0": 0, "a-1": 1, "b-0": 4}, alternatives)
    put(cache, gated(name="p", **ONE))
    planner = planner_of(cache)
    found = planner.place(read(planner, "p"))
    assert isinstance(found, Assignment)
    assert found.allocation.node == "b-0"
    assert found.text.startswith("the scheduler chooses the node, for its resource claims; ")
    assert "1 of 3 nodes fits" in found.text
    assert "2 insufficient resources" in found.text
    assert found.nodes is not None
    (term,) = found.nodes.preferred
    assert "b-0" in str(term)
    # Neither of the others has two devices even if no claim held any.
    ((other,),) = (term["matchExpressions"] for term in found.nodes.alternatives)
    assert (other["operator"], other["values"]) == ("NotIn", ["a-0", "a-1"])


def test_a_pod_whose_devices_are_taken_waits_and_says_which() -> None:
    alternatives = claim_template(requests=[first_available("gpu", request())])
    cache = racks({"a-0": 2}, alternatives, claim(name="other", node="a-0", devices=["gpu-0", "gpu-1"]))
    put(cache, gated(name="p", **ONE))
    planner = planner_of(cache)
    found = planner.place(read(planner, "p"))
    assert isinstance(found, NoAssignment)
    assert "1 node could take it once other pods leave" in found.text
    cache.devices.feeds["ResourceClaim"].delete("default/other")
    assert isinstance(planner.place(read(planner, "p")), Assignment)


def test_devices_of_assumed_pods_are_not_given_again_before_their_claims_have_them() -> None:
    cache = racks({"a-0": 1, "a-1": 1}, claim_template())
    put(cache, gated(name="p", **ONE), gated(name="q", second=1, **ONE), gated(name="r", second=2, **ONE))
    planner = planner_of(cache)
    cycle = planner.begin()
    where = [nodes_of(planner.attempt_pod(read(planner, name), cycle)) for name in ("p", "q", "r")]
    assert sorted(where) == [[], ["a-0"], ["a-1"]]


# a: 2 + 1 devices    b: 2 + 2 devices
def test_a_gang_goes_to_the_rack_whose_devices_serve_all_its_claims() -> None:
    cache = racks({"a-0": 2, "a-1": 1, "b-0": 2, "b-1": 2}, claim_template())
    planner = planner_of(cache)
    assert nodes_of(gang(planner, *members(cache, 4))) == ["b-0", "b-0", "b-1", "b-1"]


def test_what_claims_hold_leaves_a_gang_the_other_rack_or_none() -> None:
    cache = racks({"a-0": 2, "b-0": 2}, claim_template(), claim(name="other", node="b-0", devices=["gpu-1"]))
    planner = planner_of(cache)
    assert nodes_of(gang(planner, *members(cache, 2))) == ["a-0", "a-0"]
    put(cache, claim(name="third", node="a-0", devices=["gpu-1"]))
    for key in ("default/m0", "default/m1"):
        assumed = cache.assumed_by(key)
        assert assumed is not None
        cache.forget(assumed)
    failed = gang(planner, "m0", "m1")
    assert not failed.assumed
    assert "devices of class gpu.example.com" in failed.why


# NUMA 0: 2 devices, NUMA 1: 1 device in each node of a; 2 and 2 in b
def test_a_gang_is_counted_by_whole_claims_where_devices_must_be_alike() -> None:
    alike = [{"requests": ["gpu"], "matchAttribute": NUMA}]
    template = claim_template(requests=[request(count=2)], constraints=alike)
    cache = racks({"a-0": 3, "a-1": 3, "b-0": 4}, template)
    planner = planner_of(cache)
    assert nodes_of(gang(planner, *members(cache, 2))) in (["a-0", "a-1"], ["b-0", "b-0"])
    cache = racks({"a-0": 4, "b-0": 3}, template, claim(name="other", node="a-0", devices=["gpu-0"]))
    assert not gang(planner_of(cache), *members(cache, 2)).assumed


def test_a_leader_and_workers_with_other_claims_for_the_same_devices_are_counted_together() -> None:
    templates = claim_template(), claim_template(name="two", requests=[request(count=2)])
    two = {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "two"}]}
    for count, starts in ((3, False), (4, True)):
        cache = racks({"a-0": count}, *templates)
        names = members(cache, 3)
        put(cache, gated(name="m0", cpu=2, group="g", annotations={MIN_MEMBER: "3"}, **two))
        assert bool(gang(planner_of(cache), *names).assumed) is starts


def test_what_is_not_counted_is_said() -> None:
    cache = racks({"a-0": 1})
    planner = planner_of(cache)
    attempt = gang(planner, *members(cache, 2))
    (text, _) = (assignment.text for _, assignment, _ in attempt.assumed)
    assert "devices left to the scheduler (claim gpu: its template is not known)" in text


def test_a_pod_with_claims_is_not_denied_at_creation_where_only_devices_are_missing() -> None:
    # a-0 has the devices and too few CPUs, a-1 could align the CPUs
    cache = cluster_cache(
        *machine(name="a-0", free=[4]), *machine(name="a-1", free=[16, 16]), device_class(), claim_template()
    )
    put(cache, resource_slice("a-0", gpus(0)))
    assert mutate_pod(pod(cpu=12, **ONE), cache.snapshot(), Rules()).verdict is Verdict.WAIT
    # Whatever its devices are, no NUMA node has 20 CPUs.
    put(cache, resource_slice("a-1", gpus(0)))
    assert mutate_pod(pod(cpu=20, **ONE), cache.snapshot(), Rules()).verdict is Verdict.DENY


def test_pods_that_name_an_allocated_claim_go_where_it_is_alone_and_as_a_gang() -> None:
    shared = [{"name": "gpu", "resourceClaimName": "shared"}]
    cache = racks({"a-0": 4, "b-0": 4}, claim("shared", node="b-0", devices=["gpu-0"]))
    put(cache, gated(name="p", resourceClaims=shared))
    planner = planner_of(cache)
    found = planner.place(read(planner, "p"))
    assert isinstance(found, Assignment)
    assert found.allocation.node == "b-0"
    assert "1 of 2 nodes fits" in found.text
    assert nodes_of(gang(planner, *members(cache, 2, resourceClaims=shared))) == ["b-0", "b-0"]
    # Nothing is free on b-0. If the claim were allocated anew, a-0 could take them: so both may, some day.
    put(cache, *machine(name="b-0", free=[0, 0], labels={RACK: "b"}))
    waits = planner.place(read(planner, "p"))
    assert isinstance(waits, NoAssignment)
    assert "2 nodes could take it once other pods leave" in waits.text
