"""The page follows a real cluster, in a real browser: from a replica, and with a user's own rights.

page-0000: NUMA 0 ── 16 cpu
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from tests.browser.page_process import page_of
from tests.cluster.gated import pod
from tests.cluster.nodes import machines, present
from tests.cluster.webhook_process import local_webhook

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Page

    from tests.cluster.control_plane import ControlPlane
    from tests.cluster.gated import Pods


@pytest.fixture(scope="module")
def served(control_plane: ControlPlane) -> Iterator[str]:
    """The address of a replica's page."""
    with (
        present(control_plane.api, machines(1, 1, prefix="page")),
        local_webhook(control_plane, values={"page": {"enabled": True}}) as webhook,
    ):
        webhook.wait_until_called()
        (replica,) = webhook.replicas
        assert replica.page_url
        yield replica.page_url.rstrip("/")


@pytest.fixture
def own(control_plane: ControlPlane, served: str) -> Iterator[str]:
    """The address of an administrator's own page."""
    del served
    with page_of("--kubeconfig", str(control_plane.kubeconfig)) as address:
        yield address


@pytest.mark.parametrize("source", ["served", "own"])
def test_an_open_page_follows_a_pod_from_its_creation_to_its_end(
    source: str, request: pytest.FixtureRequest, pods: Pods, browser_page: Page
) -> None:
    address: str = request.getfixturevalue(source)
    page = browser_page
    page.goto(f"{address}/pods?q={pods.namespace}")
    expect(page.locator("#live")).to_have_text("live")
    pods.create(pod("first", cpu=12))
    row = page.locator("tbody tr", has=page.get_by_role("rowheader", name=f"{pods.namespace}/first"))
    expect(row).to_contain_text("Bound")
    node, (numa,) = pods.allocation("first")
    expect(row).to_contain_text(node)
    expect(row).to_contain_text(f"{numa}: 12 cpu")
    pods.create(pod("second", cpu=12))
    waiting = page.locator("tbody tr", has=page.get_by_role("rowheader", name=f"{pods.namespace}/second"))
    expect(waiting).to_contain_text("Waiting")
    expect(waiting).to_contain_text("none of 1 node fits now")
    pods.delete("first")
    expect(row).to_have_count(0)
    expect(waiting).to_have_count(1)


def test_a_replica_and_a_users_own_page_show_the_same_numbers(
    served: str, own: str, pods: Pods, browser_page: Page
) -> None:
    pods.create(pod("same", cpu=12))
    pods.wait_until_bound("same")
    page = browser_page
    seen = []
    for address in (served, own):
        page.goto(f"{address}/domains")
        row = page.locator("tbody tr").first
        expect(row).to_contain_text("12 of 16 used")
        seen.append(row.inner_text())
    assert seen[0] == seen[1]


def test_the_map_follows_a_pod_and_what_was_asked_is_answered_anew(served: str, pods: Pods, browser_page: Page) -> None:
    page = browser_page
    page.goto(f"{served}/?fit=8+cpu,+1Gi")
    tile, answer = page.locator('a.tile[aria-label^="page-0000:"]'), page.locator("#answer")
    expect(tile).to_have_attribute("aria-label", "page-0000: 0 of 16 cpu used; NUMA 0 0 of 16; fits, NUMA 0")
    expect(answer).to_contain_text("fits. SingleNUMANode: 1 of")
    pods.create(pod("large", cpu=12))
    expect(tile).to_have_attribute("aria-label", re.compile("12 of 16 cpu used; NUMA 0 12 of 16; does not fit: "))
    expect(answer).to_contain_text("does not fit now. SingleNUMANode: none of")
    pods.create(pod("waits", cpu=8))
    rail = page.get_by_role("complementary", name="Waiting")
    rail.get_by_role("link", name=f"{pods.namespace}/waits").click()
    expect(page.get_by_role("heading", level=1)).to_have_text(f"Pod {pods.namespace}/waits")
    # A review of the real pod says what the map said about the one that was only imagined.
    expect(page.locator("dd.text").first).to_contain_text("SingleNUMANode: none of")


def test_what_may_not_be_read_is_named(control_plane: ControlPlane, pods: Pods, browser_page: Page) -> None:
    tenant = control_plane.service_account_kubeconfig(pods.namespace, "default")
    with page_of("--kubeconfig", str(tenant)) as address:
        browser_page.goto(f"{address}/pods")
        problem = browser_page.get_by_role("alert").filter(has_text="pods cannot be read")
        browser_page.reload()
        expect(problem.first).to_contain_text("forbidden")
