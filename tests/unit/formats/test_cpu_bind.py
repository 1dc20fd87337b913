"""Which pods' CPUs Koordinator binds, and by which policy."""

import pytest

from webhook.formats.koordinator.cpu_bind import CPUBind, CPUBindPolicy, CPUBindSpec, cpu_bind_of, may_be_bound

FULL, SPREAD = CPUBindPolicy.FULL_PCPUS, CPUBindPolicy.SPREAD_BY_PCPUS
LSR = {"koordinator.sh/qosClass": "LSR"}


# Source: koordinator pkg/scheduler/plugins/nodenumaresource AllowUseCPUSet, apis/extension GetPodPriorityClassRaw.
@pytest.mark.parametrize(
    ("labels", "priority", "bound"),
    [
        ({}, 9000, False),
        ({"koordinator.sh/qosClass": "LS"}, 9000, False),
        ({"koordinator.sh/qosClass": "lsr"}, 9000, False),
        (LSR, 0, True),
        ({"koordinator.sh/qosClass": "LSE"}, 0, True),
        (LSR, 9000, True),
        (LSR, 9999, True),
        (LSR, 10000, True),
        (LSR, 8999, True),
        (LSR, 7000, False),
        (LSR, 5999, False),
        (LSR, 3000, False),
        (LSR, 2999, True),
        (LSR, 2_000_001_000, True),
        ({**LSR, "koordinator.sh/priority-class": "koord-prod"}, 7000, True),
        ({**LSR, "koordinator.sh/priority-class": "koord-batch"}, 9000, False),
        ({**LSR, "koordinator.sh/priority-class": "mine"}, 7000, True),
    ],
)
def test_cpus_are_bound_by_label_and_priority(labels: dict[str, str], priority: int, bound: bool) -> None:
    assert may_be_bound(labels, priority) is bound
    assert cpu_bind_of(CPUBindSpec(FULL), labels, priority, 4000) == (CPUBind(FULL) if bound else None)


@pytest.mark.parametrize(
    ("spec", "cpu", "bind"),
    [
        (CPUBindSpec(), 4000, CPUBind(None)),
        (CPUBindSpec(FULL), 4000, CPUBind(FULL)),
        (CPUBindSpec(CPUBindPolicy.DEFAULT), 4000, CPUBind(FULL)),
        (CPUBindSpec(SPREAD, FULL), 4000, CPUBind(SPREAD)),
        (CPUBindSpec(None, SPREAD), 4000, CPUBind(None)),
        (CPUBindSpec(CPUBindPolicy.CONSTRAINED_BURST, FULL), 4000, None),
        (CPUBindSpec(None, CPUBindPolicy.CONSTRAINED_BURST), 4000, None),
        (CPUBindSpec(), 4500, None),
        (CPUBindSpec(FULL), 4500, CPUBind(FULL)),
        (CPUBindSpec(FULL), 0, None),
    ],
)
def test_the_required_policy_counts_and_the_preferred_one_is_a_wish(
    spec: CPUBindSpec, cpu: int, bind: CPUBind | None
) -> None:
    assert cpu_bind_of(spec, LSR, 0, cpu) == bind
