"""Of devices that pods request by several names, each name counts what upstream's allocator leaves for one pod more."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from hypothesis import given
from hypothesis import strategies as st

from tests.builders.clusters import cluster_cache, put
from tests.builders.devices import (
    DRIVER,
    NUMA,
    claim,
    claim_template,
    device_class,
    gpus,
    match,
    request,
    resource_slice,
    result,
)
from tests.builders.nodes import node
from tests.builders.pods import bound, created
from tests.property.exhaustive_allocation import Exhaustive
from webhook.engine.dra.device_pools import DeviceInventory
from webhook.formats.dra import Claim, DeviceClass, Slice
from webhook.formats.kubernetes.pod import Pod
from webhook.state.assumed.assumed_pod import AssumedPod
from webhook.state.cluster_cache import ClusterCache
from webhook.state.devices import with_claims

GPU: Final = "nvidia.com/gpu"
OF_CLASS: Final = f"deviceclass.resource.kubernetes.io/{DRIVER}"
CLASS: Final = device_class(resource=GPU)
CLASSES: Final = {DRIVER: DeviceClass.from_object(CLASS)}
NEAR: Final = 'device.attributes["resource.kubernetes.io"].?numaNode.orValue(7) == 1'
TEMPLATES: Final = {
    "one": claim_template("one"),
    "near": claim_template("near", [request("gpu", 1, NEAR)]),
    "pair": claim_template("pair", [request("gpu", 2)], constraints=[match(NUMA)]),
    "mixed": claim_template("mixed", [request("a", 1, NEAR), request("b")]),
}
EXTENDED: Final = {"gpus": {GPU: 1}, "of class": {OF_CLASS: 2}, "both": {GPU: 1, OF_CLASS: 1}}
MOST: Final = 5

machines = st.lists(
    st.tuples(st.lists(st.sampled_from([0, 1, 1, None]), max_size=MOST), st.sampled_from([0, 0, 2])),
    min_size=1,
    max_size=2,
)
kinds = st.sampled_from([*EXTENDED, *TEMPLATES])
stages = st.sampled_from(["in flight", "in flight", "bound", "left over"])
arrivals = st.lists(st.tuples(kinds, st.integers(0, 1), stages), max_size=6)


class Upstream:
    """The devices as kube-scheduler sees them once it has allocated those of all pods so far."""

    def __init__(self, slices: Iterable[Slice]) -> None:
        self.inventory = DeviceInventory()
        for one in slices:
            self.inventory.put_slice(one)

    def allocate(self, where: str, raw: Mapping[str, Any]) -> dict[str, Any] | None:
        """The claim with the devices that it gets on the node; None if it gets none."""
        wanted = Claim.from_object(raw)
        devices = Exhaustive(self.inventory.on(where, {}), [wanted], CLASSES).first()
        if devices is None:
            return None
        names = iter(devices[0])
        results = [
            result(next(names), pool=where, request=one.name)
            for one in wanted.spec.requests
            for _ in range(one.count or 0)
        ]
        allocated = {**raw, "status": {"allocation": {"devices": {"results": results}}}}
        self.inventory.put_claim(Claim.from_object(allocated))
        return allocated

    def how_many(self, where: str, spec: Any) -> int:
        """How many pods with such a claim the node takes, one after the other."""
        made: list[str] = []
        while (one := self.allocate(where, {**claim(f"more-{len(made)}"), "spec": spec})) is not None:
            made.append(Claim.from_object(one).key)
        for key in made:
            self.inventory.remove_claim(key)
        return len(made)


def free(cache: ClusterCache, name: str, resource: str) -> int:
    arrays = cache.snapshot().nodes.covering([resource])
    row = arrays.node_arrays.resources.find(resource)
    return 0 if row < 0 else max(0, int(arrays.node_free(row)[arrays.node_arrays.index[name]]))


def requested(kind: str, plugin: int, pod: str) -> dict[str, Any]:
    """The claim that kube-scheduler or kube-controller-manager makes for the pod."""
    if template := TEMPLATES.get(kind):
        raw = claim(f"{pod}-claim", owner=pod)
        return {**raw, "spec": template["spec"]["spec"]}
    amounts = {one: count for one, count in EXTENDED[kind].items() if one != GPU or not plugin}
    wanted = [request(f"container-0-request-{at}", count) for at, count in enumerate(amounts.values())]
    return claim(f"{pod}-claim", wanted, owner=pod, extended=True)


@given(machines, arrivals)
def test_each_name_of_a_device_counts_what_is_left_beside_the_pods_of_all_names(
    kinds_of_nodes: list[tuple[list[int | None], int]], pods: list[tuple[str, int, str]]
) -> None:
    slices = {f"n{at}": resource_slice(f"n{at}", gpus(*zones)) for at, (zones, _) in enumerate(kinds_of_nodes)}
    plugins = {f"n{at}": count for at, (_, count) in enumerate(kinds_of_nodes)}
    left_by_plugin = dict(plugins)
    nodes = [node(name=name, devices={GPU: count} if count else None) for name, count in plugins.items()]
    cache = cluster_cache(*nodes, *slices.values(), CLASS, *TEMPLATES.values())
    upstream = Upstream(map(Slice.from_object, slices.values()))
    for at, (kind, where, stage) in enumerate(pods):
        name, on = f"p{at}", f"n{where % len(nodes)}"
        of_plugin = EXTENDED.get(kind, {}).get(GPU, 0) if plugins[on] else 0
        made = upstream.allocate(on, requested(kind, plugins[on], name)) if of_plugin <= left_by_plugin[on] else None
        if made is None:
            continue
        how: dict[str, Any] = {"devices": EXTENDED.get(kind, {})}
        if kind in TEMPLATES:
            how = {"resourceClaims": [{"name": "c", "resourceClaimTemplateName": kind}]}
        raw = created(name=name, **how)
        if stage == "in flight":
            pod = with_claims(Pod.from_object(raw), raw, cache.devices)
            cache.assume(AssumedPod(pod.key, pod.uid, on, {}, pod.requests, None, 1e12))
        else:
            put(cache, made)
        if stage == "bound":
            put(cache, bound(name=name, node=on, **how))
        if stage != "left over":
            left_by_plugin[on] -= of_plugin

    for name, plugin in plugins.items():
        left = upstream.how_many(name, claim()["spec"])
        assert free(cache, name, OF_CLASS) == left
        assert free(cache, name, GPU) == (left_by_plugin[name] if plugin else left)
        for kind, template in TEMPLATES.items():
            entries = {"spec": {"resourceClaims": [{"name": "c", "resourceClaimTemplateName": kind}]}}
            amounts = cache.devices.claimed(entries, "default").amounts
            counted = min(free(cache, name, resource) // count for resource, count in amounts.items())
            assert counted == upstream.how_many(name, template["spec"]["spec"]), kind
