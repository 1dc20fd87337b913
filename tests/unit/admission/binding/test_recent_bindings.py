"""What is given again to an equal pod on an equal node is what a new decision would give."""

import random
from collections.abc import Hashable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from tests.builders.clusters import cluster_cache, put
from tests.builders.nodes import node, nrt
from tests.builders.pods import pod
from webhook.admission.binding.decision import Given, Recent, RecentBindings, Refusal, guard, into_binding
from webhook.engine.snapshot.ledger import Reservation
from webhook.engine.snapshot.node_sums import NodeSums
from webhook.formats.koordinator.numa_allocation import NUMAAllocation
from webhook.formats.patches.json_patch import apply
from webhook.model.names import NUMA_ALLOCATION, NUMA_SIGNATURE
from webhook.placing.pod.binding_pod import BindingPod
from webhook.state.assumed.assumed_pod import AssumedPod
from webhook.state.assumed.free_bounds import Leeway
from webhook.state.cluster_cache import ClusterCache
from webhook.state.kubelet_admission import AssignedPod
from webhook.state.rules import Rules

RULES = Rules()
POLICIES = ("single-numa-node", "restricted", "best-effort", "none")
SHAPES: tuple[Mapping[str, Any], ...] = (
    {"cpu": 4},
    {"cpu": 6, "memory": "100Gi"},
    {"cpu": 2, "devices": {"example.com/nic": 1}},
)
NUMA_POLICIES = ("", "SingleNUMANode")
NIC = "example.com/nic"
GI = 2**30


class _Counted(RecentBindings):
    """Counts what is given again."""

    again = 0

    def get(self, key: Hashable) -> Recent | None:
        found = super().get(key)
        self.again += found is not None
        return found


def _cluster(*policies: str) -> ClusterCache:
    """Sixteen equal machines of each policy."""
    objects: list[dict[str, Any]] = []
    for policy in policies:
        for number in range(16):
            name = f"{policy}-{number}"
            objects.append(node(name=name, cpus=32, devices={NIC: 3}))
            objects.append(nrt(node=name, free=(16, 16), policy=policy, devices={NIC: (2, 1)}))
    return cluster_cache(*objects)


def _bound(raw: Mapping[str, Any], at: str, given: Given) -> dict[str, Any]:
    metadata = {**raw["metadata"], "annotations": {**raw["metadata"]["annotations"], **given.annotations}}
    return {**raw, "metadata": metadata, "spec": {**raw["spec"], "nodeName": at}}


@pytest.mark.parametrize("policy", POLICIES)
def test_what_is_given_again_is_what_a_new_decision_gives(policy: str) -> None:
    dice = random.Random(1)  # noqa: S311 - not for cryptography
    cache, recent = _cluster(policy, "single-numa-node"), _Counted()
    names = sorted(cache.state.nodes)
    on_nodes: list[dict[str, Any]] = []
    for number in range(100):
        shape, numa = dice.choice(SHAPES), f'{{"numaTopologyPolicy": "{dice.choice(NUMA_POLICIES)}"}}'
        raw = pod(name=f"p{number}", numa=numa, metadata={"uid": f"u{number}"}, **shape)
        put(cache, raw)
        at, key = dice.choice(names), f"default/p{number}"
        admission = cache.kubelet_admission(at, key)
        assumed = cache.assumed(key, f"u{number}", at)
        now = guard(BindingPod.from_object(raw, RULES), at, admission, RULES, assumed)
        assert guard(BindingPod.from_object(raw, RULES), at, admission, RULES, assumed, recent) == now
        if not isinstance(now, Given):
            cache.pods.delete(key)
        elif dice.random() < 0.4:  # it stays assumed
            cache.assume(AssumedPod(key, f"u{number}", at, dict(now.numa_nodes), now.requests, now.policy, 1e12))
        else:
            on_nodes.append(_bound(raw, at, now))
            put(cache, on_nodes[-1])
        if len(on_nodes) > 30:
            gone = on_nodes.pop(dice.randrange(len(on_nodes)))
            cache.pods.delete(f"default/{gone['metadata']['name']}")
    assert recent.again >= 10


# Two machines ── NUMA 0 [16]  NUMA 1 [16]: on each, pods are placed on NUMA 0 and on NUMA 1, and the latter come first.
def test_whom_a_pod_waits_for_is_known_without_a_second_decision() -> None:
    cache, recent = _cluster("single-numa-node"), _Counted()
    found = []
    for at in ("single-numa-node-0", "single-numa-node-1"):
        for numa_id in (0, 1):
            allocation = NUMAAllocation(at, ((numa_id, {"cpu": 9000, "memory": GI}),)).to_json()
            name = f"{at}-{numa_id}"
            allocated = {NUMA_ALLOCATION: allocation, NUMA_SIGNATURE: cache.sign(name, allocation)}
            raw = pod(name=name, cpu=9, annotations=allocated)
            raw["metadata"]["uid"] = name
            put(cache, raw)
        found.append(
            guard(
                BindingPod.from_object(raw, RULES),
                at,
                cache.kubelet_admission(at, f"default/{name}"),
                RULES,
                None,
                recent,
            )
        )
    after = [one.after for one in found if isinstance(one, Refusal)]
    assert after == [{"default/single-numa-node-0-0"}, {"default/single-numa-node-1-0"}]
    assert recent.again == 1


def test_a_binding_names_its_own_pod_and_node_when_it_is_given_what_another_got() -> None:
    cache, recent = _cluster("single-numa-node"), _Counted()
    texts = []
    for number in range(2):
        raw = pod(name=f"p{number}")
        put(cache, raw)
        at = f"single-numa-node-{number}"
        given = guard(
            BindingPod.from_object(raw, RULES),
            at,
            cache.kubelet_admission(at, f"default/p{number}"),
            RULES,
            None,
            recent,
        )
        assert isinstance(given, Given)
        assert given.message == f"bound to {at}, NUMA 0"
        texts.append(apply({"metadata": {}}, into_binding({"metadata": {}}, given)))
    assert recent.again == 1
    assert "single-numa-node-0" in str(texts[0])
    assert "single-numa-node-0" not in str(texts[1])


def test_a_node_is_another_one_if_anything_differs_that_its_kubelet_sees() -> None:
    cache = _cluster("single-numa-node", "restricted")
    same, other = (cache.kubelet_admission(f"single-numa-node-{number}", "default/p") for number in range(2))
    assert same is not None
    assert other is not None
    assert same.key == other.key
    amounts = {0: {"cpu": 1000}}
    assigned = Reservation.of("default/q", "n", amounts, {"cpu": 1000})
    for different in (
        cache.kubelet_admission("restricted-0", "default/p"),
        replace(same, given=NodeSums(amounts)),
        replace(same, given=NodeSums(ended=amounts)),
        replace(same, assigned=(AssignedPod(assigned, {}),)),
        replace(same, assigned=(AssignedPod(assigned, {}),) * 2),
        replace(same, leeway=Leeway(kept=(amounts,))),
        replace(same, leeway=Leeway(maybe_free=(amounts,))),
    ):
        assert different is not None
        assert different.key != same.key


def test_few_bindings_are_kept() -> None:
    recent = RecentBindings()
    given = Recent(Given("n1", (), {}, None), held=False)
    for number in range(5000):
        recent.put(number, given)
    assert recent.get(4999) is given
    assert recent.get(0) is None
