"""Pods with each of their fields at its maximum."""

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

from tests.bench.worst_cluster import ASKS_FOR_A_RACK
from tests.bench.worst_objects import (
    BEST_EFFORT,
    NO_POLICY,
    POD_WAYS,
    RESTRICTED,
    SINGLE,
    Worst,
    apart,
    container,
    expression,
    nested,
    pod,
    preferred,
    required,
)
from webhook.model.names import INHERIT, INJECT_ENV, MANAGED_FIELDS, NUMA_TOPOLOGY_SPEC, POD_GROUP_NAME

if TYPE_CHECKING:
    from webhook.model.raw import Draft


def pods() -> Iterator[Worst]:  # noqa: PLR0915 # a list of cases
    """Pods."""
    distinct = [container(f"c{n}", **{f"example.com/r{n}": "1"}) for n in range(8_000)]
    yield Worst("pod of 8000 containers with 8000 distinct resources", POD_WAYS, pod(containers=distinct))
    yield Worst("unmanaged pod of 8000 containers with 8000 distinct resources", ("mutate", "feed"), pod({}, distinct))
    guaranteed = [container(f"c{n}", cpu="1", memory="1Gi") for n in range(8_000)]
    for name, policy in (
        ("SingleNUMANode", SINGLE),
        ("Restricted", RESTRICTED),
        ("BestEffort", BEST_EFFORT),
        ("no policy", NO_POLICY),
    ):
        yield Worst(f"pod of 8000 containers, {name}", POD_WAYS, pod(policy, guaranteed))
        few = [container(f"c{n}", cpu="1", memory="1Gi", **{"nvidia.com/gpu": "1"}) for n in range(64)]
        yield Worst(f"pod of 64 containers, {name}", POD_WAYS, pod(policy, few))
        larger = [container(f"c{n}", cpu="20", memory="80Gi", **{"nvidia.com/gpu": "2"}) for n in range(64)]
        yield Worst(f"pod of 64 containers that need two NUMA nodes each, {name}", POD_WAYS, pod(policy, larger))
        init = [container(f"c{n}", cpu=str(n % 40 + 1), memory="1Gi") for n in range(64)]
        yield Worst(f"pod of 64 init containers, {name}", POD_WAYS, pod(policy, initContainers=init))
    wide = container(**{f"example.com/r{n}": "1" for n in range(40_000)})
    yield Worst("pod of one container with 40000 distinct resources", POD_WAYS, pod(containers=[wide]))
    yield Worst(
        "pod with 40000 resources at pod level",
        POD_WAYS,
        pod(resources={"requests": {f"example.com/r{n}": "1" for n in range(40_000)}}),
    )
    yield Worst(
        "pod with 40000 resources of overhead",
        POD_WAYS,
        pod(overhead={f"example.com/r{n}": "1" for n in range(40_000)}),
    )
    gang = ASKS_FOR_A_RACK | {POD_GROUP_NAME: "gang"}
    yield Worst("pod of a gang with 20000 rules about others", POD_WAYS, pod(gang, **apart(*[[]] * 20_000)))
    one = [expression(f"k{n}", "DoesNotExist") for n in range(40_000)]
    yield Worst("pod of a gang with a rule of 40000 requirements", POD_WAYS, pod(gang, **apart(one)))
    ports = [{**container("c"), "ports": [{"hostPort": n + 1} for n in range(40_000)]}]
    yield Worst("pod of a gang with 40000 host ports", POD_WAYS, pod(gang, ports))
    bad = container(**{f"example.com/r{n}": "x" for n in range(40_000)})
    yield Worst("pod with 40000 faulty quantities", POD_WAYS, pod(containers=[bad]))
    digits = container(cpu="9" * 100_000, memory="1e" + "9" * 100_000)
    yield Worst("pod with a quantity of 100000 digits", POD_WAYS, pod(containers=[digits]))
    yield Worst(
        "pod with a resource name of 1000000 characters",
        POD_WAYS,
        pod(containers=[container(**{"x/" + "r" * 1_000_000: "1"})]),
    )
    yield Worst(
        "pod with a number of 30 digits for a quantity",
        POD_WAYS,
        pod(containers=[{"name": "c", "resources": {"requests": {"cpu": 10**30}}}]),
    )
    terms = [{"matchExpressions": [expression(f"k{n}", "NotIn", "a")]} for n in range(20_000)]
    yield Worst("pod with 20000 required terms", POD_WAYS, pod(affinity=required(*terms)))
    empty: list[Draft] = [{} for _ in range(200_000)]
    yield Worst("pod with 200000 empty required terms", POD_WAYS, pod(affinity=required(*empty)))
    expressions = [expression(f"k{n}", "DoesNotExist") for n in range(20_000)]
    yield Worst(
        "pod with 20000 expressions in a term", POD_WAYS, pod(affinity=required({"matchExpressions": expressions}))
    )
    yield Worst(
        "pod with 20000 expressions on one key",
        POD_WAYS,
        pod(affinity=required({"matchExpressions": [expression("zone", "NotIn", "a")] * 20_000})),
    )
    values = [f"v{n}" for n in range(150_000)]
    yield Worst(
        "pod with 150000 values in an expression",
        POD_WAYS,
        pod(affinity=required({"matchExpressions": [expression("kubernetes.io/hostname", "NotIn", *values)]})),
    )
    gt = [expression("kubernetes.io/hostname", "Gt", str(n)) for n in range(20_000)]
    yield Worst("pod with 20000 comparisons", POD_WAYS, pod(affinity=required({"matchExpressions": gt})))
    fields = [{"matchFields": [expression("metadata.name", "In", f"node-{n}")]} for n in range(20_000)]
    yield Worst("pod with 20000 matchFields", POD_WAYS, pod(affinity=required(*fields)))
    soft = [{"matchExpressions": [expression("zone", "In", "a")]} for _ in range(20_000)]
    yield Worst("pod with 20000 preferred terms", POD_WAYS, pod(affinity=preferred(*soft)))
    yield from _affinities()
    yield Worst(
        "pod with 60000 node selectors", POD_WAYS, pod(nodeSelector={f"key-{n}": "value" for n in range(60_000)})
    )
    tolerations = [{"key": f"k{n}", "operator": "Exists", "effect": "NoSchedule"} for n in range(40_000)]
    yield Worst("pod with 40000 tolerations", POD_WAYS, pod(tolerations=tolerations))
    spread = [{"maxSkew": 1, "topologyKey": f"k{n}", "whenUnsatisfiable": "DoNotSchedule"} for n in range(30_000)]
    yield Worst("pod with 30000 topologySpreadConstraints", POD_WAYS, pod(topologySpreadConstraints=spread))
    yield Worst(
        "pod with 60000 scheduling gates", POD_WAYS, pod(schedulingGates=[{"name": f"g{n}"} for n in range(60_000)])
    )
    references = [{"apiVersion": "v1", "kind": "A", "name": f"o{n}", "uid": str(n)} for n in range(40_000)]
    owned = pod(ASKS_FOR_A_RACK | SINGLE)
    owned["metadata"]["ownerReferences"] = references
    yield Worst("pod with 40000 owners", POD_WAYS, owned)
    yield Worst(
        "pod of 10000 containers with inject-env",
        POD_WAYS,
        pod(SINGLE | {INJECT_ENV: "true"}, [{"name": f"c{n}"} for n in range(10_000)]),
    )
    env = [{"name": f"V{n}", "value": "x"} for n in range(60_000)]
    yield Worst(
        "pod of a container with 60000 variables and inject-env",
        POD_WAYS,
        pod(SINGLE | {INJECT_ENV: "true"}, [{"name": "c", "env": env}]),
    )
    for what, text in annotation_texts():
        yield Worst(f"pod whose annotation is {what}", ("mutate", "validate", "feed"), pod({NUMA_TOPOLOGY_SPEC: text}))
    both = {NUMA_TOPOLOGY_SPEC: nested(60_000), "scheduling.koordinator.sh/resource-spec": nested(60_000)}
    yield Worst("pod with two nested annotations", (*POD_WAYS, "validate"), pod(both))
    yield Worst("pod with inherit of 250000 characters", POD_WAYS, pod(SINGLE | {INHERIT: "x" * 250_000}))
    yield Worst("pod with a group's name of 250000 characters", POD_WAYS, pod(SINGLE | {POD_GROUP_NAME: "x" * 250_000}))
    yield Worst(
        "pod with a topology's name of 120000 characters",
        (*POD_WAYS, "validate"),
        pod({"kai.scheduler/topology": "x" * 120_000, "kai.scheduler/topology-required-placement": "y" * 120_000}),
    )
    yield Worst(
        "pod with a level's name of 250000 characters",
        (*POD_WAYS, "validate"),
        pod({"kai.scheduler/topology": "tree", "kai.scheduler/topology-required-placement": "tree" * 60_000}),
    )
    for what, managed_fields in markers():
        marked = pod(
            SINGLE | {MANAGED_FIELDS: managed_fields},
            affinity=required(*[{"matchExpressions": [expression("zone", "NotIn", str(n))]} for n in range(2_000)]),
        )
        yield Worst(f"pod marked with {what}", POD_WAYS, marked)
    ours = pod(SINGLE | {f"topology-webhook.dev/{n:05}": "x" for n in range(8_000)})
    yield Worst("pod with 8000 forged annotations", (*POD_WAYS, "validate"), ours)
    labelled = pod()
    labelled["metadata"]["labels"] = {f"topology-webhook.dev/{n:05}": "x" for n in range(60_000)}
    yield Worst("pod with 60000 forged labels", (*POD_WAYS, "validate"), labelled)
    numa = {"node": "node-0", "numaNodeResources": [{"node": n, "resources": {"cpu": "1"}} for n in range(5_000)]}
    yield Worst(
        "pod with an allocation of 5000 NUMA nodes",
        POD_WAYS,
        pod(SINGLE | {"topology-webhook.dev/numa": json.dumps(numa)}),
    )
    numa = {"node": "node-0", "numaNodeResources": [{"node": 0, "resources": {f"r/{n}": "1" for n in range(18_000)}}]}
    bound = pod(SINGLE | {"topology-webhook.dev/numa": json.dumps(numa)}, nodeName="node-0")
    yield Worst("bound pod with an allocation of 18000 resources", ("feed",), bound)
    statuses = [
        {"name": f"c{n}", "allocatedResources": {"cpu": "1"}, "resources": {"requests": {"cpu": "2"}}}
        for n in range(8_000)
    ]
    yield Worst(
        "bound pod of 8000 containers being resized",
        ("feed",),
        pod(SINGLE, guaranteed, nodeName="node-0") | {"status": {"containerStatuses": statuses}},
    )
    yield Worst(
        "bound pod of 8000 containers with 8000 distinct resources",
        ("feed", "arrival"),
        pod(SINGLE, distinct, nodeName="node-0"),
    )
    yield Worst(
        "unmanaged bound pod of 8000 Guaranteed containers", ("feed", "arrival"), pod({}, guaranteed, nodeName="node-0")
    )
    conditions = [{"type": "PodScheduled", "status": "False"} for _ in range(40_000)]
    yield Worst("pod with 40000 conditions", ("feed",), pod(nodeName="node-0") | {"status": {"conditions": conditions}})


