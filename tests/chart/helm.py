"""The chart rendered by the real helm, as objects."""

import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from webhook.cli.input.configuration_file import parse_configuration
from webhook.model.raw import Draft

CHART = Path(__file__).parents[2] / "charts" / "topology-webhook"
IMAGE = {"image": {"repository": "registry.example/topology-webhook"}}
"""The one value without a default."""
HOOK = "helm.sh/hook"


class RefusedError(Exception):
    """Helm rejected the values. The text is what a user reads."""


@dataclass(frozen=True)
class Rendered:
    """The output of one `helm template`."""

    objects: tuple[Draft, ...]
    hooks: tuple[Draft, ...] = ()
    """What Helm creates only while it uninstalls the release."""
    tests: tuple[Draft, ...] = ()
    """What Helm creates only for `helm test`."""

    def __getitem__(self, kind: str) -> Draft:
        """The only object of a kind."""
        (found,) = self.of(kind)
        return found

    def of(self, kind: str) -> list[Draft]:
        return [each for each in self.objects if each["kind"] == kind]

    @property
    def container(self) -> Draft:
        (container,) = self["Deployment"]["spec"]["template"]["spec"]["containers"]
        return dict(container)

    @property
    def configuration(self) -> Mapping[str, Any]:
        """The configuration file, from the ConfigMap that the container mounts."""
        (mount,) = (each for each in self.container["volumeMounts"] if each["name"] == "config")
        (volume,) = (each for each in self.volumes if each["name"] == "config")
        (found,) = (each for each in self.of("ConfigMap") if each["metadata"]["name"] == volume["configMap"]["name"])
        (file,) = found["data"]
        return parse_configuration(found["data"][file], f"{mount['mountPath']}/{file}")

    @property
    def volumes(self) -> list[Draft]:
        return [dict(each) for each in self["Deployment"]["spec"]["template"]["spec"]["volumes"]]

    @property
    def config_maps(self) -> list[Draft]:
        """The ConfigMaps besides that of the configuration file."""
        return [each for each in self.of("ConfigMap") if not each["metadata"]["name"].endswith("-config")]

    @property
    def environment(self) -> dict[str, str]:
        """Variables with their values, or with the pod's field that they come from; its namespace is known."""
        known = {"metadata.namespace": self["Deployment"]["metadata"]["namespace"]}
        fields = {
            variable["name"]: variable["valueFrom"]["fieldRef"]["fieldPath"]
            for variable in self.container["env"]
            if "valueFrom" in variable
        }
        values = {each["name"]: each["value"] for each in self.container["env"] if "value" in each}
        return values | {name: known.get(field, field) for name, field in fields.items()}

    @property
    def calls(self) -> dict[str, Draft]:
        """Every webhook by the beginning of its name: mutate.pods, guard.bindings, validate.pods, validate.nodes."""
        kinds = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
        webhooks = [dict(webhook) for kind in kinds for webhook in self[kind]["webhooks"]]
        return {webhook["name"].removesuffix(".topology-webhook.dev"): webhook for webhook in webhooks}

    @property
    def mutating(self) -> Draft:
        return self.calls["mutate.pods"]

    @property
    def validating(self) -> Draft:
        return self.calls["validate.pods"]


class Helm:
    """`helm`, with its own home."""

    def __init__(self, program: Path, home: Path) -> None:
        self._program = program
        self._environment = {"HOME": str(home), "PATH": ""}

    def template(
        self, values: Mapping[str, Any] | None = None, *, release: str = "tw", namespace: str = "placement"
    ) -> Rendered:
        """The chart's objects for these `values`. Raises RefusedError."""
        text = self.run(
            *("template", release, str(CHART), "--namespace", namespace, "--values", "-"),
            input=yaml.safe_dump({**IMAGE, **(values or {})}),
        )
        found = [each for each in yaml.safe_load_all(text) if each]
        kinds = [each["metadata"].get("annotations", {}).get(HOOK) for each in found]

        def of(kind: str | None) -> tuple[Draft, ...]:
            return tuple(each for each, its in zip(found, kinds, strict=True) if its == kind)

        return Rendered(of(None), of("pre-delete"), of("test"))

    def run(self, *arguments: str, input: str = "") -> str:  # noqa: A002 - subprocess' name for it
        """The output of a helm command. Raises RefusedError."""
        done = subprocess.run(
            [self._program, *arguments],
            input=input,
            capture_output=True,
            text=True,
            env=self._environment,
            check=False,
        )
        if done.returncode != 0:
            raise RefusedError(done.stderr)
        return done.stdout
