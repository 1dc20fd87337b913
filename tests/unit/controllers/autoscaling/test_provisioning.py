"""For which gangs a ProvisioningRequest is made, what it asks for, when it ends, and that no gang harms another."""

import asyncio
from typing import Any

import pytest
from structlog.testing import capture_logs

from tests.builders.nodes import nrt
from tests.builders.pods import gated, guaranteed
from tests.unit.controllers.autoscaling.asking import ATOMIC, FULL, POOL, RequestingLeader, full, gang, pool_node
from webhook.controllers.autoscaling import provisioning
from webhook.formats.autoscaling import GANG, MAX_POD_SETS
from webhook.formats.koordinator.numa_allocation import SEAL, AllocationKey
from webhook.kube.pacing import RateLimiter
from webhook.kube.write import WRITTEN, Outcome, Write
from webhook.model.names import MIN_MEMBER
from webhook.model.raw import Raw
from webhook.placing.autoscaling import provisioning_pod_sets
from webhook.placing.autoscaling.provisioning_pod_sets import pod_sets_of, selected_labels, template_of
from webhook.placing.gang.gang_search import GatedGang


def member(name: str, group: str = "g", minimum: int = 2, **how: Any) -> dict[str, Any]:
    own = how.pop("annotations", {})
    return gated(name=name, group=group, annotations={MIN_MEMBER: str(minimum), **own}, **how)


def required(template: dict[str, Any]) -> list[dict[str, Any]]:
    """The required node affinity of a template, as requirements of its one term."""
    affinity = template["spec"]["affinity"]["nodeAffinity"]
    (term,) = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    found: list[dict[str, Any]] = term["matchExpressions"]
    return found


