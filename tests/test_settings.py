"""Settings from the environment and flags, and docs/settings.md, which must agree with the code."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import ValidationError
from typer.testing import CliRunner

from webhook.app.settings import PREFIX, Settings, SettingsError, environment_variable, flag
from webhook.cli.app import app
from webhook.kube.election import Timing

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
    return "" if default is None or default == {} else str(default)


def row(name: str) -> str:
    field = Settings.model_fields[name]
    text = " ".join((field.description or "").split())
    default = default_text(name)
    return f"| `{flag(name)}` | {f'`{default}`' if default else ''} | {text.replace('|', chr(92) + '|')} |"


def test_the_docs_have_every_setting_with_its_default_and_docstring_in_order_and_no_other() -> None:
    documented = [line for line in DOCS.read_text().splitlines() if line.startswith("| `--")]
    assert documented == [row(name) for name in Settings.model_fields]


def test_help_shows_every_flag_with_its_docstring_and_default() -> None:
    shown = " ".join(CliRunner().invoke(app, ["serve", "--help"], env={"COLUMNS": "200"}).output.split())
    for name, field in Settings.model_fields.items():
        assert f"{flag(name)} " in shown
        text = " ".join((field.description or "").split())
        default = default_text(name)
        assert re.sub(r"\s", "", f"{text} [default: {default}]" if default else text) in re.sub(r"\s", "", shown)


def test_the_environment_is_read_and_a_flag_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOPOLOGY_WEBHOOK_PORT", "1234")
    monkeypatch.setenv("TOPOLOGY_WEBHOOK_FIDELITY", "Plugin")
    settings = Settings.load({"port": "4321", "fidelity": None})
    assert (settings.port, settings.fidelity) == (4321, "Plugin")


def test_lists_and_weights_are_comma_separated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOPOLOGY_WEBHOOK_TLS_NAMES", "127.0.0.1, webhook.example.org,")
    settings = Settings.load({"resource_weights": "cpu=2, nvidia.com/gpu=10"})
    assert settings.tls_names == ("127.0.0.1", "webhook.example.org")
    assert settings.resource_weights == {"cpu": 2, "nvidia.com/gpu": 10}


def test_an_empty_variable_counts_as_not_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOPOLOGY_WEBHOOK_LOG_LEVEL", "")
    assert Settings.load().log_level == "info"


def test_the_links_that_a_kubelet_puts_into_the_environment_are_not_taken_for_ports(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TOPOLOGY_WEBHOOK_PORT", "tcp://10.0.0.1:443")
    monkeypatch.setenv("TOPOLOGY_WEBHOOK_METRICS_PORT", "tcp://10.0.0.2:8080")
    monkeypatch.setenv("TOPOLOGY_WEBHOOK_SERVICE_HOST", "10.0.0.1")
    assert (Settings.load().port, Settings.load().metrics_port) == (8443, 8080)


@pytest.mark.parametrize(
    ("variables", "flags", "sentence"),
    [
        (
            {},
            {"port": "x"},
            "--port: 'x' is wrong: input should be a valid integer, unable to parse string as an integer",
        ),
        ({"PORT": "70000"}, {}, "TOPOLOGY_WEBHOOK_PORT: '70000' is wrong: input should be less than or equal to 65535"),
        (
            {"SCHEDULER_NAMES": ","},
            {},
            "TOPOLOGY_WEBHOOK_SCHEDULER_NAMES: ',' is wrong: value should have at least 1 item after validation, not 0",
        ),
        ({"FIDELITY": "k"}, {}, "TOPOLOGY_WEBHOOK_FIDELITY: 'k' is wrong: input should be 'Kubelet' or 'Plugin'"),
        (
            {},
            {"resource_weights": "cpu"},
            "--resource-weights: 'cpu' is wrong: 'cpu' is not of the form resource=weight",
        ),
        (
            {},
            {"resource_weights": "cpu=0"},
            "--resource-weights (cpu): '0' is wrong: input should be greater than or equal to 1",
        ),
        ({}, {"tls_mode": "Files"}, "tls_mode is 'Files', which needs tls_cert_file and tls_key_file"),
        (
            {},
            {"autoscaler": "Karpenter", "provisioning_class": "check-capacity.autoscaling.x-k8s.io"},
            "provisioning_class is set, which needs autoscaler 'ClusterAutoscaler', not 'Karpenter'",
        ),
    ],
)
def test_a_wrong_value_is_told_with_its_place_and_what_is_allowed(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], flags: dict[str, str], sentence: str
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(environment_variable(name), value)
    with pytest.raises(SettingsError) as error:
        Settings.load(flags)
    assert str(error.value) == sentence


def test_every_fault_is_told_at_once() -> None:
    with pytest.raises(SettingsError) as error:
        Settings.load({"port": "x", "log_level": "loud"})
    assert len(str(error.value).splitlines()) == 2


def test_settings_do_not_change_after_the_start() -> None:
    settings = Settings.load()
    with pytest.raises(ValidationError):
        settings.port = 1


def test_wrong_settings_end_serve_with_2_before_anything_is_started() -> None:
    done = subprocess.run(
        [Path(sys.executable).with_name("topology-webhook"), "serve", "--port=x"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("--port: 'x' is wrong")


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
    assert (settings.timing, settings.assume_ttl) == (timing, pytest.approx(assume_ttl))
    assert settings.timing.retry_period < settings.timing.renew_deadline / 2 < settings.timing.lease_duration
