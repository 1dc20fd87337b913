import pytest

from webhook.model.policy import TOPOLOGY_POLICIES, NUMAPolicy, Scope, compatible, effective

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


def test_the_nine_published_names_map_to_policy_and_scope() -> None:
    assert len(TOPOLOGY_POLICIES) == 9
    for name, (policy, scope) in TOPOLOGY_POLICIES.items():
        bare = name.removesuffix("PodLevel").removesuffix("ContainerLevel")
        assert policy.koordinator == ("" if bare == "None" else bare)
        assert scope is (Scope.POD if name.endswith("PodLevel") else Scope.CONTAINER)


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


def test_the_pods_policy_holds_where_it_has_one_else_the_nodes() -> None:
    assert effective(SINGLE, NONE) is SINGLE
    assert effective(None, RESTRICTED) is RESTRICTED
    assert effective(NONE, RESTRICTED) is RESTRICTED
