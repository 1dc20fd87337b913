"""Kubeflow's trainer beside the control plane; JobSet's operator has to run already.

It differs from other operators:
- Its kustomization fetches JobSet's manifests from the network. That line is for clusters without JobSet.
- It issues the certificate of its webhook itself, for the name of a Service that has no address here. So the API server
  does not reach the webhook, which only validates, and does not wait for it.
- It waits for the certificate in a folder that no flag moves. The program gets that folder in a mount namespace.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import yaml

from tests.cluster.pki import Servers
from tests.cluster.ports import free_port
from tests.cluster.process import Process
from tests.neighbours.manifests import Manifests
from tests.neighbours.operators import is_ready
from webhook.model.names import INHERIT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cluster.control_plane import ControlPlane
    from tests.neighbours.build import NeighbourFiles
    from webhook.model.raw import Draft

NAMESPACE = "kubeflow-system"
TRAINERS = "trainer.kubeflow.org/v1alpha1"
INHERITING = "torch-inheriting"
"""Its runtime for PyTorch with the mark `inherit` in the pod template."""
CERTIFICATES = Path("/tmp/k8s-webhook-server/serving-certs")  # noqa: S108 - its own choice
_OTHERS_MANIFESTS = "../../third-party/jobset"


@contextlib.contextmanager
def trainer(plane: ControlPlane, files: NeighbourFiles) -> Iterator[None]:
    """Run the trainer's manager, with its runtime for PyTorch."""
    with TemporaryDirectory() as scratch:
        folder = Path(scratch)
        manifests = _manifests(plane, files.manifests / "manifests", folder / "manifests")
        runtimes = Manifests.rendered(plane, folder / "manifests" / "base" / "runtimes")
        pair = Servers(folder / "pki").issue("webhook")
        mounted = folder / "mounted"
        mounted.mkdir()
        shutil.copy(pair.certificate, mounted / "tls.crt")
        shutil.copy(pair.key, mounted / "tls.key")
        CERTIFICATES.mkdir(parents=True, exist_ok=True)
        health = free_port()
        mount = [
            "unshare",
            "--mount",
            "--map-root-user",
            "sh",
            "-c",
            f'mount --bind {mounted} {CERTIFICATES} && exec "$0" "$@"',
        ]
        flags = [f"--health-probe-bind-address=127.0.0.1:{health}", f"--webhook-server-port={free_port()}"]
        try:
            manifests.install(plane)
            manifests.install_kinds(plane, "Secret", "ValidatingWebhookConfiguration")  # it writes its CA there
            kubeconfig = plane.service_account_kubeconfig(NAMESPACE, "kubeflow-trainer-controller-manager")
            process = plane.guests["trainer"] = Process(
                "trainer",
                [*mount, files.program, *flags],
                plane.folder / "trainer.log",
                env={"PATH": os.environ["PATH"], "KUBECONFIG": str(kubeconfig), "HOME": scratch},
            )
            plane.wait_for("trainer /readyz", lambda: is_ready(process, health))
            (runtime,) = runtimes.of_names("torch-distributed").objects
            Manifests((_inheriting(runtime),)).install(plane)
            yield
            for plural in ("trainjobs", "clustertrainingruntimes"):  # they have finalizers, which it removes
                kind = f"{plural}.trainer.kubeflow.org"
                plane.kubectl("delete", "--all", "--all-namespaces", "--timeout=60s", kind)
        finally:
            if "trainer" in plane.guests:
                plane.guests.pop("trainer").stop()
            manifests.remove(plane)


def _manifests(plane: ControlPlane, source: Path, copy: Path) -> Manifests:
    """What its overlay `manager` installs besides JobSet, with webhooks that may be missing."""
    shutil.copytree(source, copy)
    kustomization = copy / "overlays" / "manager" / "kustomization.yaml"
    overlay = yaml.safe_load(kustomization.read_text())
    overlay["resources"].remove(_OTHERS_MANIFESTS)
    kustomization.write_text(yaml.safe_dump(overlay))
    found = Manifests.rendered(plane, kustomization.parent).without("Service")
    for configuration in found.of_kind("ValidatingWebhookConfiguration"):
        for webhook in configuration["webhooks"]:
            webhook["failurePolicy"] = "Ignore"
    return found


def _inheriting(runtime: Draft) -> Draft:
    """A copy of a runtime whose pods take the annotations of their owners."""
    copy: Draft = json.loads(json.dumps(runtime))
    copy["metadata"]["name"] = INHERITING
    for job in copy["spec"]["template"]["spec"]["replicatedJobs"]:
        template = job["template"]["spec"]["template"]
        template.setdefault("metadata", {})["annotations"] = {INHERIT: "true"}
    return copy
