"""The view of a gang, from the application without a browser: the members of tests/unit/views/racks.py by rank."""

import re

from aiohttp.test_utils import TestClient, TestServer

from tests.builders.clusters import cluster_cache
from tests.builders.pods import bound
from tests.unit.views.racks import cluster
from webhook.page.app import Source, page_app
from webhook.placing.planner import Planner
from webhook.state.rules import Rules


async def answers(*paths: str) -> list[tuple[int, str]]:
    evil = bound(name="evil-0", node="n0", cpu=1, numa=None, group="<script>/&?q=x")
    app = page_app(Source(Planner(cluster_cache(*cluster(), evil), Rules()), "test", lambda: ()))
    async with TestClient(TestServer(app)) as client:
        found = [await client.get(path, headers={"Host": "localhost"}) for path in paths]
        return [(each.status, await each.text()) for each in found]


def rows(html: str) -> list[list[str]]:
    body = html.partition("<tbody>")[2].partition("</tbody>")[0]
    cells = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.DOTALL) for row in body.split("</tr>")[:-1]]
    return [
        [
            re.sub(r"<[^>]*>", "", cell).replace("\N{SINGLE RIGHT-POINTING ANGLE QUOTATION MARK}", ">").strip()
            for cell in row
        ]
        for row in cells
    ]


async def test_the_members_are_listed_by_rank_with_their_distances() -> None:
    ((status, html),) = await answers("/gang?q=default/train")
    assert status == 200
    assert rows(html) == [
        ["train-0", "0", "n0", "", "zone-a > rack-1", ""],
        ["train-1", "1", "n1", "", "zone-a > rack-1", "1"],
        ["train-2", "2", "n3", "", "zone-b > rack-1", "3"],
    ]
    assert "of 2 neighbours in rank 0 share the node, 1 share example.com/rack" in html


async def test_the_list_of_gangs_leads_to_each_of_them() -> None:
    ((_, html),) = await answers("/gangs")
    links = [link.replace("&amp;", "&") for link in re.findall(r'href="(/gang\?[^"]*)"', html)]
    assert len(links) == 3
    found = await answers(*links)
    assert {status for status, _ in found} == {200}
    assert all("<script>/" not in text for _, text in found)


async def test_a_gang_without_members_is_not_found() -> None:
    ((status, text),) = await answers("/gang?q=default/none")
    assert (status, text) == (404, "There is no gang 'default/none'.\n")
