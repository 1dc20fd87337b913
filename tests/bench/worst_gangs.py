"""Gangs whose pods have as many preferences as allowed, for as many different nodes as allowed."""

from collections.abc import Iterator

from tests.bench.worst_cluster import ASKS_FOR_A_RACK, Raw
from tests.bench.worst_objects import SINGLE, Worst, expression, pod, preferred
from webhook.model.limits import MAX_REQUIREMENTS, MAX_TERMS, MAX_VALUES
from webhook.model.names import POD_GROUP_NAME

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


def _terms(terms: int, requirements: int, values: int, last: str) -> list[Raw]:
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


def _gang(preferences: list[list[Raw]]) -> Raw:
    members = []
    for number, terms in enumerate(preferences):
        member = pod(ASKS_FOR_A_RACK | SINGLE | {POD_GROUP_NAME: "gang"}, affinity=preferred(*terms))
        member["metadata"] |= {"name": f"p-{number}", "uid": f"u-{number}"}
        member["spec"]["schedulingGates"] = [{"name": "topology-webhook.dev/placement"}]
        members.append(member)
    return {"items": members}
