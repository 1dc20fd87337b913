import json

import pytest

from webhook.formats.koordinator.cpu_bind import CPUBindPolicy, CPUBindSpec, CPUExclusivePolicy
from webhook.formats.koordinator.intent import NO_INTENT, NUMAIntent, NUMASpec, parse_numa_intent, parse_numa_spec
from webhook.model.errors import UserError
from webhook.model.names import NUMA_DEFAULTS
from webhook.model.policy import Exclusive, NUMAPolicy

SPEC = "scheduling.koordinator.sh/numa-topology-spec"
PROPOSED = "scheduling.koordinator.sh/resource-spec"
PATH = f"metadata.annotations[{SPEC}]"

SINGLE = NUMAIntent(NUMAPolicy.SINGLE_NUMA_NODE, Exclusive.REQUIRED, managed=True)


def faults(annotations: dict[str, object]) -> list[tuple[str, str]]:
    with pytest.raises(UserError) as caught:
        parse_numa_intent(annotations)
    return [(fault.path, fault.message) for fault in caught.value.faults]


def fault(text: object) -> str:
    ((path, message),) = faults({SPEC: text})
    assert path.startswith(PATH)
    return message


def test_a_pod_without_the_annotations_asks_for_nothing() -> None:
    assert parse_numa_intent({"example.com/a": "b"}) == (NO_INTENT, ())


@pytest.mark.parametrize("policy", [policy for policy in NUMAPolicy if policy is not NUMAPolicy.NONE])
@pytest.mark.parametrize("annotation", [SPEC, PROPOSED])
def test_either_annotation_may_carry_the_policy(policy: NUMAPolicy, annotation: str) -> None:
    text = f'{{"numaTopologyPolicy": "{policy.koordinator}"}}'
    assert parse_numa_intent({annotation: text}) == (NUMAIntent(policy, Exclusive.REQUIRED, managed=True), ())


@pytest.mark.parametrize("text", ["{}", "null", '{"numaTopologyPolicy": ""}', '{"numaTopologyPolicy": null}'])
def test_no_policy_is_no_requirement_but_managed(text: str) -> None:
    assert parse_numa_intent({SPEC: text}) == (NUMAIntent(managed=True), ())


def test_a_pod_with_a_policy_is_exclusive_unless_it_says_otherwise() -> None:
    text = '{"numaTopologyPolicy": "SingleNUMANode", "singleNUMANodeExclusive": "%s"}'
    assert parse_numa_intent({SPEC: text % ""})[0] == SINGLE
    assert parse_numa_intent({SPEC: text % "Required"})[0] == SINGLE
    assert parse_numa_intent({SPEC: text % "Preferred"})[0].exclusive is Exclusive.PREFERRED


def test_exclusiveness_may_stand_without_a_policy() -> None:
    text = '{"singleNUMANodeExclusive": "Preferred"}'
    assert parse_numa_intent({SPEC: text})[0] == NUMAIntent(None, Exclusive.PREFERRED, managed=True)


def test_cpu_bind_policies_are_read() -> None:
    text = (
        '{"requiredCPUBindPolicy": "FullPCPUs", "preferredCPUBindPolicy": "SpreadByPCPUs",'
        ' "preferredCPUExclusivePolicy": "PCPULevel"}'
    )
    bind = CPUBindSpec(CPUBindPolicy.FULL_PCPUS, CPUBindPolicy.SPREAD_BY_PCPUS, CPUExclusivePolicy.PCPU_LEVEL)
    assert parse_numa_intent({PROPOSED: text}) == (NUMAIntent(cpu_bind=bind), ())


@pytest.mark.parametrize("text", ["{}", '{"requiredCPUBindPolicy": ""}', '{"preferredCPUBindPolicy": null}'])
def test_empty_cpu_bind_policies_ask_for_nothing(text: str) -> None:
    assert parse_numa_intent({PROPOSED: text}) == (NO_INTENT, ())


def test_unknown_cpu_bind_policies_are_named_with_what_is_allowed() -> None:
    text = '{"requiredCPUBindPolicy": "FullPCPU", "preferredCPUBindPolicy": 1}'
    (first, one), (second, other) = faults({PROPOSED: text})
    assert first.endswith("resource-spec].requiredCPUBindPolicy")
    assert "Allowed are Default, FullPCPUs, SpreadByPCPUs, ConstrainedBurst" in one
    assert "Did you mean FullPCPUs?" in one
    assert second.endswith("resource-spec].preferredCPUBindPolicy")
    assert other.startswith("1 is not a string.")


def test_cpu_bind_policies_in_the_other_annotation_are_unknown_fields() -> None:
    intent, warnings = parse_numa_intent({SPEC: '{"requiredCPUBindPolicy": "FullPCPUs"}'})
    assert intent == NUMAIntent(managed=True)
    assert "unknown field requiredCPUBindPolicy" in warnings[0]


