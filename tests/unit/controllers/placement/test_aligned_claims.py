"""Claims of gated pods are allocated near the CPUs that their kubelets take, before the pods are ungated.

n0 [16 16]   gpu-0 near NUMA 0, gpu-1 near NUMA 1      [free CPUs per NUMA node]
"""

import asyncio
from collections.abc import Iterator, Sequence
from time import monotonic
from typing import Any, Final

import pytest
from structlog.testing import capture_logs

from tests.builders.clusters import machine, put
from tests.builders.devices import (
    NUMA,
    claim,
    claim_template,
    device,
    device_class,
    first_available,
    gpus,
    request,
    resource_slice,
)
from tests.builders.pods import bound, gated
from tests.builders.reviews import binding_review
from tests.unit.controllers.leader import Leader
from webhook.admission.binding.guard import BindingGuard, LeaderState
from webhook.admission.response import Denied, Patched, Response
from webhook.controllers.placement.controller import AwaitedClaims
from webhook.kube.write import Outcome
from webhook.model.names import MIN_MEMBER, NUMA_TOPOLOGY_SPEC, PCIE_ROOT, PLACEMENT
from webhook.state.rules import Rules

ROOT: Final = "resource.kubernetes.io/pcieRoot"
FROM_TEMPLATE: Final = [{"name": "gpu", "resourceClaimTemplateName": "gpu"}]


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    with capture_logs():
        yield


def site(free: Sequence[int] = (16, 16), numa: Sequence[int | None] = (0, 1), *more: dict[str, Any]) -> Leader:
    """The leader of one node. free: CPUs of each NUMA node. numa: that of each device."""
    nodes = machine(name="n0", free=free)
    return Leader(*nodes, device_class(), resource_slice("n0", gpus(*numa)), claim_template(), *more)