async def test_a_gang_is_asked_for_together_and_its_pods_are_not_marked() -> None:
    leader = RequestingLeader(*FULL, *gang())
    raw = await leader.requested()
    assert raw["spec"]["provisioningClassName"] == ATOMIC
    ((template, count),) = leader.pod_sets()
    assert count == 2
    assert template["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "8", "memory": "1Gi"}
    assert "schedulingGates" not in template["spec"]
    # a node of another group could not align the pods
    assert required(template) == [{"key": POOL, "operator": "In", "values": ["blue"]}]
    assert leader.marked() == set()
    assert leader.waiting() == {"a", "b"}
    assert raw["metadata"]["annotations"][GANG] == "g"
    name = raw["metadata"]["name"]
    assert leader.text("a").endswith(
        "; cluster-autoscaler is asked for nodes of node group blue; "
        f"ProvisioningRequest {name} for 2 pods at once: no answer yet"
    )


async def test_a_single_pod_is_marked_as_before() -> None:
    leader = RequestingLeader(*FULL, gated(name="p"))
    await leader.after(0, 3, 1)
    assert leader.marked() == {"p"}
    assert leader.objects.written == []


@pytest.mark.parametrize(
    ("conditions", "says"),
    [
        ([("Accepted", "True")], "at once: it is accepted"),
        ([("Accepted", "True"), ("Provisioned", "False")], "there is no capacity now, and cluster-autoscaler tries"),
        ([("Accepted", "True"), ("Provisioned", "True")], "it is provisioned (Told: by the autoscaler)"),
    ],
)
async def test_the_pods_say_what_the_autoscaler_answered(conditions: list[tuple[str, str]], says: str) -> None:
    leader = await asked()
    leader.replies(*conditions)
    await leader.after(1)
    assert says in leader.text("b")
    assert len(leader.objects.requests) == 1


@pytest.mark.parametrize(
    ("conditions", "says"),
    [
        ([("Failed", "True")], "it failed (Told: by the autoscaler)"),
        ([("Provisioned", "True"), ("BookingExpired", "True")], "its capacity was reserved for some minutes"),
        ([("Provisioned", "True"), ("CapacityRevoked", "True")], "its capacity was revoked"),
    ],
)
async def test_a_request_that_came_to_nothing_is_made_again_after_a_wait_that_doubles(
    conditions: list[tuple[str, str]], says: str
) -> None:
    leader = await asked()
    for wait in (60, 120, 240, 480, 600, 600):
        leader.replies(*conditions)
        await leader.after(1)
        assert leader.objects.requests == leader.objects.templates == {}
        await leader.after(wait - 1)
        assert "is not asked for nodes now" in leader.text("a")
        assert says in leader.text("a")
        assert leader.objects.requests == leader.objects.templates == {}
        await leader.after(1)
        await leader.after(1)
        assert len(leader.objects.requests) == 1
    assert leader.marked() == set()


async def test_an_unanswered_request_leaves_its_turn_to_others_after_a_quarter_of_an_hour() -> None:
    leader = await asked()
    await leader.after(890)
    assert len(leader.objects.requests) == 1
    await leader.after(20)
    assert leader.objects.requests == {}
    assert "does it run with --enable-provisioning-requests?" in leader.text("a")


async def test_its_templates_exist_before_the_request_which_is_cancelled_when_the_gang_is_placed() -> None:
    leader = RequestingLeader(*FULL, *gang())
    await leader.settle()
    assert leader.objects.written == ["+PodTemplate"], "so that the autoscaler knows them"
    await leader.after(*[1] * 40)
    assert leader.objects.written == ["+PodTemplate", "+ProvisioningRequest"]
    leader.replies(("Accepted", "True"), ("Provisioned", "True"))
    leader.has(pool_node("n1", age=0), nrt(node="n1", free=[16, 16]))
    await leader.after(1)
    assert leader.nodes() == {"a": "n1", "b": "n1"}
    await leader.after(1, 6)
    assert leader.objects.requests == leader.objects.templates == {}


async def test_a_gang_that_is_gone_leaves_neither_a_request_nor_what_was_only_prepared() -> None:
    for seconds in ((0, 3), (0, 3, 1)):
        leader = RequestingLeader(*FULL, *gang())
        await leader.after(*seconds)
        assert leader.objects.templates
        for name in ("a", "b"):
            leader.api.delete(f"default/{name}")
        await leader.after(1, 6)
        assert leader.objects.requests == leader.objects.templates == {}


async def test_it_is_cancelled_when_the_scheduler_nominated_a_node_for_a_member() -> None:
    leader = await asked()
    await leader.api.nominate("default/a", "a", "n0")
    await leader.after(1)
    assert len(leader.objects.requests) == 1
    await leader.after(6)
    assert leader.objects.requests == leader.objects.templates == {}


async def test_another_request_is_made_when_the_pods_of_the_gang_change() -> None:
    leader = RequestingLeader(*FULL, *gang())
    before = await leader.requested()
    leader.has(member("launcher", containers=[guaranteed(cpu=1)]))
    await leader.after(1, 1)
    assert leader.objects.requests == leader.objects.templates == {}
    assert leader.text("a").endswith("and will be again: its pods have changed since cluster-autoscaler was asked")
    await leader.after(9)
    await leader.after(1)
    (after,) = leader.objects.requests.values()
    assert after["metadata"]["name"] != before["metadata"]["name"]
    assert sorted(count for _, count in leader.pod_sets()) == [1, 2]


@pytest.mark.parametrize(
    ("asked_for", "most"),
    [(True, {"+ProvisioningRequest": 7}), (False, {"+PodTemplate": 7, "-PodTemplate": 7, "+ProvisioningRequest": 0})],
    ids=["after its request", "before it"],
)
async def test_a_gang_that_changes_each_second_causes_ever_fewer_writes(asked_for: bool, most: dict[str, int]) -> None:
    leader = RequestingLeader(*FULL, *gang())
    await (leader.requested() if asked_for else leader.settle())
    for second in range(600):
        leader.has(*gang(tolerations=[{"key": f"t{second}", "operator": "Exists"}]))
        await leader.after(1)
    # the first one, and one after 10, 20, 40, 80, 160 and 320 seconds
    assert all(leader.objects.written.count(kind) <= count for kind, count in most.items())


async def test_a_request_that_another_client_deleted_is_made_again_after_a_wait() -> None:
    leader = await asked()
    await leader.after(1)
    leader.objects.requests.clear()
    leader.objects.templates.clear()
    await leader.after(1)
    assert leader.text("a").endswith("and will be again: another client deleted its ProvisioningRequest")
    await leader.after(59)
    assert leader.objects.requests == {}
    await leader.after(1, 1)
    assert len(leader.objects.requests) == 1


async def test_a_gang_of_equal_pods_is_asked_for_by_as_many_as_must_start_together() -> None:
    leader = RequestingLeader(*FULL, *(member(name, minimum=2) for name in "abcd"))
    await leader.requested()
    assert [count for _, count in leader.pod_sets()] == [2]


async def test_members_that_differ_in_labels_environment_and_rank_share_a_template() -> None:
    members = [
        member(
            f"worker-{rank}",
            metadata={"labels": {"job": "j", "batch.kubernetes.io/job-completion-index": str(rank)}},
            containers=[guaranteed(env=[{"name": "RANK", "value": str(rank)}, {"name": "TOKEN", "value": "secret"}])],
            topologySpreadConstraints=[
                {
                    "maxSkew": 1,
                    "topologyKey": "zone",
                    "whenUnsatisfiable": "DoNotSchedule",
                    "labelSelector": {"matchLabels": {"job": "j"}},
                }
            ],
        )
        for rank in range(2)
    ]
    leader = RequestingLeader(*FULL, *members)
    await leader.requested()
    ((template, count),) = leader.pod_sets()
    assert count == 2
    assert template["metadata"] == {"labels": {"job": "j"}}
    assert "secret" not in str(template)


@pytest.mark.parametrize(
    ("count", "read", "says"),
    [
        (
            60,
            MAX_POD_SETS + 1,
            "its pods are of more than 32 different templates, and a ProvisioningRequest takes no more",
        ),
        (65, 0, "its pods are of 65 different kinds, and at most 64 are examined"),
    ],
)
async def test_a_gang_of_more_templates_than_a_request_takes_is_hardly_read_not_asked_for_and_says_so(
    monkeypatch: pytest.MonkeyPatch, count: int, read: int, says: str
) -> None:
    examined: list[object] = []

    def counted(raw: Any, selected: Any) -> Any:
        examined.append(raw)
        return template_of(raw, selected)

    monkeypatch.setattr(provisioning_pod_sets, "template_of", counted)
    leader = RequestingLeader(*FULL, *of_many_kinds(count))
    await leader.settle()
    assert len(examined) == read
    await leader.after(1)
    assert leader.objects.written == []
    assert leader.marked() == set()
    assert says in leader.text("m0")


async def test_present_nodes_that_the_pods_fit_in_sum_alone_are_excluded_for_the_request_only() -> None:
    # n0 ── in use by its zones, free in sum
    leader = RequestingLeader(pool_node("n0"), full("n0"), *gang())
    await leader.requested()
    ((template, _),) = leader.pod_sets()
    assert required(template)[1]["operator"] == "NotIn"
    assert "affinity" not in leader.api.pods["default/a"]["spec"]


async def test_nothing_is_written_while_the_kind_is_not_served_and_the_pods_say_so() -> None:
    leader = RequestingLeader(*FULL, *gang())
    leader.requests.serve("")
    with capture_logs() as logs:
        await leader.settle()
        await leader.after(1)
        await leader.after(1)
    assert [entry["event"] for entry in logs].count("provisioning.not_served") == 1
    assert leader.objects.written == []
    assert leader.marked() == set()
    assert leader.text("a").endswith(
        "; cluster-autoscaler is not asked for nodes: the cluster does not serve ProvisioningRequests"
    )
    leader.requests.serve("v1")
    await leader.after(1, 1)
    assert len(leader.objects.requests) == 1


async def test_a_refusal_stays_the_gangs_own_and_is_tried_again_later() -> None:
    leader = RequestingLeader(*FULL, *gang())
    leader.objects.refusal = Write(Outcome.REFUSED, "a ResourceQuota of the namespace is used up", status=403)
    await leader.after(0, 3, 1)
    assert leader.text("a").endswith("will be again: a ResourceQuota of the namespace is used up")
    assert leader.objects.templates == {}
    leader.objects.refusal = None
    await leader.after(59)
    assert leader.objects.requests == {}
    await leader.after(1, 1)
    assert len(leader.objects.requests) == 1


async def test_pods_that_consume_a_request_of_their_own_get_none_of_ours() -> None:
    own = {"autoscaling.x-k8s.io/consume-provisioning-request": "mine"}
    leader = RequestingLeader(*FULL, *gang(annotations=own))
    await leader.after(0, 3, 1)
    assert leader.objects.written == []
    assert "pod a consumes ProvisioningRequest mine" in leader.text("a")


async def test_pods_that_consumed_another_request_for_a_while_are_asked_for_again_and_nobody_is_blamed() -> None:
    leader = await asked()
    await leader.after(1)
    leader.has(*gang(annotations={"autoscaling.x-k8s.io/consume-provisioning-request": "mine"}))
    await leader.after(1, 1)
    assert leader.objects.requests == {}
    leader.has(*gang())
    await leader.after(1)
    assert "its pods have changed since cluster-autoscaler was asked" in leader.text("a")
    for _ in range(12):
        await leader.after(1)
    assert len(leader.objects.requests) == 1


async def test_a_request_that_a_tenant_wrote_with_our_labels_is_neither_used_nor_deleted() -> None:
    first = RequestingLeader(*FULL, *gang())
    raw = await first.requested()
    leader = RequestingLeader(*FULL, *gang())
    leader.cache.use_allocation_key(AllocationKey.create())
    key = f"default/{raw['metadata']['name']}"
    leader.objects.requests[key] = raw
    leader.objects.templates[f"{key}-0"] = {"metadata": {"name": f"{raw['metadata']['name']}-0", "uid": "theirs"}}
    await leader.settle()
    for _ in range(3):
        await leader.after(1)
    assert leader.objects.requests == {key: raw}
    assert len(leader.objects.templates) == 1
    assert "another client has made an object of the name that it would have" in leader.text("a")
    for name in ("a", "b"):
        leader.api.delete(f"default/{name}")
    for _ in range(3):
        await leader.after(6)
    assert leader.objects.written == []


async def test_a_copy_of_our_request_under_another_name_or_for_more_pods_is_not_ours() -> None:
    leader = RequestingLeader(*FULL, *gang())
    raw = await leader.requested()
    renamed = {**raw, "metadata": {**raw["metadata"], "name": "copy", "uid": "other"}}
    larger = {**raw, "spec": {**raw["spec"], "podSets": [{**raw["spec"]["podSets"][0], "count": 1000}]}}
    unsealed = {**raw, "metadata": {**raw["metadata"], "annotations": {SEAL: 1}}}
    for forged in (renamed, larger, unsealed):
        leader.requests.feed.upsert("default/copy", forged)
        assert [request.uid for request in leader.requests.by_key().values()] in ([raw["metadata"]["uid"]], [])


async def test_the_next_leader_continues_with_what_is_there() -> None:
    first = RequestingLeader(*FULL, *gang())
    await first.settle()
    assert first.objects.written == ["+PodTemplate"]
    second = RequestingLeader(*FULL, *gang())
    second.cache.use_allocation_key(first.cache.allocation_key)
    second.objects.templates = first.objects.templates
    await second.requested()
    # Its content may be another client's, so it is recreated.
    assert second.objects.written == ["-PodTemplate", "+PodTemplate", "+ProvisioningRequest"]
    third = RequestingLeader(*FULL, *gang())
    third.cache.use_allocation_key(first.cache.allocation_key)
    third.objects.templates, third.objects.requests = second.objects.templates, second.objects.requests
    await third.settle()
    await third.after(10)
    assert third.objects.written == []
    assert "no answer yet" in third.text("a")


async def test_a_namespace_has_a_few_requests_at_a_time_and_does_not_keep_others_from_theirs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(provisioning, "MOST_OF_A_NAMESPACE", 2)
    many = [member(f"{name}{n}", f"g{n}") for n in range(4) for name in "ab"]
    leader = RequestingLeader(*FULL, *many, *gang(namespace="other"))
    await leader.settle()
    for _ in range(6):
        await leader.after(1)
    namespaces = sorted(key.partition("/")[0] for key in leader.objects.requests)
    assert namespaces == ["default", "default", "other"]
    waiting = [name for name in ("a0", "a1", "a2", "a3") if "when it is its turn" in leader.text(name)]
    assert len(waiting) == 2
    assert leader.marked() == set()


async def test_gangs_that_are_not_reached_in_a_sweep_are_not_marked_meanwhile() -> None:
    leader = RequestingLeader(*FULL, *[member(f"{name}{n}", f"g{n}") for n in range(6) for name in "ab"])
    await leader.settle()
    for _ in range(4):
        assert leader.marked() == set()
        await leader.after(1)
    assert len(leader.objects.requests) == 6


async def test_a_gang_that_cannot_be_read_is_not_marked_and_others_get_their_requests(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(gang: Any, *arguments: Any) -> Any:
        if gang.membership.name == "odd":
            raise RuntimeError
        return pod_sets_of(gang, *arguments)

    monkeypatch.setattr(provisioning, "pod_sets_of", broken)
    leader = RequestingLeader(*FULL, *gang(), member("c", "odd"), member("d", "odd"))
    await leader.requested()
    assert leader.marked() == set()


async def test_a_gang_that_has_begun_is_asked_for_pod_by_pod() -> None:
    leader = RequestingLeader(*FULL, *gang(cpu=16))
    await leader.requested()
    leader.has(pool_node("n1", age=0), nrt(node="n1", free=[16, 16]))
    await leader.after(1)
    assert leader.nodes() == {"a": "n1", "b": "n1"}
    leader.has(member("c", cpu=16))
    await leader.settle()
    assert leader.marked() == {"c"}


async def test_with_check_capacity_the_pods_say_that_no_nodes_are_added() -> None:
    leader = RequestingLeader(*FULL, *gang(), class_name="check-capacity.autoscaling.x-k8s.io")
    await leader.requested()
    leader.replies(("Accepted", "True"), ("Provisioned", "False"), reason="CapacityIsNotFound", message="later")
    await leader.after(1)
    assert "is asked whether there is capacity for 2 pods at once, and adds no node for that" in leader.text("a")
    assert "cluster-autoscaler tries again (CapacityIsNotFound: later)" in leader.text("a")


def many(name: str = "g", count: int = 2, **how: Any) -> list[dict[str, Any]]:
    return gang([f"{name}-{number}" for number in range(count)], name, count, **how)


async def asked(*pods: dict[str, Any]) -> RequestingLeader:
    """A leader that has asked for a gang."""
    leader = RequestingLeader(*FULL, *(pods or gang()))
    await leader.requested()
    return leader


def of_many_kinds(count: int) -> list[dict[str, Any]]:
    """A gang whose members tolerate different taints."""
    taints = ([{"key": f"t{n}", "operator": "Exists"}] for n in range(count))
    return [pod for n, tolerations in enumerate(taints) for pod in gang([f"m{n}"], "m", count, tolerations=tolerations)]


async def test_a_call_that_hangs_delays_neither_the_sweep_nor_the_gangs_of_other_namespaces() -> None:
    leader = RequestingLeader(*FULL, *many("slow"), *many("other", namespace="b"), gated(name="single", namespace="c"))
    create, hanging = leader.objects.create_template, asyncio.Event()

    async def hangs(body: Raw) -> Write:
        if body["metadata"]["namespace"] == "default":
            await hanging.wait()
        return await create(body)

    leader.objects.create_template = hangs  # type: ignore[method-assign]
    async with asyncio.timeout(60):
        await leader.settle()
        await leader.after(1)
        await leader.after(1)
    assert [key.partition("/")[0] for key in leader.objects.requests] == ["b"]
    assert "single" in leader.marked()
    assert leader.text("slow-0").endswith("one ProvisioningRequest for 2 pods at once: it is being written")
    hanging.set()
    await leader.writer.settle()
    await leader.after(1)
    assert len(leader.objects.requests) == 2


async def test_templates_that_take_longer_to_write_than_they_are_kept_are_used_all_the_same() -> None:
    leader = RequestingLeader(*FULL, *many())
    create = leader.objects.create_template

    async def takes_long(body: Raw) -> Write:
        leader.second += 40
        return await create(body)

    leader.objects.create_template = takes_long  # type: ignore[method-assign]
    await leader.after(0, 3, 1)
    assert leader.objects.written == ["+PodTemplate", "+ProvisioningRequest"]


async def test_who_no_longer_leads_writes_no_more() -> None:
    leader = RequestingLeader(*FULL, *many())
    hanging = asyncio.Event()

    async def hangs(body: Raw) -> Write:
        await hanging.wait()
        return WRITTEN

    leader.objects.create_template = hangs  # type: ignore[method-assign]
    await leader.settle()
    leader.leads = False
    sweeping = asyncio.create_task(leader.marks.run())
    await asyncio.sleep(0)
    hanging.set()
    await leader.writer.settle()
    sweeping.cancel()
    assert leader.writer.namespaces() == []


async def test_what_another_leader_cancelled_is_asked_for_at_once_in_the_next_term() -> None:
    leader = await asked(*many())
    await leader.after(1)
    leader.marks._forget()  # as while another replica leads
    leader.objects.requests.clear()
    leader.objects.templates.clear()
    for _ in range(3):
        await leader.after(1)
    assert len(leader.objects.requests) == 1


async def test_all_calls_take_their_turn() -> None:
    turns: list[int] = []

    class Counting(RateLimiter):
        async def turn(self) -> None:
            turns.append(1)

    leader = RequestingLeader(*FULL, *many())
    leader.writer._pace = Counting()
    await leader.requested()
    for number in range(2):
        leader.api.delete(f"default/g-{number}")
    await leader.after(1)
    await leader.after(6)
    assert leader.objects.written == ["+PodTemplate", "+ProvisioningRequest", "-ProvisioningRequest", "-PodTemplate"]
    assert len(turns) == 5, "four writes, and one read of the template"


async def test_a_template_of_another_content_under_a_copied_seal_is_made_anew() -> None:
    first = RequestingLeader(*FULL, *many())
    await first.requested()
    ((key, forged),) = first.objects.templates.items()
    honest = forged["template"]
    forged["template"] = {"spec": {"containers": [{"name": "main", "image": "none", "resources": {}}]}}
    assert SEAL in forged["metadata"]["annotations"]
    leader = RequestingLeader(*FULL, *many())
    leader.cache.use_allocation_key(first.cache.allocation_key)
    leader.objects.templates[key] = forged
    await leader.requested()
    ((template, _),) = leader.pod_sets()
    assert template == honest


@pytest.mark.parametrize("status", [[], "odd", {"conditions": "odd"}, {"conditions": ["odd", {"type": []}, 7]}])
async def test_a_status_of_another_form_is_no_answer_and_the_request_stays_ours(status: Any) -> None:
    leader = RequestingLeader(*FULL, *many())
    raw = await leader.requested()
    raw["status"] = status
    await leader.after(1)
    assert leader.requests.feed.faults == {}
    assert "no answer yet" in leader.text("g-0")
    leader.replies(("Failed", "True"), reason={"odd": 1}, message=["odd"])  # type: ignore[arg-type]
    await leader.after(1)
    assert "it failed" in leader.text("g-0")
    assert "odd" not in leader.text("g-0")


@pytest.mark.parametrize("spec", [None, [], "odd", {"podSets": "odd"}, {"podSets": [[]]}])
async def test_a_request_of_another_form_with_our_labels_is_not_ours(spec: Any) -> None:
    leader = RequestingLeader(*FULL, *many())
    raw = await leader.requested()
    leader.requests.feed.upsert("default/odd", {**raw, "metadata": {**raw["metadata"], "name": "odd"}, "spec": spec})
    assert [request.name for request in leader.requests.by_key().values()] == [raw["metadata"]["name"]]
    assert leader.requests.feed.faults == {}


async def test_other_tasks_run_between_any_two_members(monkeypatch: pytest.MonkeyPatch) -> None:
    leader = RequestingLeader(*FULL, *many(count=40))
    await leader.settle()
    (unit,) = leader.controller.planner.lacking_room.units()
    assert isinstance(unit.unit, GatedGang)
    read: list[object] = []

    def counted(raw: Any) -> set[str]:
        read.append(raw)
        return selected_labels(raw)

    monkeypatch.setattr(provisioning_pod_sets, "selected_labels", counted)
    steps = pod_sets_of(unit.unit, 40, "")
    for number in range(1, 41):
        next(steps)
        assert len(read) == number


@pytest.mark.parametrize("recreated", [False, True])
async def test_a_gang_that_is_put_off_stays_so_when_a_member_is_recreated(*, recreated: bool) -> None:
    leader = await asked(*many())
    leader.replies(("Failed", "True"))
    await leader.after(1)
    assert leader.objects.requests == {}
    assert "is not asked for nodes now" in leader.text("g-0")
    if recreated:
        leader.api.delete("default/g-1")
        await leader.after(1)
        leader.has(*many(metadata={"uid": "another"})[1:])
    for _ in range(10):
        await leader.after(1)
    assert leader.objects.requests == {}, "11 of 60 seconds are over"


async def test_pods_that_are_recreated_all_the_time_cause_ever_fewer_requests() -> None:
    leader = await asked(*many())
    for second in range(0, 600, 6):
        leader.api.delete("default/g-1")
        await leader.after(1)
        leader.has(*many(tolerations=[{"key": f"t{second}", "operator": "Exists"}]))
        for _ in range(5):
            await leader.after(1)
    assert leader.objects.written.count("+ProvisioningRequest") <= 7