def test_both_annotations_may_say_the_same_or_complete_each_other() -> None:
    single = '{"numaTopologyPolicy": "SingleNUMANode"}'
    assert parse_numa_intent({SPEC: single, PROPOSED: single})[0] == SINGLE
    assert parse_numa_intent({SPEC: single, PROPOSED: '{"numaTopologyPolicy": ""}'})[0] == SINGLE
    completed = parse_numa_intent({SPEC: single, PROPOSED: '{"singleNUMANodeExclusive": "Preferred"}'})[0]
    assert completed == NUMAIntent(NUMAPolicy.SINGLE_NUMA_NODE, Exclusive.PREFERRED, managed=True)


def test_annotations_that_contradict_each_other_are_a_fault() -> None:
    found = faults({SPEC: '{"numaTopologyPolicy": "SingleNUMANode"}', PROPOSED: '{"numaTopologyPolicy": "Restricted"}'})
    message = (
        f"numaTopologyPolicy contradicts itself: SingleNUMANode in {SPEC} and Restricted in {PROPOSED}. "
        "Keep one of the two."
    )
    assert found == [("metadata.annotations", message)]


@pytest.mark.parametrize(
    ("value", "meant"),
    [
        ("singleNumaNode", "SingleNUMANode"),
        ("single-numa-node", "SingleNUMANode"),
        ("SingleNUMA", "SingleNUMANode"),
        ("best-effort", "BestEffort"),
        ("restrict", "Restricted"),
    ],
)
def test_an_unknown_policy_is_told_with_the_allowed_ones_and_the_nearest(value: str, meant: str) -> None:
    assert fault(f'{{"numaTopologyPolicy": "{value}"}}') == (
        f'"{value}" is unknown. Allowed are BestEffort, Restricted, SingleNUMANode, and "" for no requirement. '
        f"Did you mean {meant}?"
    )


def test_an_unknown_policy_near_to_none_of_them_is_told_without_a_guess() -> None:
    assert "Did you mean" not in fault('{"numaTopologyPolicy": "xyz"}')


def test_an_unknown_exclusiveness_is_told_with_the_allowed_ones() -> None:
    assert fault('{"singleNUMANodeExclusive": "required"}') == (
        '"required" is unknown. Allowed are Preferred, Required, and "" for no requirement. Did you mean Required?'
    )


@pytest.mark.parametrize("value", ["1", "true", "[]", '{"a": 1}'])
def test_a_value_that_is_no_string_is_a_fault(value: str) -> None:
    assert "is not a string" in fault(f'{{"numaTopologyPolicy": {value}}}')


def test_what_is_long_is_repeated_in_part() -> None:
    long = "x" * 5000
    assert len(fault(f'{{"numaTopologyPolicy": "{long}"}}')) < 200
    assert len(fault(f'{{"numaTopologyPolicy": ["{long}"]}}')) < 200
    _, (warning,) = parse_numa_intent({SPEC: f'{{"{long}": 1}}'})
    assert len(warning) < 200


def test_all_faults_are_told_at_once() -> None:
    found = faults({SPEC: '{"numaTopologyPolicy": "x", "singleNUMANodeExclusive": 1}', PROPOSED: "{"})
    assert [path for path, _ in found] == [
        f"{PATH}.numaTopologyPolicy",
        f"{PATH}.singleNUMANodeExclusive",
        f"metadata.annotations[{PROPOSED}]",
    ]


def test_an_unknown_field_is_ignored_with_a_warning_that_names_the_nearest() -> None:
    intent, warnings = parse_numa_intent({SPEC: '{"numaTopolgyPolicy": "SingleNUMANode"}'})
    assert intent == NUMAIntent(managed=True)
    assert warnings == (f"{PATH}: unknown field numaTopolgyPolicy is ignored. Did you mean numaTopologyPolicy?",)


def test_of_many_unknown_fields_the_first_ten_are_named() -> None:
    _, warnings = parse_numa_intent({SPEC: json.dumps({f"f{number}": 0 for number in range(1000)})})
    assert len(warnings) == 11
    assert warnings[-1] == f"{PATH}: 990 more unknown fields are ignored."


def test_a_field_in_the_wrong_case_is_read_as_koordinator_reads_it_with_a_warning() -> None:
    intent, warnings = parse_numa_intent({SPEC: '{"NUMATopologyPolicy": "SingleNUMANode"}'})
    assert intent == SINGLE
    assert warnings == (f"{PATH}: NUMATopologyPolicy is read as numaTopologyPolicy; write it so.",)


def test_a_field_written_twice_is_warned_of() -> None:
    intent, warnings = parse_numa_intent({SPEC: '{"numaTopologyPolicy": "x", "numaTopologyPolicy": "SingleNUMANode"}'})
    assert intent == SINGLE
    assert "more than once" in warnings[0]