def created(leader: Leader, *names: str, made: bool = True, template: str = "gpu", **how: Any) -> None:
    """Pods with a claim of the template each. made: whether their claims exist."""
    for second, name in enumerate(names):
        entries = [{"name": "gpu", "resourceClaimTemplateName": template}]
        raw = gated(name=name, second=second, cpu=8, resourceClaims=entries, **how)
        raw["metadata"]["uid"] = f"uid-{name}"
        if made:
            raw["status"] = {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": f"{name}-gpu"}]}
        leader.api.has(raw)


def claims(leader: Leader, *names: str, **how: Any) -> None:
    """The claims of these pods."""
    for name in names:
        raw = claim(f"{name}-gpu", owner=f"uid-{name}", **how)
        raw["metadata"] |= {"resourceVersion": "1", "annotations": {"resource.kubernetes.io/pod-claim-name": "gpu"}}
        leader.claims.has(raw)


def devices(leader: Leader) -> dict[str, list[str]]:
    """The devices of each claim."""
    return {
        key.partition("/")[2]: [one["device"] for one in raw["status"]["allocation"]["devices"]["results"]]
        for key, raw in leader.claims.claims.items()
        if (raw.get("status") or {}).get("allocation")
    }


def bind(leader: Leader) -> None:
    """Let the scheduler bind what is placed."""
    for name, node in leader.nodes().items():
        raw = leader.api.pods[f"default/{name}"]
        leader.api.has(
            {**raw, "spec": {**raw["spec"], "nodeName": node}, "status": {**raw["status"], "phase": "Running"}}
        )


def said(leader: Leader, name: str) -> str:
    """The placement text of the pod, in one line."""
    text: str = leader.api.pods[f"default/{name}"]["metadata"]["annotations"][PLACEMENT]
    return text.replace("\n", "; ")


async def test_a_pod_gets_the_device_near_its_cpus_and_is_pinned_there() -> None:
    leader = site(free=(4, 16))
    claims(leader, "p")
    created(leader, "p")
    await leader.cycle()
    assert leader.nodes() == {"p": "n0"}
    assert devices(leader) == {"p-gpu": ["gpu-1"]}
    raw = leader.claims.claims["default/p-gpu"]
    assert raw["status"]["reservedFor"] == [{"resource": "pods", "name": "p", "uid": "uid-p"}]
    (term,) = raw["status"]["allocation"]["nodeSelector"]["nodeSelectorTerms"]
    assert term == {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n0"]}]}
    assert said(leader, "p").startswith("placed on n0, NUMA 1; ")
    assert "devices gpu-1 on NUMA 1" in said(leader, "p")


async def test_pods_of_one_cycle_get_a_device_each() -> None:
    leader = site(numa=(0, 0, 1, 1))
    names = [f"p{number}" for number in range(4)]
    claims(leader, *names)
    created(leader, *names)
    await leader.cycle()
    # Those for NUMA 1 go once these are bound: in another order the kubelet would exchange them.
    assert sorted(devices(leader).values()) == [["gpu-0"], ["gpu-1"]]
    bind(leader)
    for _ in range(4):
        await leader.cycle()
        bind(leader)
    assert sorted(device for found in devices(leader).values() for device in found) == [
        "gpu-0",
        "gpu-1",
        "gpu-2",
        "gpu-3",
    ]
    assert leader.nodes().keys() == set(names)


async def test_a_pod_waits_where_the_kubelet_would_take_another_numa_node_and_says_so() -> None:
    leader = site(numa=(1,))
    claims(leader, "p")
    created(leader, "p")
    await leader.cycle()
    assert leader.waiting() == {"p"}
    assert not devices(leader)
    assert (
        "1 node has room, but no free devices on the NUMA nodes that its kubelet takes for CPUs and memory: "
        "n0 takes NUMA 0, devices are free on NUMA 1" in leader.text("p")
    )
    # As soon as other pods have NUMA 0, the kubelet takes NUMA 1.
    put(leader.cache, machine(name="n0", free=(4, 16))[1])
    await leader.cycle()
    assert devices(leader) == {"p-gpu": ["gpu-0"]}


async def test_best_effort_takes_devices_of_other_numa_nodes_and_says_so() -> None:
    leader = site(numa=(1,))
    put(
        leader.cache,
        {
            **machine(name="n0", free=(16, 16))[1],
            "attributes": [{"name": "topologyManagerPolicy", "value": "best-effort"}],
        },
    )
    claims(leader, "p")
    created(leader, "p", annotations={NUMA_TOPOLOGY_SPEC: '{"numaTopologyPolicy": "BestEffort"}'})
    await leader.cycle()
    assert not leader.waiting()
    assert not devices(leader)
    assert "not aligned with its devices: no free devices on the NUMA nodes" in said(leader, "p")


@pytest.mark.parametrize(
    ("how", "why"),
    [
        (
            {"requests": [first_available("gpu", request("one"))]},
            "claim gpu has a list of alternatives",
        ),
        ({"requests": [request(adminAccess=True)]}, "claim gpu asks for admin access"),
        ({"node": "n0", "devices": ["gpu-0"]}, "claim gpu is allocated already"),
    ],
    ids=["alternatives", "admin access", "allocated"],
)  # fmt: skip
async def test_what_only_the_scheduler_can_allocate_is_left_to_it_and_that_is_said(
    how: dict[str, Any], why: str
) -> None:
    leader = site()
    claims(leader, "p", **how)
    created(leader, "p")
    await leader.cycle()
    assert not leader.waiting()
    assert said(leader, "p").startswith("the scheduler chooses the node, for its resource claims; ")
    assert f"not aligned with its devices: {why}" in said(leader, "p")


async def test_devices_of_no_known_numa_node_are_left_to_the_scheduler() -> None:
    leader = site(numa=(None, None))
    claims(leader, "p")
    created(leader, "p")
    await leader.cycle()
    assert not devices(leader)
    assert "not aligned with its devices: no NUMA node of its devices on n0 is published" in said(leader, "p")


async def test_a_pod_waits_until_its_claim_is_made() -> None:
    leader = site()
    created(leader, "p", made=False)
    await leader.cycle()
    assert leader.waiting() == {"p"}
    assert leader.text("p") == "waiting: its claim gpu is not made yet"
    created(leader, "p")  # its status names the claim, which is not seen yet
    await leader.cycle()
    assert leader.waiting() == {"p"}
    claims(leader, "p")
    await leader.cycle()
    assert devices(leader) == {"p-gpu": ["gpu-0"]}


def test_a_claim_is_not_awaited_for_ever() -> None:
    leader, now, woken = site(), [0.0], list[float]()
    created(leader, "p", made=False)
    found = leader.cache.devices.claims_of(leader.api.pods["default/p"], "default", "uid-p")
    awaited = AwaitedClaims(woken.append, lambda: now[0])
    assert awaited.is_waiting("default/p", found)
    now[0] = 59.0
    assert awaited.is_waiting("default/p", found)
    now[0] = 60.0
    assert not awaited.is_waiting("default/p", found)
    assert woken == [60.0]


async def test_what_an_earlier_placement_left_is_not_built_on() -> None:
    leader = site()
    claims(leader, "p", node="n0", devices=["gpu-0"], reserved_for=["p"])
    created(leader, "p")
    await leader.cycle()
    assert leader.waiting() == {"p"}
    assert leader.text("p") == "waiting: its claim gpu has an earlier allocation, which is being taken back"


@pytest.mark.parametrize("outcome", [Outcome.STALE, Outcome.UNKNOWN, Outcome.REFUSED])
async def test_a_claim_that_cannot_be_written_leaves_the_pod_gated_and_holds_nothing(outcome: Outcome) -> None:
    leader = site()
    claims(leader, "p")
    created(leader, "p")
    leader.claims.outcomes = [outcome]
    await leader.cycle()
    assert leader.waiting() == {"p"}
    assert leader.cache.assumed_by("default/p") is None
    assert leader.cache.devices.claims()["default/p-gpu"].allocation is None
    leader.controller._delays.keep(set())
    await leader.cycle()
    assert devices(leader) == {"p-gpu": ["gpu-0"]}


async def test_a_pod_that_cannot_be_written_gives_its_devices_back() -> None:
    leader = site()
    claims(leader, "p")
    created(leader, "p")
    leader.api.outcome = Outcome.REFUSED
    await leader.cycle()
    assert leader.waiting() == {"p"}
    assert not devices(leader)
    assert leader.claims.released == ["default/p-gpu"]


async def test_a_device_that_another_claim_shows_meanwhile_is_not_used() -> None:
    leader = site()
    claims(leader, "p")
    created(leader, "p")
    allocate = leader.claims.allocate

    async def beside_another(*args: Any) -> Any:
        leader.claims.has(claim("other", node="n0", devices=["gpu-0"]))
        return await allocate(*args)

    leader.claims.allocate = beside_another  # type: ignore[assignment, method-assign]
    await leader.cycle()
    assert leader.waiting() == {"p"}
    assert devices(leader) == {"other": ["gpu-0"]}


async def test_members_of_a_gang_get_devices_near_their_cpus() -> None:
    leader = site(numa=(0, 0, 1, 1))
    names = [f"m{number}" for number in range(4)]
    claims(leader, *names)
    created(leader, *names, group="g", annotations={MIN_MEMBER: "4"})
    for _ in range(4):
        await leader.cycle()
        bind(leader)
    found = devices(leader)
    assert sorted(one for each in found.values() for one in each) == ["gpu-0", "gpu-1", "gpu-2", "gpu-3"]
    for name in names:
        near = 0 if found[f"{name}-gpu"][0] in {"gpu-0", "gpu-1"} else 1
        assert f"placed on n0, NUMA {near}; " in said(leader, name)


async def test_a_gang_goes_elsewhere_if_devices_are_near_other_numa_nodes() -> None:
    leader = site(numa=(1, 1), free=(16, 16))
    put(leader.cache, *machine(name="n1", free=(16, 16)), resource_slice("n1", gpus(0, 0)))
    claims(leader, "m0", "m1")
    created(leader, "m0", "m1", group="g", annotations={MIN_MEMBER: "2"})
    await leader.cycle()
    assert set(leader.nodes().values()) == {"n1"}


async def test_one_pcie_root_is_preferred_and_waited_for_if_it_is_required() -> None:
    roots = ("pci0000:00", "pci0000:40", "pci0000:40")
    devices_of_node = [device(f"gpu-{number}", attributes={NUMA: 0, ROOT: root}) for number, root in enumerate(roots)]
    raw = resource_slice("n0", devices_of_node)
    leader = site()
    leader.cache.devices.feeds["ResourceSlice"].upsert("n0-gpu.example.com", raw)
    put(leader.cache, claim_template("two", requests=[request(count=2)]))
    claims(leader, "p", requests=[request(count=2)])
    created(leader, "p", template="two")
    await leader.cycle()
    assert devices(leader) == {"p-gpu": ["gpu-1", "gpu-2"]}
    assert "devices gpu-1, gpu-2 on NUMA 0, on one PCIe root" in said(leader, "p")

    for required in (True, False):
        leader = site()
        leader.cache.devices.feeds["ResourceSlice"].upsert("n0-gpu.example.com", raw)
        put(leader.cache, claim_template("two", requests=[request(count=2)]))
        put(leader.cache, claim("other", node="n0", devices=["gpu-1"]))
        claims(leader, "p", requests=[request(count=2)])
        created(leader, "p", template="two", annotations={PCIE_ROOT: "Required"} if required else {})
        await leader.cycle()
        assert leader.waiting() == ({"p"} if required else set())
    assert devices(leader) == {"p-gpu": ["gpu-0", "gpu-2"]}
    assert "one PCIe root" not in said(leader, "p")


async def test_a_binding_is_refused_while_the_kubelet_would_take_other_cpus_than_those_near_the_devices(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    leader = site(free=(4, 16))
    claims(leader, "p")
    created(leader, "p")
    await leader.cycle()
    assert devices(leader) == {"p-gpu": ["gpu-1"]}

    async def no_fetch(namespace: str, name: str) -> None:
        raise AssertionError((namespace, name))

    refused: list[tuple[str, str, str]] = []
    guard = BindingGuard(
        leader.cache, no_fetch, lambda _: LeaderState.ALL, Rules(), 60.0, lambda *one: refused.append(one)
    )
    now = monotonic()
    monkeypatch.setattr("webhook.admission.binding.guard.monotonic", lambda: now)

    async def bind() -> Response:
        deadline = asyncio.get_running_loop().time() + 5.0
        review = binding_review("p", "n0", "uid-p", user="system:kube-scheduler", deadline=deadline)
        return await guard.handle(review)

    put(leader.cache, machine(name="n0", free=(16, 16))[1])
    for _ in range(2):
        answer = await bind()
        assert isinstance(answer, Denied)
        assert answer.message == (
            "its devices are on NUMA 1 of n0, and its kubelet would take NUMA 0 for its CPUs and memory now"
        )
        now += 29.0
    assert refused
    put(leader.cache, machine(name="n0", free=(4, 16))[1])
    assert isinstance(await bind(), Patched)
    # It is not refused for ever, and says where it is.
    put(leader.cache, machine(name="n0", free=(16, 16))[1])
    assert isinstance(await bind(), Denied)
    now += 31.0
    assert isinstance(await bind(), Patched)


# n0 [4 16]  n1 [4 16]      a pod of 12 has left NUMA 0 of n0, which its NRT does not show yet
async def test_of_equal_nodes_one_comes_first_whose_kubelet_certainly_takes_the_numa_node() -> None:
    leader = site((4, 16), (0, 1), *machine(name="n1", free=(4, 16)), resource_slice("n1", gpus(0, 1)))
    claims(leader, "p")
    created(leader, "p")
    leader.api.has(bound(name="gone", node="n0", cpu=12))
    leader.cache.pods.delete("default/gone")
    await leader.cycle()
    assert leader.nodes() == {"p": "n1"}
    assert devices(leader) == {"p-gpu": ["gpu-1"]}
