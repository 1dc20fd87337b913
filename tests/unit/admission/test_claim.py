"""The guard of allocations: the leader refuses a device that it has given away, and notes what it lets pass."""

from collections.abc import Sequence
from typing import Any

import pytest

from tests.builders.clusters import cluster_cache, put
from tests.builders.devices import DRIVER, claim, device_class, resource_slice
from tests.builders.nodes import node
from tests.builders.reviews import denied, review
from webhook.admission.binding.guard import LeaderState
from webhook.admission.binding.review_trust import FIRST_SECONDS, Doubts
from webhook.admission.claim import ClaimGuard
from webhook.admission.handler import LeaderNeededError, NotNowError
from webhook.admission.response import Allowed, Response
from webhook.formats.dra import Claim, DeviceId
from webhook.state.rules import Rules
from webhook.views.nodes import devices_on

SCHEDULER = "system:kube-scheduler"


class Site:
    """Node n0 with gpu-0 to gpu-3. Of its claims `ours` is assumed to have gpu-0, `theirs` has nothing."""

    def __init__(self, *, state: LeaderState = LeaderState.ALL, forged: bool = True) -> None:
        self.cache = cluster_cache(
            node(name="n0"), resource_slice(node="n0"), device_class(), claim(name="ours"), claim(name="theirs")
        )
        self.state, self.now, self.doubts = state, 0.0, Doubts() if forged else None
        rules = Rules(trusted_users=frozenset({"us"}))
        self.guard = ClaimGuard(self.cache.devices, lambda _: self.state, rules, self.doubts, lambda: self.now)
        allocation = Claim.from_object(claim(node="n0", devices=["gpu-0"])).allocation
        assert allocation is not None
        assert self.cache.devices.assume_claims("p", {"default/ours": allocation})

    def allocate(self, devices: Sequence[str], name: str = "theirs", **how: Any) -> Response:
        after = claim(name=name, node="n0", devices=devices)
        return self.review(after, claim(name=name), **how)

    def review(self, after: dict[str, Any], before: dict[str, Any], **how: Any) -> Response:
        return self.guard.handle(review(after, before, **{"user": SCHEDULER, "subResource": "status", **how}))

    def taken(self) -> dict[str, tuple[str, ...]]:
        return {one.name: one.claims for one in devices_on(self.cache, "n0") if one.claims}


OURS = {"gpu-0": ("default/ours",)}


def test_a_device_that_is_assumed_for_another_claim_is_refused_without_its_name() -> None:
    site = Site()
    refusal = denied(site.allocate(["gpu-1", "gpu-0"]))
    assert refusal.reason == "DeviceAssumed"
    assert refusal.message.startswith(f"device {DRIVER}/n0/gpu-0 has just been given to another claim")
    assert "ours" not in refusal.message
    assert site.taken() == OURS


def test_it_is_refused_until_the_pod_is_bound_though_its_claim_shows_it_earlier() -> None:
    site = Site()
    put(site.cache, claim(name="ours", node="n0", devices=["gpu-0"]))
    denied(site.allocate(["gpu-0"]))
    site.cache.devices.bound_or_gone("default/p", "p")
    assert isinstance(site.allocate(["gpu-0"]), Allowed)


def test_an_allocation_that_passes_counts_until_it_is_shown_or_never_comes() -> None:
    site = Site()
    assert isinstance(site.allocate(["gpu-1"]), Allowed)
    assert site.taken() == OURS | {"gpu-1": ("default/theirs",)}
    # It is only counted: another allocator may know better, and a review may be forged.
    assert site.cache.devices.assumed_holder(DeviceId(DRIVER, "n0", "gpu-1")) is None
    assert isinstance(site.allocate(["gpu-1"], "another"), Allowed)
    assert site.cache.devices.expire_notes(FIRST_SECONDS - 0.1) == []
    assert site.cache.devices.expire_notes(FIRST_SECONDS) == [("default/theirs", "uid-default-theirs")]
    assert site.taken() == OURS
    site = Site()
    site.allocate(["gpu-1"])
    put(site.cache, claim(name="theirs", node="n0", devices=["gpu-2"]))
    assert site.cache.devices.expire_notes(1e9) == []
    assert site.taken() == OURS | {"gpu-2": ("default/theirs",)}


def test_reviews_that_never_come_are_believed_for_a_shorter_time_and_then_not_at_all() -> None:
    site = Site()
    assert site.doubts is not None
    counted = []
    for second in range(3):
        site.now = float(10 * second)
        site.allocate(["gpu-1"])
        counted.append("gpu-1" in site.taken())
        site.now += FIRST_SECONDS / 2
        site.allocate(["gpu-2"])  # another attempt gets no more time
        for key, uid in site.cache.devices.expire_notes(site.now + FIRST_SECONDS / 2):
            site.doubts.came_to_nothing(key, uid, site.now)
        assert site.taken() == OURS
    assert counted == [True, True, False]
    trusting = Site(forged=False)
    trusting.allocate(["gpu-1"])
    assert trusting.cache.devices.expire_notes(FIRST_SECONDS) == []


@pytest.mark.parametrize(
    "how",
    [
        {"user": "us"},
        {"subResource": ""},
        {"name": "ours"},
        {"dryRun": True, "devices": ["gpu-1"]},
        {"name": "unknown", "devices": ["gpu-1"]},
    ],
    ids=["our own", "no status", "the claim itself", "a dry run", "a claim that no watch has shown"],
)
def test_all_else_passes_and_changes_nothing(how: dict[str, Any]) -> None:
    site = Site()
    assert isinstance(site.allocate(**{"devices": ["gpu-0"], **how}), Allowed)
    assert site.taken() == OURS


def test_admin_access_and_shares_take_a_device_from_nobody() -> None:
    for field in ({"adminAccess": True}, {"shareID": "one"}):
        site, after = Site(), claim(name="theirs", node="n0", devices=["gpu-0"])
        after["status"]["allocation"]["devices"]["results"][0] |= field
        assert isinstance(site.review(after, claim(name="theirs")), Allowed)


def test_an_update_that_allocates_nothing_passes_also_on_a_claim_that_has_our_device() -> None:
    after = claim(name="theirs", node="n0", devices=["gpu-0"])
    reserved = {**after, "status": {**after["status"], "reservedFor": [{"resource": "pods", "name": "q", "uid": "q"}]}}
    assert isinstance(Site().review(reserved, after), Allowed)
    assert isinstance(Site().review(claim(name="theirs"), after), Allowed)


def test_only_the_leader_knows_what_is_assumed() -> None:
    with pytest.raises(NotNowError):
        Site(state=LeaderState.NONE).allocate(["gpu-1"])
    with pytest.raises(LeaderNeededError) as needed:
        Site(state=LeaderState.ELSEWHERE).allocate(["gpu-1"])
    assert needed.value.node == "n0"  # whose shard's leader is asked
    refusal = denied(needed.value.otherwise)
    assert (refusal.reason, refusal.misrouted) == ("NotLeader", True)
    denied(Site(state=LeaderState.ASSIGNED_ONLY).allocate(["gpu-0"]))
    assert isinstance(Site(state=LeaderState.ASSIGNED_ONLY).allocate(["gpu-1"]), Allowed)
