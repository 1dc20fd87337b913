"""What a pod waits for that the cluster does not have, or does not say, yet: only what contradicts denies it."""

from typing import Any

import pytest

from tests.builders.clusters import cluster_snapshot
from tests.builders.nodes import node, nrt
from tests.builders.pods import pod
from webhook.admission.pod.decision import PodDecision, Verdict
from webhook.admission.pod.mutation import mutate_pod
from webhook.cache.cluster_snapshot import ClusterSnapshot
from webhook.model.names import PLACEMENT
from webhook.model.rules import Rules

NEVER = Rules(gate="Never")
BEST_EFFORT = '{"numaTopologyPolicy": "BestEffort"}'


def annotation(mutation: PodDecision) -> str:
    text: str = mutation.mutated["metadata"]["annotations"][PLACEMENT]
    return text


# a [16]  best-effort      b [16]  says "strict"
ODD = cluster_snapshot(
    node(name="a"),
    nrt(node="a", free=[16], policy="best-effort"),
    node(name="b"),
    nrt(node="b", free=[16], policy="strict"),
)


def test_a_node_whose_policy_cannot_be_read_is_waited_for_and_named_with_what_it_says() -> None:
    mutation = mutate_pod(pod(), ODD, Rules())
    assert mutation.verdict is Verdict.WAIT
    named = "(b: topologyManagerPolicy 'strict')"
    assert f"the NUMA policy of 1 of the 2 nodes it may go to is unknown {named}" in mutation.message
    assert f"excluded: 1 unknown NUMA policy {named}, 1 NUMA policy mismatch" in mutation.message
    assert named in annotation(mutation)
    only_b = cluster_snapshot(node(name="b"), nrt(node="b", free=[16], policy="strict"))
    assert (
        f"the NUMA policy of the one node it may go to is unknown {named}" in mutate_pod(pod(), only_b, NEVER).message
    )


def test_the_first_such_node_by_name_stands_for_all() -> None:
    several = cluster_snapshot(
        *(node(name=name) for name in "zxy"), *(nrt(node=name, free=[16], policy=f"odd-{name}") for name in "zxy")
    )
    assert "3 unknown NUMA policy (x: topologyManagerPolicy 'odd-x')" in mutate_pod(pod(), several, NEVER).message


def test_a_pod_goes_elsewhere_meanwhile_and_says_which_node_it_avoids() -> None:
    mutation = mutate_pod(pod(numa=BEST_EFFORT), ODD, NEVER)
    assert mutation.verdict is Verdict.ALLOW
    assert "1 of 2 nodes fits; best a " in mutation.message
    assert "excluded: 1 unknown NUMA policy (b: topologyManagerPolicy 'strict')" in mutation.message


@pytest.mark.parametrize(
    ("cluster", "message"),
    [
        # The exporter of b, or c, has not spoken yet.
        (
            cluster_snapshot(node(name="a"), nrt(node="a", free=[16], policy="best-effort"), node(name="b")),
            "for 1 of the 2 nodes it may go to",
        ),
        (
            cluster_snapshot(node(name="a"), nrt(node="a", free=[16], policy="strict"), node(name="b"), node(name="c")),
            "for 2 of the 3 nodes it may go to, and the NUMA policy of 1 of the 3 nodes it may go to is unknown (a: ",
        ),
    ],
)
def test_while_some_node_is_not_known_others_that_contradict_deny_nothing(
    cluster: ClusterSnapshot, message: str
) -> None:
    mutation = mutate_pod(pod(), cluster, Rules())
    assert mutation.verdict is Verdict.WAIT
    assert message in mutation.message


POOL = {"pool": "gpu"}
GPU = {"cpu": "8", "memory": "1Gi", "example.com/gpu": "1"}


def with_gpu() -> dict[str, Any]:
    raw = pod()
    raw["spec"]["containers"][0]["resources"] = {"requests": GPU, "limits": GPU}
    return raw


# All that is there contradicts SingleNUMANode; the pool that does not is scaled to zero.
OTHERS = cluster_snapshot(
    node(name="a"),
    node(name="b"),
    nrt(node="a", free=[16, 16], policy="best-effort"),
    nrt(node="b", free=[16, 16], policy="restricted"),
)
TAINTED = cluster_snapshot(
    node(name="a", taints=[{"key": "system", "effect": "NoSchedule"}]),
    nrt(node="a", free=[16, 16], policy="best-effort"),
)


@pytest.mark.parametrize(
    ("raw", "cluster", "message"),
    [
        (pod(nodeSelector=POOL), OTHERS, "its own node selector, affinity and tolerations let it onto none"),
        (pod(), TAINTED, "its own node selector, affinity and tolerations let it onto none"),
        (with_gpu(), OTHERS, "none could take it even if it were empty: no node has example.com/gpu"),
        (pod(cpu="40"), OTHERS, "it asks for 40 cpu, the largest node has 32 (a)"),
        (pod(), cluster_snapshot(), "the cluster has no nodes"),
    ],
)
def test_nodes_that_a_pod_would_not_go_to_anyway_say_nothing_about_those_to_come(
    raw: dict[str, Any], cluster: ClusterSnapshot, message: str
) -> None:
    mutation = mutate_pod(raw, cluster, Rules())
    assert (mutation.verdict, mutation.reason) == (Verdict.WAIT, "")
    assert message in mutation.message


def test_a_node_that_contradicts_and_would_take_the_pod_denies_it() -> None:
    assert mutate_pod(pod(), OTHERS, Rules()).reason == "NoCompatibleNode"
