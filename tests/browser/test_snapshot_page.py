"""The page of a snapshot in a real browser: clicked through, at 20 and 5,000 nodes, by keyboard, in both schemes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from tests.browser.clusters import snapshot
from tests.browser.page_process import page_of
from tests.browser.screenshots import BUSY, IMAGES, SHOTS, take

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from playwright.sync_api import Browser, Locator, Page

VIEWS = ("/", "/domains", "/waiting", "/gangs", "/pods")


@pytest.fixture(scope="module", params=[20, 5000], ids=lambda nodes: f"{nodes}-nodes")
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, int]]:
    """The address of the page, and the number of nodes."""
    nodes = int(request.param)
    with page_of("--cluster", str(snapshot(tmp_path_factory.mktemp("page"), nodes))) as address:
        yield address, nodes


def cells(page: Page, row: str) -> list[str]:
    """The texts of a row, found by its first cell."""
    found = page.locator("tbody tr", has=page.get_by_role("rowheader", name=row))
    return [" ".join(text.split()) for text in found.first.locator("th, td").all_inner_texts()]


def tile(page: Page, start: str) -> Locator:
    """The tile whose label begins so."""
    return page.locator(f'a.tile[aria-label^="{start}"]')


def test_the_map_shows_every_node_and_leads_to_it(cluster: tuple[str, int], browser_page: Page) -> None:
    address, nodes = cluster
    page = browser_page
    page.goto(f"{address}/")
    expect(page.locator(".counts")).to_contain_text(re.compile(f"Nodes\\s*{nodes:,}"))
    if nodes > 1200:  # each rack is a tile then, and leads to the map of its nodes
        expect(page.locator("a.tile")).to_have_count(nodes // 16 + 2)
        tile(page, "rack-0: 16 nodes; 48 of 512 cpu used").click()
    expect(page.locator("a.tile")).to_have_count(min(nodes, 16 if nodes > 1200 else 20))
    first = tile(page, "node-0000:")
    first.hover()
    expect(page.locator("#tile")).to_have_text(
        "node-0000: 8 of 32 cpu used; NUMA 0 8 of 16, NUMA 1 0 of 16; gangs default/train-0 (1)"
    )
    first.click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Node node-0000")


def test_arrow_keys_go_from_tile_to_tile(cluster: tuple[str, int], browser_page: Page) -> None:
    page = browser_page
    page.goto(f"{cluster[0]}/?in=zone-0&in=rack-0")
    tile(page, "node-0000:").focus()
    page.keyboard.press("ArrowRight")
    expect(tile(page, "node-0001:")).to_be_focused()
    expect(page.locator("#tile")).to_contain_text("node-0001: 0 of 32 cpu used")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowDown")
    expect(tile(page, "node-0000:")).not_to_be_focused()
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("Node node-0000")


def test_a_question_is_answered_on_the_map(cluster: tuple[str, int], browser_page: Page) -> None:
    address, nodes = cluster
    page = browser_page
    page.goto(f"{address}/")
    page.keyboard.press("/")
    page.keyboard.type("16 cpu")
    page.get_by_label("pods").fill("4")
    page.get_by_label("together in").select_option("one rack")
    page.get_by_role("button", name="Show").click()
    expect(page.locator("#answer")).to_contain_text(
        "16 cpu, 1Gi memory: fits. gang asked-for: 4 pods on 2 nodes in rack"
    )
    if nodes == 20:
        expect(page.locator('a.tile[aria-label*="pods here"]')).to_have_count(2)
        expect(page.locator("a.tile.unfit")).to_have_count(18)
    page.get_by_role("link", name="memory").click()
    expect(page.locator("#answer")).to_contain_text("gang asked-for")


def test_the_colour_of_one_gang_stands_out(cluster: tuple[str, int], browser_page: Page) -> None:
    page = browser_page
    page.goto(f"{cluster[0]}/")
    expect(page.locator("path.gang")).to_have_count(0)
    page.get_by_role("link", name="Gangs", exact=True).last.click()
    page.locator("a[data-gang]").first.hover()
    for path in page.locator("path.gang").all():
        name = path.get_attribute("class") or ""
        assert ("dim" in name) == ("c0" not in name)
    page.locator("h1").evaluate("() => document.activeElement.blur()")
    page.mouse.move(0, 0)
    expect(page.locator("path.gang.dim")).to_have_count(0)


def test_what_is_read_again_keeps_the_focus_and_its_numbers(cluster: tuple[str, int], browser_page: Page) -> None:
    page = browser_page
    page.goto(f"{cluster[0]}/?in=zone-0&in=rack-0")
    first = tile(page, "node-0000:")
    first.focus()
    page.locator("#tile").evaluate("element => { element.dataset.old = 'yes'; }")
    with page.expect_response("**/?in=zone-0&in=rack-0"):
        page.evaluate("htmx.trigger('#view', 'refresh')")
    expect(page.locator("#tile[data-old]")).to_have_count(0)
    expect(first).to_be_focused()
    expect(page.locator("#tile")).to_contain_text("node-0000: 8 of 32 cpu used")


def test_1000_nodes_are_on_one_screen(browser_page: Page, tmp_path: Path) -> None:
    with page_of("--cluster", str(snapshot(tmp_path, 1000))) as address:
        browser_page.goto(f"{address}/")
        expect(browser_page.locator("a.tile")).to_have_count(1000)
        last = browser_page.locator("a.tile").last.bounding_box()
        assert last is not None
        assert last["y"] + last["height"] <= 800


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/?fit=8+cpu&pods=9&within=example.com/rack&colours=gangs",
        *VIEWS[1:],
        "/nodes/node-0003",
        "/gang?q=default/train-0",
        "/pods/default/big-0",
    ],
)
def test_a_phone_shows_all_of_a_row(
    cluster: tuple[str, int], browser_page: Page, axe: Callable[[Page], list[str]], path: str
) -> None:
    page = browser_page
    page.set_viewport_size({"width": 390, "height": 800})
    page.goto(cluster[0] + path)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    if cluster[1] == 20:
        assert axe(page) == []
    if path == "/waiting":
        why = page.locator("tbody tr").first.locator("td.text")
        box = why.bounding_box()
        assert box is not None
        assert box["x"] + box["width"] <= 390
        expect(why).to_contain_text("none of the nodes fits now")


def test_domains_lead_down_to_the_nodes(cluster: tuple[str, int], browser_page: Page) -> None:
    address, nodes = cluster
    page = browser_page
    page.goto(f"{address}/domains")
    half = nodes // 2
    busy = len([number for number in range(half) if number % 3 == 0])
    assert cells(page, "zone-0")[1:3] == [
        f"{half:,}",
        f"{8 * busy:,} of {32 * half:,} used 16 free in one NUMA node",
    ]
    page.get_by_role("link", name="zone-0").click()
    page.get_by_role("link", name="rack-0", exact=True).click()
    expect(page.get_by_role("navigation", name="Path")).to_have_text(re.compile("default . zone-0 . rack-0"))
    assert cells(page, "node-0000")[1:3] == ["1", "8 of 32 used 16 free in one NUMA node"]
    assert cells(page, "node-0001")[1:3] == ["1", "0 of 32 used 16 free in one NUMA node"]
    page.get_by_role("navigation", name="Path").get_by_role("link", name="default").click()
    expect(page.get_by_role("rowheader", name="zone-1")).to_be_visible()


def test_a_node_shows_who_holds_its_numa_nodes(cluster: tuple[str, int], browser_page: Page) -> None:
    page = browser_page
    page.goto(f"{cluster[0]}/pods?q=node-0003")
    page.get_by_role("link", name="node-0003").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Node node-0003")
    zones = page.locator("ul.numa > li")
    expect(zones).to_have_count(2)
    expect(zones.nth(0)).to_contain_text("8 of 16 used")
    expect(zones.nth(0).get_by_role("link")).to_have_text("default/pod-0003")
    expect(zones.nth(1)).to_contain_text("0 of 16 used")
    expect(zones.nth(1)).to_contain_text("no pod with a known NUMA node")


def test_pods_are_found_by_typing(cluster: tuple[str, int], browser_page: Page) -> None:
    address, nodes = cluster
    page = browser_page
    page.goto(f"{address}/pods")
    bound = len(range(0, nodes, 3))
    expect(page.locator("#view").get_by_role("status")).to_have_text(f"{bound + 5:,} of {bound + 5:,} pods")
    page.keyboard.press("/")
    page.keyboard.type("node-0003 bound")
    expect(page.locator("#view").get_by_role("status")).to_have_text(f"1 of {bound + 5:,} pods")
    assert cells(page, "default/pod-0003") == [
        "default/pod-0003", "Bound", "node-0003", "0: 8 cpu", "train-0", "3", "8 cpu, 1Gi memory",
    ]  # fmt: skip
    assert page.url.endswith("/pods?q=node-0003%20bound")
    page.reload()
    expect(page.locator("#view").get_by_role("status")).to_have_text(f"1 of {bound + 5:,} pods")
    page.get_by_role("searchbox").fill("big-4")
    expect(page.get_by_role("rowheader", name="default/big-4")).to_be_visible()
    assert cells(page, "default/big-4")[1:] == [
        "Waiting", "", "", "", "", "waiting: SingleNUMANode: none of the nodes fits now",
    ]  # fmt: skip


def test_a_long_table_comes_in_parts(cluster: tuple[str, int], browser_page: Page) -> None:
    address, nodes = cluster
    browser_page.goto(f"{address}/pods?q=bound")
    following = browser_page.get_by_role("link", name="Next")
    if nodes == 20:
        expect(following).to_have_count(0)
        return
    following.click()
    expect(browser_page.get_by_role("navigation", name="Parts of the table")).to_contain_text("101 to 200 of 1,667")
    expect(browser_page.locator("tbody tr")).to_have_count(100)


def test_what_waits_says_why(cluster: tuple[str, int], browser_page: Page) -> None:
    page = browser_page
    page.goto(f"{cluster[0]}/waiting")
    expect(page.locator("#view").get_by_role("status")).to_have_text("5 waiting pods")
    assert cells(page, "default/big-0")[1:3] == ["1", ""]
    assert cells(page, "default/big-0")[4:] == ["the service", "waiting: SingleNUMANode: none of the nodes fits now"]


def test_gangs_are_listed_with_their_pods(cluster: tuple[str, int], browser_page: Page) -> None:
    address, nodes = cluster
    page = browser_page
    page.goto(f"{address}/gangs")
    size = min(16, len(range(0, nodes, 3)))
    assert cells(page, "default/train-0")[1:4] == [str(size), "0", str(size)]
    page.get_by_role("link", name="default/train-0", exact=True).click()
    page.get_by_role("link", name="pod-0000", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Pod default/pod-0000")
    page.get_by_role("link", name="node-0000").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Node node-0000")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_fault(
    cluster: tuple[str, int], browser_page: Page, axe: Callable[[Page], list[str]], scheme: str
) -> None:
    address, nodes = cluster
    browser_page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
    # All parts of a view are in the small cluster. In the large one, tables are long.
    paths = (
        [
            *VIEWS,
            "/?fit=8+cpu&colours=gangs",
            "/?fit=8+cpu&pods=9&within=example.com/rack",
            "/?fit=nothing",
            "/domains?in=zone-0",
            "/nodes/node-0003",
            "/gang?q=default/train-0",
            "/pods?q=nothing",
            "/pods/default/pod-0003",
            "/pods/default/big-0",
        ]
        if nodes == 20
        else ["/", "/pods"]
    )
    for path in paths:
        browser_page.goto(address + path)
        assert axe(browser_page) == [], path


def test_the_keyboard_reaches_every_view(cluster: tuple[str, int], browser_page: Page) -> None:
    browser_page.goto(f"{cluster[0]}/")
    for number, path in enumerate(VIEWS, 1):
        with browser_page.expect_navigation(url=f"**{path}"):
            browser_page.keyboard.press(str(number))
    browser_page.keyboard.press("Tab")
    expect(browser_page.get_by_role("link", name="Skip to content")).to_be_focused()


def test_what_does_not_exist_is_answered_with_a_sentence(cluster: tuple[str, int], browser_page: Page) -> None:
    for path, text in (
        ("/?topology=x", "There is no Topology 'x'."),
        ("/nodes/x", "There is no Node 'x'."),
        ("/domains?in=zone-9", "There is no domain 'zone-9' any more."),
    ):
        response = browser_page.request.get(cluster[0] + path)
        assert (response.status, response.text()) == (404, f"{text}\n")


def test_the_pictures_of_the_docs_can_be_renewed(chromium: Browser, tmp_path: Path) -> None:
    take(chromium, tmp_path)
    text = (IMAGES.parent / "page.md").read_text()
    for name in SHOTS:
        assert (tmp_path / name).stat().st_size > 10_000  # more than an empty page
        assert (IMAGES / name).is_file()
        assert f"(images/{name})" in text


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_fault_in_the_example_of_a_busy_cluster(
    browser_page: Page, axe: Callable[[Page], list[str]], scheme: str, width: int
) -> None:
    browser_page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
    browser_page.set_viewport_size({"width": width, "height": 800})
    with page_of("--cluster", str(BUSY)) as address:
        for path in (
            "/?colours=gangs&fit=4+cpu,+1+gpu",
            "/domains",
            "/waiting",
            "/gangs",
            "/gang?q=research/pg-train-qaakq",
            "/pods",
            "/pods/render/frames-1",
            "/nodes/dra-52",
        ):
            assert browser_page.goto(address + path).ok  # type: ignore[union-attr] # it is another page
            assert axe(browser_page) == [], path
            assert browser_page.evaluate("document.documentElement.scrollWidth") <= width, path
