"""The API server's --admission-control-config-file: the client certificate that it shows to webhooks.

Source: kubernetes apiserver pkg/util/webhook/authentication.go. A kubeconfig's user is named like the host that is
called: `name.namespace.svc` for port 443 of a Service, `host:port` for a URL, with `*.` in place of leading labels, or
`*`.
Here it is `*`: the API server reads the file once, before the ports of the webhook are known.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cluster.pki import KeyPair

PLUGINS = ("MutatingAdmissionWebhook", "ValidatingAdmissionWebhook")


def write_admission_control(folder: Path, client: KeyPair) -> Path:
    """Write the file, and the kubeconfig that it names. JSON is valid YAML."""
    user = {"client-certificate": str(client.certificate), "client-key": str(client.key)}
    kubeconfig = folder / "webhooks.kubeconfig"
    kubeconfig.write_text(json.dumps({"apiVersion": "v1", "kind": "Config", "users": [{"name": "*", "user": user}]}))
    group = "apiserver.config.k8s.io/v1"
    shown = {"apiVersion": group, "kind": "WebhookAdmissionConfiguration", "kubeConfigFile": str(kubeconfig)}
    plugins = [{"name": name, "configuration": shown} for name in PLUGINS]
    path = folder / "admission-control.yaml"
    path.write_text(json.dumps({"apiVersion": group, "kind": "AdmissionConfiguration", "plugins": plugins}))
    return path