def _affinities() -> Iterator[Worst]:
    """As many terms, requirements and values as allowed. Some nodes have the keys, or none has."""
    host = "kubernetes.io/hostname"
    for kind, affinity in (("required", required), ("preferred", preferred)):
        foreign = [[expression(f"k{n}-{m}", "NotIn", "a") for m in range(4)] for n in range(256)]
        known = [[expression("rack", "NotIn", f"rack-{n + m}") for m in range(4)] for n in range(256)]
        named = [[expression(host, "In", *[f"node-{64 * n + m}" for m in range(64)])] for n in range(256)]
        compared = [[expression(host, "Gt", str(n + m)) for m in range(4)] for n in range(256)]
        for what, terms in (
            ("on keys that no node has", foreign),
            ("on the rack", known),
            ("with 64 host names each", named),
            ("that compare host names", compared),
        ):
            held = affinity(*({"matchExpressions": term} for term in terms))
            yield Worst(f"pod with 256 {kind} terms {what}", POD_WAYS, pod(affinity=held))
        fields = affinity(*({"matchFields": [expression("metadata.name", "In", f"node-{n}")]} for n in range(256)))
        yield Worst(f"pod with 256 {kind} terms with a node's name each", POD_WAYS, pod(affinity=fields))


def annotation_texts() -> Iterator[tuple[str, str]]:
    """Texts of up to 256 KiB, the maximum for annotations."""
    size = 250_000
    yield "nested 16000 deep", '{"a":' + nested(16_000) + "}"
    yield "nested 120000 deep", nested(120_000)
    yield "40000 unknown fields", "{" + ",".join(f'"f{n}":1' for n in range(25_000)) + "}"
    yield "one field 40000 times", "{" + ",".join('"a":1' for _ in range(40_000)) + "}"
    yield "an unknown field of 250000 characters", json.dumps({"x" * size: 1})
    yield "a policy of 250000 characters", json.dumps({"numaTopologyPolicy": "SingleNUMANode" * 17_000})
    yield (
        "a policy of 250000 distinct characters",
        json.dumps(
            {"numaTopologyPolicy": "".join(chr(0x4E00 + n % 20_000) for n in range(80_000))}, ensure_ascii=False
        ),
    )
    yield "a policy that is a list", '{"numaTopologyPolicy": [' + ",".join("1" for _ in range(100_000)) + "]}"
    yield "a policy of nested lists", '{"numaTopologyPolicy": ' + nested(900) + "}"
    yield "250000 spaces", " " * size
    yield "250000 letters", "x" * size
    yield "250000 open braces", "{" * size
    yield "commas and spaces", '{"a":1' + (", " * 120_000)
    yield "a comma and 250000 spaces", '{"a":1,' + " " * size
    yield "250000 line breaks", "{" + "\n" * size + "x"
    yield "250000 quotes", '"' * size
    yield "backslashes", '{"a":"' + "\\" * size
    yield "a number of 250000 digits", '{"numaTopologyPolicy": ' + "9" * size + "}"
    yield "a float of 250000 digits", '{"numaTopologyPolicy": 0.' + "9" * size + "}"
    yield "an exponent", '{"numaTopologyPolicy": 1e' + "9" * 1000 + "}"
    yield "surrogates", '{"a":"' + "\\ud800" * 40_000 + '"}'
    yield "letters and a colon", "x" * size + ":"
    yield "fields in the wrong case", "{" + ",".join(f'"{_cased(n)}":""' for n in range(10_000)) + "}"


def _cased(number: int) -> str:
    name = "numatopologypolicy"
    return "".join(letter.upper() if number >> bit & 1 else letter for bit, letter in enumerate(name))


def markers() -> Iterator[tuple[str, str]]:
    """Texts that claim to be our record of managed fields."""
    yield "4000 alternatives", json.dumps({"terms": 0, "required": [["00000000"]] * 4_000})
    yield "an alternative of 20000 digests", json.dumps({"terms": 0, "required": [[f"{n:08x}" for n in range(20_000)]]})
    yield "a term count of 4000 digits", '{"terms": ' + "9" * 4_000 + ', "required": [["a"]]}'
    yield "alternatives of single letters", json.dumps({"terms": 0, "required": ["a" * 100_000, "b" * 100_000]})
