"""The map, from the application without a browser: its words, its links, and what a tenant or a visitor may write."""

import re
from html import unescape
from typing import Any

import pytest
from aiohttp.test_utils import TestClient, TestServer

from tests.builders.clusters import cluster_cache, put
from tests.builders.pods import bound, gated, pod
from tests.unit.views.racks import RACK, cluster
from webhook.page.app import Source, page_app
from webhook.placing.planner import Planner
from webhook.state.cluster_cache import ClusterCache
from webhook.state.rules import Rules

EVIL = "<script>alert(1)</script>\"'/&?q=x"


async def get(cache: ClusterCache, *paths: str) -> list[tuple[int, str]]:
    app = page_app(Source(Planner(cache, Rules()), "test", lambda: ()))
    async with TestClient(TestServer(app)) as client:
        found = [await client.get(path, headers={"Host": "localhost"}) for path in paths]
        return [(each.status, await each.text()) for each in found]


async def html(path: str = "/", *more: dict[str, Any]) -> str:
    ((status, text),) = await get(cluster_cache(*cluster(), *more), path)
    assert status == 200
    return text


def labels(text: str) -> list[str]:
    return [unescape(label) for label in re.findall(r'class="tile[^"]*"[^>]* aria-label="([^"]*)"', text)]


def answer_in(text: str) -> str:
    found = re.search(r'id="answer".*?</p>', text)
    return "" if found is None else unescape(re.sub(r"<[^>]*>", "", found[0].partition(">")[2]))


async def test_a_tile_says_its_numbers_in_words() -> None:
    assert labels(await html()) == [
        "n0: 21.5 of 32 cpu used; NUMA 0 8 of 16, NUMA 1 13 of 16; gangs default/train (1)",
        "n1: 16 of 32 cpu used; NUMA 0 16 of 16, NUMA 1 0 of 16; gangs default/train (1), team/other (1)",
        "n2: 0 of 32 cpu used; NUMA 0 0 of 16, NUMA 1 0 of 16; cordoned",
        "n3: 1 of 32 cpu used; NUMA 0 1 of 16, NUMA 1 0 of 16; gangs default/train (1)",
        "n4: 0 of 32 cpu used; NUMA nodes not known",
    ]
    assert labels(await html("/?resource=nvidia.com/gpu"))[0].startswith(
        "n0: 2 of 4 nvidia.com/gpu used; NUMA 0 2 of 2"
    )


async def test_every_link_of_the_map_leads_somewhere() -> None:
    cache = cluster_cache(*cluster(), gated(name="alone", cpu=64), gated(name="member", cpu=64, group="new"))
    ((_, text),) = await get(cache, "/?colours=gangs&fit=8+cpu&resource=memory")
    links = {unescape(link) for link in re.findall(r'href="(/[^"]*)"', text)} - {"/changes"}
    assert {"/nodes/n0", "/gang?q=default%2Ftrain", "/gang?q=default%2Fnew", "/pods/default/alone"} <= links
    # A domain keeps what is shown and asked.
    assert any("in=zone-a&in=rack-1" in link and "fit=8+cpu" in link and "colours=gangs" in link for link in links)
    found = await get(cache, *sorted(links))
    assert {status for status, _ in found} == {200}


async def test_only_one_tile_is_a_tab_stop() -> None:
    assert re.findall(r'class="tile[^"]*"[^>]* tabindex="(-?\d)"', await html()) == ["0", "-1", "-1", "-1", "-1"]


async def test_a_question_is_answered_on_the_tiles() -> None:
    text = await html("/?fit=8+cpu,+2+gpu")
    assert answer_in(text).startswith(
        "8 cpu, 1Gi memory, 2 nvidia.com/gpu: fits. SingleNUMANode: 2 of 5 nodes fit; best n1 (score"
    )
    found = labels(text)
    assert found[1].endswith("; fits, NUMA 1")
    assert found[0].endswith("; does not fit: no single NUMA node with 8 cpu, 1Gi memory, 2 nvidia.com/gpu")
    assert text.count("tile unfit") == 3
    gang = await html(f"/?fit=8+cpu&pods=3&within={RACK}")
    assert answer_in(gang).startswith("8 cpu, 1Gi memory: fits. gang asked-for: 3 pods on 1 node in rack rack-1")
    assert labels(gang)[3].endswith("; 3 pods here, NUMA 0+1")


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("fit=1+cpu&pods=0", "Ask for 1 to 512 pods, not '0'."),
        ("fit=" + "9" * 5000, "This is too long: 256 characters are read."),
        ("fit=1+cpu&numa=x", "'x' is no NUMA policy: SingleNUMANode, Restricted."),
        ("fit=1+cpu&within=%3Cb%3E", "'<b>' is no level of the topology."),
        ("fit=1+%3Cb%3E", "No node offers '<b>'."),
    ],
)
async def test_what_cannot_be_asked_is_said_and_the_map_stays(query: str, text: str) -> None:
    found = await html(f"/?{query}")
    alert = re.search(r'role="alert">(.*?)</p>', found)
    assert alert is not None
    assert text in unescape(alert[1])
    assert "<b>" not in found
    assert len(labels(found)) == 5


