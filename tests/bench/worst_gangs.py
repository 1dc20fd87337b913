"""Gangs whose pods have as many preferences as allowed, or that many nodes seem to hold and reject."""

from collections.abc import Iterator

from tests.bench.worst_cluster import ASKS_FOR_A_RACK
from tests.bench.worst_objects import RESTRICTED, SINGLE, Worst, apart, container, expression, pod, preferred
from webhook.model.limits import MAX_REQUIREMENTS, MAX_TERMS, MAX_VALUES
from webhook.model.names import POD_GROUP_NAME
from webhook.model.raw import Draft

_MEMBERS = 512
_KEYS = ("kubernetes.io/hostname", "rack", "zone")


def gangs() -> Iterator[Worst]:
    """Lists of the pods of one gang each."""
    values = MAX_VALUES // MAX_REQUIREMENTS
    alike = [_terms(MAX_TERMS, MAX_REQUIREMENTS // MAX_TERMS, values, "v")] * 64
    yield Worst("gang of 64 pods that prefer the most terms", ("gang",), _gang(alike))
    each = [_terms(1, 15, 1, f"v{number}") for number in range(_MEMBERS)]
    yield Worst("gang of 512 pods that each prefer 15 requirements of their own", ("gang",), _gang(each))
    most = [_terms(MAX_TERMS, 1, 1, f"v{number}") for number in range(64)]
    yield Worst("gang of 64 pods that each prefer the most terms of their own", ("gang",), _gang(most))
    wide = [container(f"a{number}", cpu="20", memory="8Gi") for number in range(2)]
    narrow = [container(f"b{number}", cpu="1", memory="1Gi") for number in range(50)]
    for containers in (wide, [*wide, *narrow]):
        name = f"gang of one pod of {len(containers)} containers that restricted nodes reject one by one"
        yield Worst(name, ("gang",), {"items": [_member(0, pod(ASKS_FOR_A_RACK | RESTRICTED, containers))]})
    yield from _excluding()


def _excluding() -> Iterator[Worst]:
    """Gangs whose pods keep each other off their nodes."""
    for number, count in ((1, 20_000), (16, 1_200)):
        expressions = [expression(f"k{key}", "DoesNotExist") for key in range(count)]
        alone = pod(ASKS_FOR_A_RACK | SINGLE, **apart(*[expressions] * number))
        plain = [pod(ASKS_FOR_A_RACK | SINGLE) for _ in range(_MEMBERS - 1)]
        name = f"gang of {_MEMBERS} pods of which one excludes others by {number} x {count} requirements"
        yield Worst(name, ("gang",), {"items": [_member(at, raw) for at, raw in enumerate([alone, *plain])]})
    shared = [
        [{"hostPort": 80, "hostIP": f"10.0.{part // 250}.{part % 250}"} for part in range(500) if hash((part, at)) % 2]
        for at in range(50)
    ]
    own = [[{"hostPort": 1 + (500 * at + part) % 65_000} for part in range(500)] for at in range(50)]
    for what, ports in (("share", shared), ("do not share", own)):
        pods = [pod(ASKS_FOR_A_RACK | SINGLE) for _ in ports]
        for raw, held in zip(pods, ports, strict=True):
            raw["spec"]["containers"][0]["ports"] = held
        name = f"gang of {len(pods)} pods with 500 host ports that they {what}"
        yield Worst(name, ("gang",), {"items": [_member(at, raw) for at, raw in enumerate(pods)]})


def _terms(terms: int, requirements: int, values: int, last: str) -> list[Draft]:
    """Terms that differ from those of other pods in the last value only, so that a comparison reads all of them."""
    made = [
        {
            "matchExpressions": [
                expression(_KEYS[(term + number) % len(_KEYS)], "NotIn", *(f"v{value}" for value in range(values)))
                for number in range(requirements)
            ]
        }
        for term in range(terms)
    ]
    made[-1]["matchExpressions"][-1]["values"][-1] = last
    return made


def _gang(preferences: list[list[Draft]]) -> Draft:
    pods = [pod(ASKS_FOR_A_RACK | SINGLE, affinity=preferred(*terms)) for terms in preferences]
    return {"items": [_member(number, raw) for number, raw in enumerate(pods)]}


def _member(number: int, raw: Draft) -> Draft:
    raw["metadata"] |= {"name": f"p-{number}", "uid": f"u-{number}"}
    raw["metadata"]["annotations"] = {**raw["metadata"]["annotations"], POD_GROUP_NAME: "gang"}
    raw["spec"]["schedulingGates"] = [{"name": "topology-webhook.dev/placement"}]
    return raw
