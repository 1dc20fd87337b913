"""Pods in a ComputeDomain prefer one NVLink clique. Each node has one channel, and so room for one of them.

a ── a0 a1            b ── b0 b1 b2        [cliques; 16 free CPUs a node]
"""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from structlog.testing import capture_logs

from tests.builders.clusters import machine, put
from tests.builders.compute_domains import CHANNEL_CLASS, CLAIM, CLIQUE, channel_slice, channel_template
from tests.builders.devices import claim
from tests.builders.pods import bound, gated
from tests.builders.topologies import topology
from tests.unit.controllers.leader import Leader
from webhook.model.names import (
    KAI_PREFERRED_PLACEMENT,
    KAI_REQUIRED_PLACEMENT,
    KAI_TOPOLOGY,
    MANAGED,
    MIN_MEMBER,
    PLACEMENT,
)

TOPOGRAPH = "accelerator.topograph.run/domain"
RACK = "example.com/rack"


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    with capture_logs():
        yield


def site(sizes: Mapping[str, int], *more: dict[str, Any], label: str = CLIQUE) -> Leader:
    """The leader of these cliques with so many nodes. label: of the cliques; "" = none."""
    leader = Leader(CHANNEL_CLASS, *more)
    for clique, size in sizes.items():
        for number in range(size):
            name, labels = f"{clique}{number}", {label: clique} if label else {}
            put(leader.cache, *machine(name=name, free=(16,), labels=labels), channel_slice(name))
    return leader


def created(
    leader: Leader,
    group: str,
    count: int,
    annotations: Mapping[str, str] | None = None,
    *,
    namespace: str = "default",
    template: str = "channel",
    made: bool = True,
) -> None:
    """So many pods of one gang, which start together. made: whether their claims exist."""
    claim = [{"name": "channel", "resourceClaimTemplateName": template}]
    for number in range(count):
        name = f"{group}-{number}"
        raw = gated(
            name=name,
            namespace=namespace,
            group=group,
            annotations={MIN_MEMBER: str(count), **(annotations or {})},
            numa=None,
            resourceClaims=claim,
        )
        raw["metadata"]["uid"] = f"uid-{name}"
        raw["status"] = {"resourceClaimStatuses": [{"name": "channel", "resourceClaimName": f"{name}-channel"}]}
        leader.api.has(raw)
        if made:
            makes_claim(leader, name, namespace)


def makes_claim(leader: Leader, name: str, namespace: str = "default") -> None:
    """The claim of a pod, as kube-controller-manager makes it."""
    template = channel_template(namespace=namespace)
    raw = claim(f"{name}-channel", namespace=namespace, owner=f"uid-{name}")
    raw["metadata"] |= {"resourceVersion": "1", "annotations": {"resource.kubernetes.io/pod-claim-name": "channel"}}
    leader.claims.has({**raw, "spec": template["spec"]["spec"]})


def cliques(leader: Leader, group: str) -> set[str]:
    return {node[0] for name, node in leader.nodes().items() if name.startswith(f"{group}-")}


def placed(leader: Leader, name: str) -> str:
    text: str = leader.api.pods[f"default/{name}"]["metadata"]["annotations"][PLACEMENT]
    return "; ".join(line.strip() for line in text.splitlines())


async def test_a_gang_goes_to_the_clique_that_holds_it() -> None:
    leader = site({"a": 2, "b": 3}, channel_template())
    created(leader, "g", 3)
    await leader.cycle()
    assert cliques(leader, "g") == {"b"}
    assert "gang g: 3 pods in gpu.clique b" in placed(leader, "g-0")
    annotations = leader.api.pods["default/g-0"]["metadata"]["annotations"]
    assert (annotations[KAI_TOPOLOGY], annotations[KAI_PREFERRED_PLACEMENT]) == (CLIQUE, CLIQUE)


async def test_a_gang_that_no_clique_holds_goes_to_several_and_its_text_says_so() -> None:
    leader = site({"a": 2, "b": 3}, channel_template())
    created(leader, "g", 4)
    await leader.cycle()
    assert cliques(leader, "g") == {"a", "b"}
    assert "preferred gpu.clique missed: in 2 gpu.cliques (a, b)" in placed(leader, "g-0")


async def test_a_gang_that_requires_a_clique_waits_for_one_that_holds_it() -> None:
    leader = site({"a": 2, "b": 3}, channel_template())
    created(leader, "g", 4, {KAI_TOPOLOGY: CLIQUE, KAI_REQUIRED_PLACEMENT: "clique"})
    await leader.cycle()
    assert not leader.nodes()
    assert "not even an empty cluster has a place for it: the best gpu.clique, b, would hold 3" in leader.text("g-0")
    put(leader.cache, *machine(name="b3", free=(16,), labels={CLIQUE: "b"}), channel_slice("b3"))
    await leader.cycle()
    assert cliques(leader, "g") == {"b"}


