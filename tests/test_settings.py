"""Settings from the file, flags and environment, and docs/settings.md, which must agree with the code."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from typer.testing import CliRunner

from webhook.app.settings import (
    API_VERSION,
    PREFIX,
    AdvancedSettings,
    CommonSettings,
    InstallationSettings,
    Settings,
    SettingsError,
    flag,
    path_in_file,
)
from webhook.cli.app import app
from webhook.cli.input.configuration_file import parse_configuration
from webhook.kube.election import Timing

HEAD = f"apiVersion: {API_VERSION}\nkind: TopologyWebhookConfiguration\n"
DOCS = Path(__file__).parents[1] / "docs" / "settings.md"


@pytest.fixture(autouse=True)
def _no_settings_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in os.environ:
        if name.startswith(PREFIX):
            monkeypatch.delenv(name)


def default_text(name: str) -> str:
    """A setting's default as a user writes it; empty if there is none."""
    default = Settings.model_fields[name].get_default(call_default_factory=True)
    if isinstance(default, tuple):
        return ",".join(default)
    if isinstance(default, float):
        return f"{default:g}"
    text = str(default).lower() if isinstance(default, bool) else str(default)
    return "" if default is None or default == {} else text


def row(name: str) -> str:
    field = Settings.model_fields[name]
    text = " ".join((field.description or "").split())
    default = default_text(name)
    place = f"`{path}` | " if (path := path_in_file(name)) else ""
    return f"| {place}`{flag(name)}` | {f'`{default}`' if default else ''} | {text.replace('|', chr(92) + '|')} |"


def test_the_docs_have_every_setting_with_its_default_and_docstring_in_order_and_no_other() -> None:
    documented = [line for line in DOCS.read_text().splitlines() if line.startswith("| `")]
    assert documented == [row(name) for name in Settings.model_fields]


def test_each_section_of_the_docs_has_the_fields_of_its_section_in_the_file() -> None:
    sections = dict(part.split("\n", 1) for part in DOCS.read_text().split("\n## ")[1:])
    for title, group in (
        ("Common settings", CommonSettings),
        ("Advanced settings", AdvancedSettings),
        ("The installation", InstallationSettings),
    ):
        assert re.findall(r"^\| `[\w.]+` \| `(--[\w-]+)`", sections[title], re.MULTILINE) == [
            flag(field) for field in group.model_fields
        ]


def test_help_shows_every_flag_with_its_docstring_and_default() -> None:
    shown = " ".join(CliRunner().invoke(app, ["serve", "--help"], env={"COLUMNS": "200"}).output.split())
    for name, field in Settings.model_fields.items():
        assert f"{flag(name)} " in shown
        text = " ".join((field.description or "").split())
        default = default_text(name)
        assert re.sub(r"\s", "", f"{text} [default: {default}]" if default else text) in re.sub(r"\s", "", shown)


def file(**content: Any) -> dict[str, Any]:
    return {"apiVersion": API_VERSION, "kind": "TopologyWebhookConfiguration", **content}


def test_a_flag_wins_over_a_variable_and_this_over_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    content = file(gate="Never", logLevel="debug", advanced={"fidelity": "Plugin"}, installation={"port": 1234})
    assert Settings.load({"namespace": "ours"}).namespace == "ours"
    monkeypatch.setenv("TOPOLOGY_WEBHOOK_NAMESPACE", "theirs")
    monkeypatch.setenv("TOPOLOGY_WEBHOOK_POD_NAME", "pod-0")
    settings = Settings.load({"port": "4321", "fidelity": None, "log_level": "error"}, content)
    assert (settings.port, settings.fidelity, settings.gate, settings.log_level) == (4321, "Plugin", "Never", "error")
    assert (settings.namespace, settings.pod_name) == ("theirs", "pod-0")
    assert Settings.load({"namespace": "ours"}).namespace == "ours"


def test_an_empty_file_of_its_kind_means_the_defaults() -> None:
    assert Settings.load(configuration=file()) == Settings.load() == Settings()


