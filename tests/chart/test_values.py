"""values.yaml, its schema, its documentation and the program's settings agree."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from pydantic.alias_generators import to_camel

from tests.chart.helm import CHART, Helm, RefusedError
from webhook.app.settings import AdvancedSettings, CommonSettings, Settings

VALUES: dict[str, Any] = yaml.safe_load((CHART / "values.yaml").read_text())
SCHEMA: dict[str, Any] = json.loads((CHART / "values.schema.json").read_text())
README = (CHART / "README.md").read_text()
# | `a.b` | `default` | meaning |
ROW = re.compile(r"^\| `([\w.]+)` \| (.*?) \| (.*) \|$", re.MULTILINE)
# What the schema leaves open belongs to Kubernetes, which checks it.
KUBERNETES_OWN = {"podSecurityContext", "containerSecurityContext", "resources", "affinity"}


def leaves(values: dict[str, Any], schema: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Every value by its dotted path. A leaf is a value whose schema names no further properties."""
    for name, value in values.items():
        below = schema["properties"][name]
        if isinstance(value, dict) and value and "properties" in below:
            yield from leaves(value, below, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def schema_of(path: str) -> dict[str, Any]:
    found = SCHEMA
    for name in path.split("."):
        found = found["properties"][name]
    return found


DEFAULTS = dict(leaves(VALUES, SCHEMA))


def test_the_readme_documents_every_value_and_no_other() -> None:
    assert [row[0] for row in ROW.findall(README)] == list(DEFAULTS)


@pytest.mark.parametrize("path", [path for path in DEFAULTS if path not in KUBERNETES_OWN])
def test_the_readme_states_the_default(path: str) -> None:
    stated = {name: default for name, default, _ in ROW.findall(README)}[path]
    default = DEFAULTS[path]
    if stated == "[below](#workloads)":  # too long for a cell
        _, _, section = README.partition("### Workloads\n")
        block = re.search(r"```yaml\n(.*?)```", section, re.DOTALL)
        assert block
        assert yaml.safe_load(block[1])["webhook"]["workloads"] == default
        return
    assert yaml.safe_load(stated.strip("`")) == default or stated == f"`{json.dumps(default)}`"


def test_the_schema_describes_every_value_and_allows_no_other() -> None:
    def closed(schema: dict[str, Any], path: str) -> None:
        assert schema["description"], path
        for name, below in schema.get("properties", {}).items():
            # A parent chart's `global` has what its other charts read, too.
            assert path == "global" or schema["additionalProperties"] is False, path
            closed(below, f"{path}.{name}")

    for name, below in SCHEMA["properties"].items():
        closed(below, name)
    assert SCHEMA["additionalProperties"] is False
    assert set(SCHEMA["properties"]) == set(VALUES)


# Each value of `settings`, and which of the program's settings it becomes.
SETTINGS = {
    f"settings.{section}{to_camel(field)}": field
    for section, group in (("", CommonSettings), ("advanced.", AdvancedSettings))
    for field in group.model_fields
}


def advanced(**settings: Any) -> dict[str, Any]:
    return {"settings": {"advanced": settings}}


def test_the_values_of_settings_are_the_programs_in_their_order() -> None:
    given = [path for path in DEFAULTS if path.startswith("settings.")]
    assert given == list(SETTINGS)


def test_an_operator_chooses_among_twenty_settings() -> None:
    assert len(CommonSettings.model_fields) <= 20


@pytest.mark.parametrize(("path", "field"), SETTINGS.items())
def test_default_and_limits_of_a_setting_are_the_programs(path: str, field: str) -> None:
    ours, program = schema_of(path), Settings.model_json_schema(by_alias=False)
    theirs = program["properties"][field]
    if "$ref" in theirs:  # an enumeration stands beside the settings
        theirs = program["$defs"][theirs["$ref"].rpartition("/")[2]]
    default = tuple(DEFAULTS[path]) if isinstance(DEFAULTS[path], list) else DEFAULTS[path]
    assert default == Settings.model_fields[field].get_default(call_default_factory=True)
    for limit in ("enum", "minimum", "maximum"):
        assert ours.get(limit) == theirs.get(limit), limit


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"replicas": 3}, "additional properties 'replicas' not allowed"),
        ({"settings": {"gate": "always"}}, "at '/settings/gate': value must be one of 'Always', 'WhenNeeded', 'Never'"),
        ({"settings": {"drainSeconds": 5}}, "at '/settings': additional properties 'drainSeconds' not allowed"),
        (advanced(drainSeconds=-1), "at '/settings/advanced/drainSeconds': minimum: got -1, want 0"),
        (advanced(preferenceWeight=101), "at '/settings/advanced/preferenceWeight': maximum: got 101, want 100"),
        (advanced(resourceWeights={"cpu": 0}), "at '/settings/advanced/resourceWeights/cpu': minimum: got 0, want 1"),
        ({"webhook": {"failurePolicy": "ignore"}}, "value must be one of 'Ignore', 'Fail'"),
        ({"webhook": {"timeoutSeconds": 31}}, "at '/webhook/timeoutSeconds': maximum: got 31, want 30"),
        ({"webhook": {"url": "http://127.0.0.1:9443"}}, "at '/webhook/url': 'http://127.0.0.1:9443' does not match"),
        ({"webhook": {"url": "https://host/?a=b"}}, "at '/webhook/url'"),
        ({"webhook": {"matchConditions": [{"name": "x"}]}}, "missing property 'expression'"),
        ({"webhook": {"namespaceSelector": {"matchLabel": {}}}}, "additional properties 'matchLabel' not allowed"),
        ({"tls": {"mode": "secret"}}, "at '/tls/mode': value must be one of 'SelfManaged', 'CertManager'"),
        ({"tls": {"certManager": {"issuerRef": {"kind": "Issuer"}}}}, "'name' required, if 'kind' exists"),
        ({"image": {"digest": "latest"}}, "at '/image/digest': 'latest' does not match pattern"),
        ({"podDisruptionBudget": {"maxUnavailable": "half"}}, "at '/podDisruptionBudget/maxUnavailable'"),
        ({"extraEnv": [{"value": "x"}]}, "at '/extraEnv/0': missing property 'name'"),
    ],
)
def test_a_wrong_value_is_refused_with_its_place(helm: Helm, values: dict[str, Any], message: str) -> None:
    with pytest.raises(RefusedError) as raised:
        helm.template(values)
    assert message in str(raised.value)
