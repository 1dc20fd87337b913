"""What a component's own kustomization or chart installs, changed so that it can run as a local process.

1. `kubectl kustomize` or `helm template` renders the objects, as the project's documentation says.
2. No Deployment: the program runs here, with the token and so with the rights of its ServiceAccount.
3. Webhooks are called by a loopback URL instead of a Service, with the CA of the test's own certificate.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import yaml

from tests.cluster.control_plane import CRDS

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tests.cluster.control_plane import ControlPlane
    from webhook.model.raw import Draft
_WEBHOOKS = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
_NOT_INSTALLED = ("Deployment", "DaemonSet", "Secret", "APIService")
CRD = "CustomResourceDefinition"
_CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


@dataclass(frozen=True)
class Manifests:
    """The objects of one component."""

    objects: tuple[Draft, ...]

    @classmethod
    def rendered(cls, plane: ControlPlane, folder: Path) -> Manifests:
        """Those of a folder with a kustomization.yaml."""
        documents = yaml.safe_load_all(plane.kubectl("kustomize", folder))
        return cls(tuple(document for document in documents if document))

    @classmethod
    def templated(cls, plane: ControlPlane, chart: Path, namespace: str) -> Manifests:
        """Those of a chart with its default values, in a namespace that is added; its CRDs come first."""
        text = plane.helm("template", "neighbour", chart, "--namespace", namespace, "--no-hooks", "--include-crds")
        added = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
        return cls((added, *(document for document in yaml.safe_load_all(text) if document)))

    @classmethod
    def in_folder(cls, folder: Path) -> Manifests:
        """Those of a folder's YAML files."""
        documents = (each for file in sorted(folder.glob("*.yaml")) for each in yaml.safe_load_all(file.read_text()))
        return cls(tuple(document for document in documents if document and "kind" in document))

    def __add__(self, other: Manifests) -> Manifests:
        return Manifests((*self.objects, *other.objects))

    def of_kind(self, *kinds: str) -> list[Draft]:
        return [each for each in self.objects if each["kind"] in kinds]

    def deployment(self) -> Draft:
        """Its only Deployment."""
        (found,) = self.of_kind("Deployment")
        return found

    def without(self, *kinds: str) -> Manifests:
        return Manifests(tuple(each for each in self.objects if each["kind"] not in kinds))

    def of_names(self, *names: str) -> Manifests:
        return Manifests(tuple(each for each in self.objects if each["metadata"]["name"] in names))

    def without_crds_of(self, plane: ControlPlane) -> Manifests:
        """The same without the CRDs that are installed already."""
        names = {each["metadata"]["name"] for each in plane.api.get(_CRDS)["items"]}
        return Manifests(
            tuple(each for each in self.objects if each["kind"] != CRD or each["metadata"]["name"] not in names)
        )

    def config(self) -> Draft:
        """The configuration of its manager, from its ConfigMap."""
        (text,) = (text for each in self.of_kind("ConfigMap") for text in each["data"].values())
        config: Draft = yaml.safe_load(text)
        return config

    def install(self, plane: ControlPlane) -> None:
        """Install the CRDs, wait until they are served, and install all else but the webhooks."""
        crds = self.of_kind(CRD)
        self._apply(plane, crds)
        _wait_until_served(plane, crds)
        self._apply(plane, [each for each in self.objects if each["kind"] not in (*_NOT_INSTALLED, *_WEBHOOKS, CRD)])

    def install_kinds(self, plane: ControlPlane, *kinds: str) -> None:
        """Install the objects of these kinds as they are."""
        self._apply(plane, self.of_kind(*kinds))

    def converted_at(self, url: str, ca: Path) -> Manifests:
        """The same, with CRDs whose conversion webhook is at this URL."""
        return Manifests(tuple(_converted_at(each, url, ca.read_bytes()) for each in self.objects))

    def install_webhooks(self, plane: ControlPlane, url: str, ca: Path) -> None:
        """Install the webhooks, which the program at this URL answers."""
        self._apply(plane, [on_loopback(each, url, ca.read_bytes()) for each in self.of_kind(*_WEBHOOKS)])

    def remove(self, plane: ControlPlane) -> None:
        """Delete all objects: first the webhooks, which have no server now, then the CRDs with their objects.

        Where a component brings a newer version of a CRD of ours, ours is installed again.
        """
        kinds = (*_WEBHOOKS, CRD)
        for each in self.of_kind(*_WEBHOOKS):
            plane.kubectl("delete", "--ignore-not-found", each["kind"], each["metadata"]["name"])
        for each in self.of_kind(CRD):
            plane.kubectl("delete", "--ignore-not-found", "crd", each["metadata"]["name"])
        rest = [each for each in self.objects if each["kind"] not in (*_NOT_INSTALLED, *kinds)]
        plane.kubectl("delete", "--ignore-not-found", "--wait=false", "--filename", "-", input=_as_list(rest))
        self._apply(plane, ours := [yaml.safe_load(file.read_text()) for file in CRDS.glob("*.yaml")])
        _wait_until_served(plane, ours)

    @staticmethod
    def _apply(plane: ControlPlane, objects: list[Draft]) -> None:
        if objects:
            plane.kubectl("apply", "--server-side", "--force-conflicts", "--filename", "-", input=_as_list(objects))


def _wait_until_served(plane: ControlPlane, crds: list[Draft]) -> None:
    for name in (each["metadata"]["name"] for each in crds):
        plane.wait_for(f"the CRD {name}", partial(_is_served, plane, name))


def _is_served(plane: ControlPlane, name: str) -> bool:
    """Whether a CRD is established. A new one has no conditions, on which `kubectl wait` fails at once."""
    conditions = plane.api.get(f"{_CRDS}/{name}").get("status", {}).get("conditions") or ()
    return any(each["type"] == "Established" and each["status"] == "True" for each in conditions)


def on_loopback(configuration: Mapping[str, Any], url: str, ca: bytes) -> Draft:
    """A webhook configuration whose webhooks are called at this URL."""
    changed: Draft = json.loads(json.dumps(configuration))
    for webhook in changed["webhooks"]:
        _move(webhook, url, ca)
    return changed


def _converted_at(raw: Mapping[str, Any], url: str, ca: bytes) -> Draft:
    changed: Draft = json.loads(json.dumps(raw))
    if changed["kind"] == CRD and "webhook" in changed["spec"].get("conversion", {}):
        _move(changed["spec"]["conversion"]["webhook"], url, ca)
    return changed


def _move(webhook: Draft, url: str, ca: bytes) -> None:
    path = webhook["clientConfig"]["service"]["path"]
    webhook["clientConfig"] = {"url": f"{url}{path}", "caBundle": base64.b64encode(ca).decode()}


def _as_list(objects: list[Draft]) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