async def test_a_required_clique_that_no_node_names_yet_is_waited_for() -> None:
    leader = site({"a": 2}, channel_template(), label="")
    created(leader, "g", 2, {KAI_TOPOLOGY: CLIQUE, KAI_REQUIRED_PLACEMENT: CLIQUE})
    await leader.cycle()
    assert "no node is in any gpu.clique; needed: the label nvidia.com/gpu.clique" in leader.text("g-0")


# Once the first gang has its place, b is the tightest clique for one pod.
@pytest.mark.parametrize("is_shown", [True, False])
async def test_a_further_gang_of_a_compute_domain_joins_the_clique_of_the_first(is_shown: bool) -> None:
    leader = site({"a": 5, "b": 1}, channel_template(), channel_template("other"))
    created(leader, "first", 2)
    if is_shown:
        await leader.cycle()
    created(leader, "more", 1)
    created(leader, "other", 1, template="other")
    await leader.cycle()
    assert (cliques(leader, "first"), cliques(leader, "more"), cliques(leader, "other")) == ({"a"}, {"a"}, {"b"})


async def test_a_pod_whose_template_comes_later_waits_for_it() -> None:
    leader = site({"a": 2, "b": 3})
    created(leader, "g", 3, made=False)
    await leader.cycle()
    assert leader.text("g-0") == "waiting: its claim channel has no ResourceClaimTemplate channel yet"
    put(leader.cache, channel_template())
    await leader.cycle()
    assert leader.text("g-0") == "waiting: its claim channel is not made yet"
    for number in range(3):
        makes_claim(leader, f"g-{number}")
    await leader.cycle()
    assert cliques(leader, "g") == {"b"}


@pytest.mark.parametrize(
    ("label", "more", "how", "text"),
    [
        (TOPOGRAPH, [], {}, "3 pods in domain b"),
        (CLIQUE, [topology(labels=[CLIQUE, "kubernetes.io/hostname"])], {}, "3 pods in gpu.clique b"),
        (
            CLIQUE,
            [topology(labels=[RACK])],
            {KAI_TOPOLOGY: "network", KAI_PREFERRED_PLACEMENT: RACK},
            "3 pods in the cluster; preferred rack missed: outside any rack",
        ),
        (
            CLIQUE,
            [topology(labels=[RACK])],
            {KAI_TOPOLOGY: "network"},
            "no NVLink clique is preferred for its ComputeDomain: topology network has no level nvidia.com/gpu.clique",
        ),
        (
            "",
            [],
            {},
            "no NVLink clique is preferred for its ComputeDomain: no node has the label nvidia.com/gpu.clique,",
        ),
    ],
)
async def test_the_level_is_the_one_that_nodes_and_topologies_have(
    label: str, more: list[dict[str, Any]], how: dict[str, str], text: str
) -> None:
    leader = site({"a": 2, "b": 3}, channel_template(), *more, label=label)
    created(leader, "g", 3, how)
    await leader.cycle()
    assert text in placed(leader, "g-0")


async def test_pods_of_a_mode_join_one_clique_and_pods_that_ask_for_nothing_are_not_managed() -> None:
    leader = site({"a": 1, "b": 3}, channel_template())
    first = bound(name="first", node="b0", numa=None, annotations={KAI_TOPOLOGY: CLIQUE}, resourceClaims=CLAIM)
    leader.api.has(first)
    for name, marks in (("managed", {MANAGED: "all"}), ("asks-for-nothing", {})):
        made = {"resourceClaimStatuses": [{"name": "channel", "resourceClaimName": f"{name}-channel"}]}
        leader.api.has({**gated(name=name, numa=None, annotations=marks, resourceClaims=CLAIM), "status": made})
        makes_claim(leader, name)
    await leader.cycle()
    assert leader.nodes()["managed"] != "a0"
    assert "asks-for-nothing" not in leader.nodes()


async def test_another_namespace_cannot_draw_pods_to_its_clique_or_change_what_they_prefer() -> None:
    leader = site({"a": 4, "b": 1}, channel_template(), channel_template(namespace="evil"))
    created(leader, "evil", 2, namespace="evil")
    await leader.cycle()
    created(leader, "g", 1)
    await leader.cycle()
    assert cliques(leader, "g") == {"b"}