def test_the_mode_off_is_one_where_yaml_takes_it_for_false() -> None:
    assert Settings.load(configuration=parse_configuration(f"{HEAD}mode: Off\n", "f")).mode == "Off"


def test_lists_and_weights_are_comma_separated_in_flags() -> None:
    settings = Settings.load(
        {"tls_names": "127.0.0.1, webhook.example.org,", "resource_weights": "cpu=2, nvidia.com/gpu=10"}
    )
    assert settings.tls_names == ("127.0.0.1", "webhook.example.org")
    assert settings.resource_weights == {"cpu": 2, "nvidia.com/gpu": 10}


def test_an_empty_variable_counts_as_not_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOPOLOGY_WEBHOOK_NAMESPACE", "")
    monkeypatch.setenv("TOPOLOGY_WEBHOOK_LOG_LEVEL", "")
    assert Settings.load().namespace == "topology-webhook"


def test_a_variable_of_a_former_version_is_told_with_what_to_write(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOPOLOGY_WEBHOOK_DRAIN_SECONDS", "5")
    with pytest.raises(SettingsError) as error:
        Settings.load()
    assert str(error.value) == (
        "TOPOLOGY_WEBHOOK_DRAIN_SECONDS is not read: use --drain-seconds, "
        "or advanced.drainSeconds in the configuration file"
    )


def test_the_links_that_a_kubelet_puts_into_the_environment_are_not_taken_for_settings(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TOPOLOGY_WEBHOOK_PORT", "tcp://10.0.0.1:443")
    monkeypatch.setenv("TOPOLOGY_WEBHOOK_METRICS_PORT", "tcp://10.0.0.2:8080")
    monkeypatch.setenv("TOPOLOGY_WEBHOOK_SERVICE_HOST", "10.0.0.1")
    assert (Settings.load().port, Settings.load().metrics_port) == (8443, 8080)


AUTOSCALER = {"autoscaler": "Karpenter", "provisioning_class": "check-capacity.autoscaling.x-k8s.io"}


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (
            {"port": "x"},
            "--port: 'x' is wrong: input should be a valid integer, unable to parse string as an integer",
        ),
        ({"port": "70000"}, "--port: '70000' is wrong: input should be less than or equal to 65535"),
        (
            {"scheduler_names": ","},
            "--scheduler-names: ',' is wrong: write at least 1 item",
        ),
        ({"fidelity": "k"}, "--fidelity: 'k' is wrong: input should be 'Kubelet' or 'Plugin'"),
        ({"resource_weights": "cpu"}, "--resource-weights: 'cpu' is wrong: 'cpu' is not of the form resource=weight"),
        (
            {"resource_weights": "cpu=0"},
            "--resource-weights (cpu): '0' is wrong: input should be greater than or equal to 1",
        ),
        ({"tls_cert_file": "c"}, "--tls-cert-file is set, which needs --tls-key-file"),
        (AUTOSCALER, "--provisioning-class is set, which needs --autoscaler 'ClusterAutoscaler', not 'Karpenter'"),
    ],
)
def test_a_wrong_flag_is_told_with_what_is_allowed(flags: dict[str, str], sentence: str) -> None:
    with pytest.raises(SettingsError) as error:
        Settings.load(flags)
    assert str(error.value) == sentence


NO_CERTIFICATE = "without it no client shows a certificate"
BEGIN = f"the file begins with apiVersion: {API_VERSION} and kind: TopologyWebhookConfiguration"