def test_a_pod_template_is_named_by_its_own_path() -> None:
    with pytest.raises(UserError) as caught:
        parse_numa_intent({SPEC: "{"}, path="spec.template.metadata.annotations")
    assert caught.value.path == f"spec.template.metadata.annotations[{SPEC}]"


NONE, SINGLE_POLICY = NUMAPolicy.NONE, NUMAPolicy.SINGLE_NUMA_NODE
DEFAULTS = NUMASpec(NUMAPolicy.RESTRICTED, Exclusive.PREFERRED)


@pytest.mark.parametrize(
    ("text", "spec"),
    [
        ("{}", NUMASpec()),
        ("null", NUMASpec()),
        ('{"numaTopologyPolicy": null, "singleNUMANodeExclusive": null}', NUMASpec()),
        ('{"numaTopologyPolicy": ""}', NUMASpec(NONE)),
        ('{"singleNUMANodeExclusive": ""}', NUMASpec()),
        ('{"numaTopologyPolicy": "SingleNUMANode"}', NUMASpec(SINGLE_POLICY)),
        ('{"singleNUMANodeExclusive": "Required"}', NUMASpec(None, Exclusive.REQUIRED)),
    ],
)
def test_an_empty_policy_is_stated_and_all_else_that_says_nothing_is_open(text: str, spec: NUMASpec) -> None:
    assert parse_numa_spec({SPEC: text})[0] == spec


def test_a_stated_policy_wins_over_an_empty_one_in_the_other_annotation() -> None:
    texts = ['{"numaTopologyPolicy": ""}', '{"numaTopologyPolicy": "SingleNUMANode"}']
    for one, other in (texts, texts[::-1]):
        assert parse_numa_spec({SPEC: one, PROPOSED: other})[0].policy is SINGLE_POLICY
    assert parse_numa_spec({SPEC: texts[0], PROPOSED: "{}"})[0].policy is NONE


@pytest.mark.parametrize(
    ("text", "policy", "exclusive"),
    [
        (None, NUMAPolicy.RESTRICTED, Exclusive.PREFERRED),
        ("{}", NUMAPolicy.RESTRICTED, Exclusive.PREFERRED),
        ('{"numaTopologyPolicy": ""}', None, None),
        ('{"numaTopologyPolicy": "SingleNUMANode"}', SINGLE_POLICY, Exclusive.PREFERRED),
        ('{"singleNUMANodeExclusive": "Required"}', NUMAPolicy.RESTRICTED, Exclusive.REQUIRED),
        (
            '{"numaTopologyPolicy": "SingleNUMANode", "singleNUMANodeExclusive": "Required"}',
            SINGLE_POLICY,
            Exclusive.REQUIRED,
        ),
    ],
)
def test_defaults_that_were_written_into_the_pod_fill_what_is_open(
    text: str | None, policy: NUMAPolicy | None, exclusive: Exclusive | None
) -> None:
    own = {} if text is None else {SPEC: text}
    found = parse_numa_intent({**own, NUMA_DEFAULTS: DEFAULTS.to_json()})[0]
    assert (found.policy, found.exclusive) == (policy, exclusive)


def test_a_default_exclusiveness_needs_a_policy_to_go_with() -> None:
    assert parse_numa_intent({NUMA_DEFAULTS: NUMASpec(None, Exclusive.PREFERRED).to_json()})[0] == NO_INTENT


@pytest.mark.parametrize(
    "text", ["", "x", "[]", "1", "null", '{"numaTopologyPolicy": 1}', '{"numaTopologyPolicy": "x"}', "{" * 100_000]
)
def test_defaults_that_are_none_of_ours_are_none(text: str) -> None:
    assert parse_numa_intent({NUMA_DEFAULTS: text})[0] == NO_INTENT


@pytest.mark.parametrize("policy", [None, *NUMAPolicy])
@pytest.mark.parametrize("exclusive", [None, *Exclusive])
def test_defaults_are_read_as_they_were_written(policy: NUMAPolicy | None, exclusive: Exclusive | None) -> None:
    spec = NUMASpec(policy, exclusive)
    assert NUMASpec.from_json(spec.to_json()) == spec


def test_of_two_specs_the_first_wins_field_by_field() -> None:
    assert NUMASpec(SINGLE_POLICY).over(DEFAULTS) == NUMASpec(SINGLE_POLICY, Exclusive.PREFERRED)
    assert NUMASpec(NONE, Exclusive.REQUIRED).over(DEFAULTS) == NUMASpec(NONE, Exclusive.REQUIRED)
    assert NUMASpec().over(DEFAULTS) == DEFAULTS


def test_none_is_no_wish_for_a_cpu_bind_policy_and_no_requirement() -> None:
    assert parse_numa_spec({PROPOSED: '{"preferredCPUBindPolicy": "None"}'})[0] == NUMASpec()
    (found,) = faults({PROPOSED: '{"requiredCPUBindPolicy": "None"}'})
    assert found[1].startswith('"None" is unknown.')
