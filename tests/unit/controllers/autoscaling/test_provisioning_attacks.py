"""What a tenant, an odd object or a slow API server can do to ProvisioningRequests: nothing to other gangs."""

import asyncio
from typing import Any

import pytest

from tests.builders.pods import gated
from tests.unit.controllers.autoscaling.asking import filler, full, pool_node
from tests.unit.controllers.autoscaling.requesting import RequestingLeader
from webhook.formats.autoscaling import MAX_POD_SETS
from webhook.formats.koordinator.hint import SEAL
from webhook.kube.pacing import RateLimiter
from webhook.kube.write import WRITTEN, Write
from webhook.model.names import MIN_MEMBER
from webhook.model.raw import Raw
from webhook.placing.autoscaling import provisioning_pod_sets
from webhook.placing.autoscaling.provisioning_pod_sets import pod_sets_of, selected_labels, template_of
from webhook.placing.gang.gang_search import GatedGang

# n0 ── NUMA 0 [0 of 16 free]  NUMA 1 [0 of 16 free], in group blue
FULL = pool_node("n0"), full("n0"), filler("n0")


def gang(name: str = "g", count: int = 2, **how: Any) -> list[dict[str, Any]]:
    annotations = {MIN_MEMBER: str(count)}
    return [gated(name=f"{name}-{number}", group=name, annotations=annotations, **how) for number in range(count)]


def of_many_kinds(count: int) -> list[dict[str, Any]]:
    """A gang whose members tolerate different taints."""
    annotations = {MIN_MEMBER: str(count)}
    return [
        gated(name=f"m{n}", group="m", annotations=annotations, tolerations=[{"key": f"t{n}", "operator": "Exists"}])
        for n in range(count)
    ]


async def test_a_call_that_hangs_delays_neither_the_sweep_nor_the_gangs_of_other_namespaces() -> None:
    leader = RequestingLeader(*FULL, *gang("slow"), *gang("other", namespace="b"), gated(name="single", namespace="c"))
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
    leader = RequestingLeader(*FULL, *gang())
    create = leader.objects.create_template

    async def takes_long(body: Raw) -> Write:
        leader.second += 40
        return await create(body)

    leader.objects.create_template = takes_long  # type: ignore[method-assign]
    await leader.settle()
    await leader.after(1)
    assert leader.objects.written == ["+PodTemplate", "+ProvisioningRequest"]


async def test_who_no_longer_leads_writes_no_more() -> None:
    leader = RequestingLeader(*FULL, *gang())
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
    leader = RequestingLeader(*FULL, *gang())
    await leader.requested()
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

    leader = RequestingLeader(*FULL, *gang())
    leader.writer._pace = Counting()
    await leader.requested()
    for number in range(2):
        leader.api.delete(f"default/g-{number}")
    await leader.after(1)
    await leader.after(6)
    assert leader.objects.written == ["+PodTemplate", "+ProvisioningRequest", "-ProvisioningRequest", "-PodTemplate"]
    assert len(turns) == 5, "four writes, and one read of the template"


async def test_a_gang_that_changes_each_second_before_its_request_is_made_causes_ever_fewer_writes() -> None:
    leader = RequestingLeader(*FULL, *gang())
    await leader.settle()
    for second in range(600):
        leader.has(*gang(tolerations=[{"key": f"t{second}", "operator": "Exists"}]))
        await leader.after(1)
    # what was prepared is discarded: after 10, 20, 40, 80, 160 and 320 seconds
    assert len(leader.objects.written) <= 14


async def test_a_template_of_another_content_under_a_copied_seal_is_made_anew() -> None:
    first = RequestingLeader(*FULL, *gang())
    await first.requested()
    ((key, forged),) = first.objects.templates.items()
    honest = forged["template"]
    forged["template"] = {"spec": {"containers": [{"name": "main", "image": "none", "resources": {}}]}}
    assert SEAL in forged["metadata"]["annotations"]
    leader = RequestingLeader(*FULL, *gang())
    leader.cache.use_hint_key(first.cache.hint_key)
    leader.objects.templates[key] = forged
    await leader.requested()
    ((template, _),) = leader.pod_sets()
    assert template == honest


@pytest.mark.parametrize("status", [[], "odd", {"conditions": "odd"}, {"conditions": ["odd", {"type": []}, 7]}])
async def test_a_status_of_another_form_is_no_answer_and_the_request_stays_ours(status: Any) -> None:
    leader = RequestingLeader(*FULL, *gang())
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
    leader = RequestingLeader(*FULL, *gang())
    raw = await leader.requested()
    leader.requests.feed.upsert("default/odd", {**raw, "metadata": {**raw["metadata"], "name": "odd"}, "spec": spec})
    assert [request.name for request in leader.requests.by_key().values()] == [raw["metadata"]["name"]]
    assert leader.requests.feed.faults == {}


async def test_of_a_gang_with_too_many_templates_only_a_few_members_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    leader = RequestingLeader(*FULL, *of_many_kinds(60))
    read: list[object] = []

    def counted(raw: Any, selected: Any) -> Any:
        read.append(raw)
        return template_of(raw, selected)

    monkeypatch.setattr(provisioning_pod_sets, "template_of", counted)
    await leader.settle()
    assert len(read) == MAX_POD_SETS + 1
    assert "more than 32 different templates" in leader.text("m0")


async def test_other_tasks_run_between_any_two_members(monkeypatch: pytest.MonkeyPatch) -> None:
    leader = RequestingLeader(*FULL, *gang(count=40))
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


async def test_a_gang_of_very_many_kinds_is_not_examined_and_says_so() -> None:
    leader = RequestingLeader(*FULL, *of_many_kinds(65))
    await leader.settle()
    assert leader.marked() == set()
    assert "its pods are of 65 different kinds, and at most 64 are examined" in leader.text("m0")


@pytest.mark.parametrize("recreated", [False, True])
async def test_a_gang_that_is_put_off_stays_so_when_a_member_is_recreated(*, recreated: bool) -> None:
    leader = RequestingLeader(*FULL, *gang())
    await leader.requested()
    leader.replies(("Failed", "True"))
    await leader.after(1)
    assert leader.objects.requests == {}
    assert "is not asked for nodes now" in leader.text("g-0")
    if recreated:
        leader.api.delete("default/g-1")
        await leader.after(1)
        leader.has(*gang(metadata={"uid": "another"})[1:])
    for _ in range(10):
        await leader.after(1)
    assert leader.objects.requests == {}, "11 of 60 seconds are over"


async def test_pods_that_are_recreated_all_the_time_cause_ever_fewer_requests() -> None:
    leader = RequestingLeader(*FULL, *gang())
    await leader.requested()
    for second in range(0, 600, 6):
        leader.api.delete("default/g-1")
        await leader.after(1)
        leader.has(*gang(tolerations=[{"key": f"t{second}", "operator": "Exists"}]))
        for _ in range(5):
            await leader.after(1)
    assert leader.objects.written.count("+ProvisioningRequest") <= 7
