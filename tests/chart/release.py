"""A release of the chart on the real control plane."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest
import yaml

from tests.chart.helm import CHART, IMAGE, Rendered
from tests.cluster.control_plane import ControlPlane
from webhook.app.settings import Settings

RELEASE = "chart-test"
FULL_NAME = "chart-test-topology-webhook"
CONFIGURATION = "/etc/topology-webhook/config/configuration.yaml"
CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"


class InstalledRelease:
    """The chart, installed in a namespace."""

    def __init__(self, plane: ControlPlane, namespace: str) -> None:
        self.plane = plane
        self.namespace = namespace
        self.account = f"system:serviceaccount:{namespace}:{FULL_NAME}"

    def upgrade(self, values: Mapping[str, Any] | None = None) -> None:
        self.plane.helm(
            *("upgrade", "--install", RELEASE, CHART, "--namespace", self.namespace, "--values", "-"),
            input=yaml.safe_dump({**IMAGE, **(values or {})}),
        )

    def rollback(self, revision: int) -> None:
        self.plane.helm("rollback", RELEASE, str(revision), "--namespace", self.namespace)

    def uninstall(self) -> None:
        """Uninstall without the hook, whose Job nothing runs here."""
        self.plane.helm("uninstall", RELEASE, "--namespace", self.namespace, "--ignore-not-found", "--no-hooks")

    def uninstall_with_hooks(self) -> None:
        """Uninstall as users do, while the pods of Jobs run (`job_pods`)."""
        self.plane.helm("uninstall", RELEASE, "--namespace", self.namespace)

    def apply_as_the_service(self, name: str, data: Mapping[str, str], manager: str) -> None:
        """Write a Secret with the rights of the service."""
        metadata = {"name": name, "namespace": self.namespace}
        self.plane.kubectl(
            *("apply", "--server-side", f"--field-manager={manager}", f"--as={self.account}", "-f", "-"),
            input=json.dumps({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": dict(data)}),
        )

    def patch_as_the_service(self, name: str) -> None:
        """Write caBundle into a configuration with the rights of the service."""
        count = len(self.plane.api.get(f"{CONFIGURATIONS}/{name}")["webhooks"])
        bundle = [
            {"op": "add", "path": f"/webhooks/{index}/clientConfig/caBundle", "value": "Y2E="} for index in range(count)
        ]
        self.plane.kubectl(
            *("patch", "mutatingwebhookconfiguration", name, "--type=json", f"--as={self.account}"),
            *("--patch", json.dumps(bundle)),
        )

    @property
    def secret(self) -> dict[str, str]:
        secret = self.plane.api.get(f"/api/v1/namespaces/{self.namespace}/secrets/{FULL_NAME}-ca")
        return dict(secret.get("data", {}))

    @property
    def called(self) -> list[tuple[int, str]]:
        """Timeout and caBundle of each mutating webhook."""
        webhooks = self.plane.api.get(f"{CONFIGURATIONS}/{FULL_NAME}")["webhooks"]
        return [(webhook["timeoutSeconds"], webhook["clientConfig"]["caBundle"]) for webhook in webhooks]


@contextmanager
def other_namespace(plane: ControlPlane, name: str) -> Iterator[str]:
    plane.create_namespace(name)
    yield name
    plane.delete_namespace(name)


def settings_of(rendered: Rendered, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """The settings that `serve` would start with in the rendered container."""
    for name, value in rendered.environment.items():
        monkeypatch.setenv(name, value)
    assert f"--config={CONFIGURATION}" in rendered.container["args"]
    return Settings.load(configuration=rendered.configuration)