@pytest.mark.parametrize(
    "query", ["first=-1", "first=9999999999999", "first=²", "resource=x", "in=zone-9", "topology=x"]
)
async def test_a_wrong_address_is_no_error_of_ours(query: str) -> None:
    ((status, _),) = await get(cluster_cache(*cluster()), f"/?{query}")
    assert status == (404 if query.startswith(("in", "topology")) else 200)


async def test_what_tenants_write_is_text() -> None:
    evil = bound(name="evil", node="n0", cpu=1, numa=None, group=EVIL)
    waiting = gated(name="w", cpu=64, annotations={"topology-webhook.dev/placement": EVIL})
    for path in ("/", "/?colours=gangs", "/domains", "/pods/default/evil", "/pods/default/w", "/waiting"):
        text = await html(path, evil, waiting)
        assert "<script>alert" not in text
        assert not re.search(r'\sstyle=|\son\w+="', text)  # the Content-Security-Policy forbids both


async def test_the_counts_say_what_waits_and_what_was_rejected() -> None:
    cache = ClusterCache(clock=lambda: 1_893_459_600.0)  # 2030-01-01T01:00:00Z
    put(
        cache,
        *cluster(),
        gated(name="a", cpu=64),
        gated(name="b", cpu=64, group="g"),
        gated(name="c", cpu=64, group="g"),
    )
    source = Source(Planner(cache, Rules()), "test", lambda: ())
    rejected = {
        "phase": "Failed",
        "reason": "TopologyAffinityError",
        "message": "x",
        "startTime": "2030-01-01T00:59:00Z",
    }
    for name in ("r0", "r1"):
        failed = {**bound(name=name, node="n0"), "status": rejected}
        put(cache, failed)
    cache.failed_pods.delete("default/r0")
    async with TestClient(TestServer(page_app(source))) as client:
        text = await (await client.get("/", headers={"Host": "localhost"})).text()
    counts = re.findall(r"<dt>(.*?)</dt><dd[^>]*>(.*?)</dd>", text)
    found = {name: " ".join(re.sub(r"<[^>]*>", "", value).split()) for name, value in counts}
    assert found == {
        "Nodes": "5",
        "Take no pods": "1",
        "NUMA nodes not known": "1",
        "Silent exporters": "0",
        "Pods waiting": "3 in 1 gang and alone",
        "Oldest waits for": "1h 0m",
        "Rejected by kubelets, last hour": "2",
    }


async def test_a_gang_of_which_no_pod_has_a_node_has_a_view() -> None:
    text = await html("/gang?q=default/new", gated(name="m0", cpu=64, group="new"))
    assert "1 pod waits" in text
    assert 'href="/pods/default/m0"' in text


async def test_a_pod_has_a_view() -> None:
    cache = cluster_cache(*cluster(), gated(name="w", cpu=64), pod(name="unmanaged", numa=None))
    found = dict(
        zip(
            "abcd", await get(cache, *(f"/pods/default/{name}" for name in ("a0", "train-1", "w", "none"))), strict=True
        )
    )
    texts = {key: re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", text)) for key, (_, text) in found.items()}
    assert [status for status, _ in found.values()] == [200, 200, 200, 404]
    assert "State Bound Node n0" in texts["a"]
    assert "Requests 8 cpu, 1Gi memory, 2 nvidia.com/gpu" in texts["a"]
    assert "Gang default/train , rank 1" in texts["b"]
    assert "State Waiting for" in texts["c"]
    assert "NUMA nodes not known before it has a node" in texts["c"]
    assert texts["d"] == "There is no pod 'default/none' that has or waits for a node. "
