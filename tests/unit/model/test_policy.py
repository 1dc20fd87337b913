import pytest

from webhook.model.policy import (
    NUMAPolicy,
    Scope,
    compatible,
    read_policy,
    read_policy_as_plugin,
    read_scope,
)

NONE, BEST_EFFORT, RESTRICTED, SINGLE = NUMAPolicy


@pytest.mark.parametrize(
    ("policy", "kubelet", "koordinator"),
    [
        (NONE, "none", ""),
        (BEST_EFFORT, "best-effort", "BestEffort"),
        (RESTRICTED, "restricted", "Restricted"),
        (SINGLE, "single-numa-node", "SingleNUMANode"),
    ],
)
def test_a_policy_has_one_spelling_per_project(policy: NUMAPolicy, kubelet: str, koordinator: str) -> None:
    assert (policy.kubelet, policy.koordinator) == (kubelet, koordinator)
    assert NUMAPolicy.from_kubelet(kubelet) is NUMAPolicy.from_koordinator(koordinator) is policy


@pytest.mark.parametrize("name", ["Single-numa-node", "SingleNUMANodes", "None", "singlenumanode"])
def test_other_spellings_are_no_policy(name: str) -> None:
    assert NUMAPolicy.from_kubelet(name) is None
    assert NUMAPolicy.from_koordinator(name) is None


PUBLISHED = {
    # noderesourcetopology-api: the nine constants, and what its example and the plugin's KEP write instead
    "SingleNUMANodeContainerLevel": (SINGLE, Scope.CONTAINER),
    "SingleNUMANodePodLevel": (SINGLE, Scope.POD),
    "SingleNUMANode": (SINGLE, None),
    "SingleNumaNode": (SINGLE, None),
    "Restricted": (RESTRICTED, None),
    "RestrictedContainerLevel": (RESTRICTED, Scope.CONTAINER),
    "RestrictedPodLevel": (RESTRICTED, Scope.POD),
    "BestEffort": (BEST_EFFORT, None),
    "BestEffortContainerLevel": (BEST_EFFORT, Scope.CONTAINER),
    "BestEffortPodLevel": (BEST_EFFORT, Scope.POD),
    "None": (NONE, None),
    # kubelets, and exporters that repeat what theirs is called with
    "single-numa-node": (SINGLE, None),
    "single-NUMA-node": (SINGLE, None),
    "restricted": (RESTRICTED, None),
    "best-effort": (BEST_EFFORT, None),
    "none": (NONE, None),
    # enumerations of cloud providers' APIs
    "SINGLE_NUMA_NODE": (SINGLE, None),
    "BEST_EFFORT": (BEST_EFFORT, None),
    "single-numa-node-pod-level": (SINGLE, Scope.POD),
    " SINGLE_NUMA_NODE_CONTAINER_LEVEL ": (SINGLE, Scope.CONTAINER),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_what_nodes_publish_is_read_in_every_spelling(name: str) -> None:
    assert read_policy(name) == PUBLISHED[name]


@pytest.mark.parametrize(
    "name",
    [
        *("strict", "SingleNUMANodes", "single", "numa", "PodLevel", "SingleNUMANodePod", "no", "false", "0", "-", "_"),
        *("single.numa.node", "s\u0131ngle-numa-node", "single-numa-node," * 9, "none none", "x" * 100_000),
    ],
)
def test_anything_else_is_no_policy(name: str) -> None:
    assert read_policy(name) is None


def test_the_upstream_plugin_reads_six_names_and_the_kubelets_spelling_in_attributes() -> None:
    read = {name: found for name in PUBLISHED if (found := read_policy_as_plugin(name)) is not None}
    assert read == {name: PUBLISHED[name] for name in PUBLISHED if name.endswith("Level")}
    assert [NUMAPolicy.from_kubelet(policy.kubelet) for policy in NUMAPolicy] == list(NUMAPolicy)


@pytest.mark.parametrize(
    ("text", "scope"), [("pod", Scope.POD), ("Pod", Scope.POD), (" CONTAINER", Scope.CONTAINER), ("node", None)]
)
def test_a_scope_is_read_in_every_case(text: str, scope: Scope | None) -> None:
    assert read_scope(text) is scope


def test_a_scope_has_the_kubelets_spelling() -> None:
    assert [scope.kubelet for scope in Scope] == ["container", "pod"]
    assert Scope.from_kubelet("pod") is Scope.POD
    assert Scope.from_kubelet("Pod") is None


# pod \ node   none  best-effort  restricted  single
@pytest.mark.parametrize(
    ("pod", "row"),
    [
        (SINGLE, (True, False, False, True)),
        (RESTRICTED, (True, False, True, False)),
        (BEST_EFFORT, (True, True, False, False)),
        (NONE, (True, True, True, True)),
        (None, (True, True, True, True)),
    ],
)
def test_pod_and_node_policies_go_together_by_the_matrix(pod: NUMAPolicy | None, row: tuple[bool, ...]) -> None:
    assert tuple(compatible(pod, node) for node in NUMAPolicy) == row
