"""The view of one node, from the application without a browser."""

import re

from aiohttp.test_utils import TestClient, TestServer

from tests.builders.clusters import cluster_cache
from tests.builders.devices import claim, device_class, gpus, resource_slice
from tests.builders.nodes import node, nrt
from webhook.page.app import Source, page_app
from webhook.placing.planner import Planner
from webhook.state.rules import Rules


async def test_devices_are_shown_by_numa_node_with_the_claims_that_hold_them() -> None:
    held = claim(name="<b>", node="n0", devices=["gpu-1"])
    offered = resource_slice("n0", gpus(0, 1, None))
    cache = cluster_cache(node(name="n0"), nrt(node="n0", free=(16, 16)), offered, device_class(), held)
    cache.snapshot()
    async with TestClient(TestServer(page_app(Source(Planner(cache, Rules()), "test", lambda: ())))) as client:
        html = await (await client.get("/nodes/n0", headers={"Host": "localhost"})).text()
    text = re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", html))
    for part in (
        "NUMA node 0 .* Devices in ResourceSlices gpu.example.com gpu-0 free",
        "NUMA node 1 .* gpu.example.com gpu-1 held by default/&lt;b&gt;",
        "Devices without a known NUMA node gpu.example.com gpu-2 free",
    ):
        assert re.search(part, text), part