@pytest.mark.parametrize(
    ("content", "sentences"),
    [
        ({}, [f"apiVersion is missing: {BEGIN}", f"kind is missing: {BEGIN}"]),
        (
            file(apiVersion="config.topology-webhook.dev/v2"),
            [f"apiVersion: 'config.topology-webhook.dev/v2' is wrong: input should be '{API_VERSION}'"],
        ),
        (file(mode="off"), ["mode: 'off' is wrong: input should be 'Enforce', 'Observe' or 'Off'"]),
        (file(mod="Off"), ["'mod' is no setting. Did you mean mode?"]),
        (file(drainSeconds=3), ["drainSeconds: it stands elsewhere: advanced.drainSeconds"]),
        (file(schedulerNames=[]), ["schedulerNames: [] is wrong: write at least 1 item"]),
        (file(evictStuck="yes"), ["evictStuck: 'yes' is wrong: input should be a valid boolean"]),
        (
            file(schedulerNames="default-scheduler"),
            ["schedulerNames: 'default-scheduler' is wrong: input should be a valid array"],
        ),
        (
            file(advanced={"drainSeconds": -1, "leaseDuration": 3}),
            [
                "advanced.drainSeconds: -1 is wrong: input should be greater than or equal to 0",
                "'advanced.leaseDuration' is no setting. Did you mean leaseDurationSeconds?",
            ],
        ),
        (
            file(advanced={"resourceWeights": {"cpu": 0}}),
            ["advanced.resourceWeights.cpu: 0 is wrong: input should be greater than or equal to 1"],
        ),
        (
            file(provisioningClass="check-capacity.autoscaling.x-k8s.io"),
            ["provisioningClass is set, which needs autoscaler 'ClusterAutoscaler', not 'None'"],
        ),
        (
            file(installation={"clientNames": ["a"]}),
            [f"installation.clientNames is set, which needs installation.clientCaFile: {NO_CERTIFICATE}"],
        ),
    ],
)
def test_a_fault_in_the_file_is_told_with_its_place_and_what_is_allowed(
    content: dict[str, Any], sentences: list[str]
) -> None:
    with pytest.raises(SettingsError) as error:
        Settings.load(configuration=content)
    assert str(error.value).splitlines() == sentences


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("mode: Off\nmode: Observe\n", "f, line 2: "),
        ("mode: [\n", "f, line 2: "),
        ("", "f: one object is expected, a TopologyWebhookConfiguration"),
        ("[]", "f: one object is expected, a TopologyWebhookConfiguration"),
        ("a: b\n---\na: b\n", "f: one object is expected, a TopologyWebhookConfiguration"),
    ],
)
def test_text_that_is_no_configuration_is_told_with_its_line(text: str, message: str) -> None:
    with pytest.raises(SettingsError) as error:
        parse_configuration(text, "f")
    assert str(error.value).startswith(message)


def test_every_fault_is_told_at_once() -> None:
    with pytest.raises(SettingsError) as error:
        Settings.load({"port": "x", "log_level": "loud"})
    assert len(str(error.value).splitlines()) == 2


def test_settings_do_not_change_after_the_start() -> None:
    settings = Settings.load()
    with pytest.raises(ValidationError):
        settings.port = 1


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        ("--port=x", "--port: 'x' is wrong"),
        ("--config=absent.yaml", "--config: 'absent.yaml' cannot be read: No such file or directory"),
    ],
)
def test_wrong_settings_end_serve_with_2_before_anything_is_started(flag: str, message: str) -> None:
    done = subprocess.run(
        [Path(sys.executable).with_name("topology-webhook"), "serve", flag], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(message)


@pytest.mark.parametrize(
    ("lease", "request_timeout", "timing", "assume_ttl"),
    [
        ("15", "60", Timing(15, 10, 2), 65),
        ("60", "60", Timing(60, 40, 8), 50),
        ("3600", "60", Timing(3600, 2400, 480), 3),
        ("1", "0", Timing(1, 10 / 15, 2 / 15), 7 - 5 / 15 + 3),
    ],
)
def test_the_times_of_the_election_follow_from_the_duration_of_the_lease(
    lease: str, request_timeout: str, timing: Timing, assume_ttl: float
) -> None:
    settings = Settings.load({"lease_duration_seconds": lease, "api_server_request_timeout_seconds": request_timeout})
    assert settings.timing == timing
    assert settings.assume_ttl == pytest.approx(assume_ttl)
    assert settings.timing.retry_period < settings.timing.renew_deadline / 2 < settings.timing.lease_duration
