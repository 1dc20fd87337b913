"""Sources of credentials. Tokens in files are read again."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from webhook.kube.api_errors import ConnectionSettingsError
from webhook.kube.credentials import REFRESH_SECONDS, TokenFile, from_kubeconfig, load_credentials, service_account


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def kubeconfig(path: Path, user: dict[str, Any] | None) -> Path:
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "one",
        "contexts": [
            {"name": "one", "context": {"cluster": "here", "user": "me"}},
            {"name": "two", "context": {"cluster": "there", "user": "me"}},
        ],
        "clusters": [
            {"name": "here", "cluster": {"server": "https://here:6443"}},
            {"name": "there", "cluster": {"server": "https://there:6443"}},
        ],
        "users": [{"name": "me", "user": user or {}}],
    }
    path.write_text(yaml.safe_dump(config))
    return path


async def bearer(credentials: Any) -> str:
    settings = await credentials.configuration.auth_settings()
    token: str = settings["BearerToken"]["value"]
    return token


def test_a_token_file_is_read_again_after_a_minute_and_at_once_when_the_token_was_refused(tmp_path: Path) -> None:
    path, clock = tmp_path / "token", Clock()
    path.write_text("first\n")
    token = TokenFile(path, clock)
    assert token.token() == "first"
    path.write_text("second")
    assert token.token() == "first"
    clock.now += REFRESH_SECONDS
    assert token.token() == "second"
    path.write_text("third")
    token.forget()
    assert token.token() == "third"
    # One that is empty or gone for a moment leaves the last token.
    path.write_text("")
    token.forget()
    assert token.token() == "third"
    path.unlink()
    token.forget()
    assert token.token() == "third"


@pytest.mark.parametrize("content", [None, " \n"], ids=["absent", "empty"])
def test_without_a_first_token_there_is_an_error_that_names_the_file(tmp_path: Path, content: str | None) -> None:
    path = tmp_path / "token"
    if content is not None:
        path.write_text(content)
    with pytest.raises(ConnectionSettingsError, match=str(path)):
        TokenFile(path).token()


async def test_a_kubeconfigs_token_file_wins_over_its_token_and_is_relative_to_it(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("from-file\n")
    path = kubeconfig(tmp_path / "config", {"token": "inline", "tokenFile": "secret"})
    credentials = await from_kubeconfig(str(path), None)
    assert await bearer(credentials) == "Bearer from-file"
    (tmp_path / "secret").write_text("rotated\n")
    credentials.forget_token()
    assert await bearer(credentials) == "Bearer rotated"


async def test_the_context_asked_for_is_used_else_the_current_one(tmp_path: Path) -> None:
    path = str(kubeconfig(tmp_path / "config", {"token": "t"}))
    assert (await from_kubeconfig(path, None)).configuration.host == "https://here:6443"
    assert (await from_kubeconfig(path, "two")).configuration.host == "https://there:6443"
    with pytest.raises(ConnectionSettingsError, match="three"):
        await from_kubeconfig(path, "three")


@pytest.mark.parametrize("text", ["{", "just text", "contexts: []"])
async def test_a_broken_kubeconfig_is_an_error_that_names_it(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config"
    path.write_text(text)
    with pytest.raises(ConnectionSettingsError, match=str(path)):
        await from_kubeconfig(str(path), None)


async def test_without_a_kubeconfig_there_is_one_error_and_no_line_of_the_client(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(ConnectionSettingsError, match="There is no kubeconfig at"):
        await from_kubeconfig(f"{tmp_path}/none:{tmp_path}/neither", None)
    assert caplog.text == ""


def test_a_pods_service_account_is_found_in_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "6443")
    with pytest.raises(ConnectionSettingsError, match="automountServiceAccountToken"):
        service_account(tmp_path)
    (tmp_path / "token").write_text("t")
    (tmp_path / "ca.crt").write_text("CA")
    configuration = service_account(tmp_path).configuration
    assert configuration.host == "https://[fd00::1]:6443"
    assert configuration.ssl_ca_cert == str(tmp_path / "ca.crt")


async def test_a_kubeconfig_by_name_wins_over_the_pod_we_run_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    path = kubeconfig(tmp_path / "config", {"token": "t"})
    assert (await load_credentials(path)).configuration.host == "https://here:6443"


async def test_exec_plugins_are_asked_for_a_token(tmp_path: Path) -> None:
    plugin = tmp_path / "plugin"
    status = '{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": {"token": "made"}}'
    plugin.write_text(f"#!/bin/sh\necho '{status}'\n")
    plugin.chmod(0o755)
    command = {"apiVersion": "client.authentication.k8s.io/v1", "command": str(plugin), "interactiveMode": "Never"}
    credentials = await from_kubeconfig(str(kubeconfig(tmp_path / "config", {"exec": command})), None)
    assert await bearer(credentials) == "Bearer made"
