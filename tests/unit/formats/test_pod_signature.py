"""Which pods are equal: those that fit on the same nodes, whatever they are called and prefer."""

from typing import Any

import pytest

from tests.builders import pods as builders
from webhook.formats.koordinator.intent import parse_numa_intent
from webhook.formats.kubernetes.pod import Pod
from webhook.formats.kubernetes.pod_signature import pod_signature
from webhook.model.names import NUMA_DEFAULTS

SINGLE = '{"numaTopologyPolicy": "SingleNUMANode"}'
RESTRICTED = '{"numaTopologyPolicy": "Restricted"}'
TERM = {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def signature(container: dict[str, Any] | None = None, spec: str = SINGLE, name: str = "a", **fields: Any) -> Any:
    resources = {"limits": {"cpu": "4", "memory": "1Gi"}, "requests": {"cpu": "4", "memory": "1Gi"}}
    main = {"name": "main", "resources": resources, **(container or {})}
    raw = builders.pod(name=name, numa=spec, annotations=fields.pop("annotations", None), containers=[main], **fields)
    pod = Pod.from_object(raw)
    return pod_signature(pod, parse_numa_intent(pod.annotations)[0])


@pytest.mark.parametrize(
    "changed",
    [
        {"spec": RESTRICTED},
        {"spec": "{}"},
        {"spec": '{"numaTopologyPolicy": "SingleNUMANode", "singleNUMANodeExclusive": "Preferred"}'},
        {"spec": "{}", "annotations": {NUMA_DEFAULTS: SINGLE}},
        {"container": {"resources": {"limits": {"cpu": "4", "memory": "1Gi"}, "requests": {"cpu": "3"}}}},
        {"container": {"resources": {"limits": {"cpu": "4"}}}},
        {"initContainers": [{"name": "init"}]},
        {"initContainers": [{"name": "init", "restartPolicy": "Always"}]},
        {"overhead": {"cpu": "1"}},
        {"resources": {"limits": {"cpu": "8"}}},
        {"nodeSelector": {"disk": "ssd"}},
        {"tolerations": [{"operator": "Exists"}]},
        {
            "affinity": {
                "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [TERM]}}
            }
        },
    ],
)
def test_what_changes_where_a_pod_fits_changes_its_signature(changed: dict[str, Any]) -> None:
    assert signature(**changed) != signature()
    assert signature(**changed) == signature(**changed)


@pytest.mark.parametrize(
    "changed",
    [
        {"name": "b"},
        {"container": {"name": "other", "image": "other"}},
        {"container": {"resources": {"limits": {"memory": "1Gi", "cpu": "4"}}}},  # requests are taken from the limits
        {"container": {"resources": {"limits": {"memory": "1024Mi", "cpu": "4000m"}}}},
        {"priority": 7},
        {
            "affinity": {
                "nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": TERM}]}
            }
        },
    ],
)
def test_names_and_preferences_do_not(changed: dict[str, Any]) -> None:
    assert signature(**changed) == signature()


def test_the_order_of_names_does_not_count() -> None:
    assert signature(nodeSelector={"a": "1", "b": "2"}) == signature(nodeSelector={"b": "2", "a": "1"})
