"""The release's objects in the cluster, and what the API server is and serves: its version, and the kinds we read.

Each object is read when a check first needs it.
"""

import re
from collections.abc import AsyncIterator, Mapping
from typing import Final

from webhook.app.settings import Settings, flag
from webhook.cli.doctor.finding import Finding, fail, ok, warn
from webhook.cli.input.configuration_file import parse_configuration
from webhook.kube.api_errors import APIError, mapping_or_empty
from webhook.kube.client import Client
from webhook.kube.discovery import KAI_TOPOLOGIES, KUEUE_TOPOLOGIES, NODE_RESOURCE_TOPOLOGIES, locate
from webhook.kube.informer import PAGE_SIZE
from webhook.kube.provisioning_request_client import PROVISIONING_REQUESTS
from webhook.kube.resource import Resource, items_of
from webhook.model.raw import Raw

CONFIGURATIONS: Final = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")


class Release:
    """One installation: its namespace, and the full name that its objects begin with."""

    def __init__(self, client: Client, namespace: str, name: str, trial_namespace: str) -> None:
        self.client = client
        self.namespace = namespace
        self.name = name
        self.trial_namespace = trial_namespace
        """Where the pods are created that are never stored."""
        self._deployment: Raw | None = None
        self._settings: Settings | None = None
        self._configurations: dict[str, Raw | None] | None = None

    async def get(self, path: str) -> Raw | None:
        """The object at `path`; None if it does not exist."""
        try:
            return await self.client.get(path)
        except APIError as error:
            if error.status == 404:
                return None
            raise

    async def items(self, resource: Resource, **query: str) -> AsyncIterator[Raw]:
        """All objects of a collection, page by page."""
        asked: dict[str, str | int] = {"limit": PAGE_SIZE, **query}
        while True:
            page = await self.client.get(resource.path, asked)
            for raw in items_of(page, resource.path):
                yield raw
            more = mapping_or_empty(page.get("metadata")).get("continue")
            if not more:
                return
            asked["continue"] = more

    async def deployment(self) -> Raw | None:
        """The Deployment of the replicas."""
        if self._deployment is None:
            self._deployment = await self.get(
                f"{Resource('apps', 'v1', 'deployments', self.namespace).path}/{self.name}"
            )
        return self._deployment

    async def settings(self) -> Settings:
        """The settings of the replicas: those of their file, unless a flag wins. Raises SettingsError."""
        if self._settings is None:
            name = f"{self.name}-config"
            found = await self.get(f"{Resource('', 'v1', 'configmaps', self.namespace).path}/{name}")
            text = mapping_or_empty((found or {}).get("data")).get("configuration.yaml")
            file = parse_configuration(text, f"ConfigMap {self.namespace}/{name}") if isinstance(text, str) else None
            deployment = await self.deployment()
            flags = {} if deployment is None else flags_of(deployment)
            self._settings = Settings.load({"namespace": self.namespace, **flags}, file)
        return self._settings

    async def pods(self) -> list[Raw]:
        """The pods of the Deployment; none if there is no Deployment."""
        deployment = await self.deployment()
        if deployment is None:
            return []
        labels = deployment["spec"]["selector"]["matchLabels"]
        selector = ",".join(f"{key}={value}" for key, value in labels.items())
        return [raw async for raw in self.items(Resource("", "v1", "pods", self.namespace), labelSelector=selector)]

    async def configurations(self) -> Mapping[str, Raw | None]:
        """The mutating and the validating webhook configuration, by plural."""
        if self._configurations is None:
            self._configurations = {
                plural: await self.get(f"{Resource('admissionregistration.k8s.io', 'v1', plural).path}/{self.name}")
                for plural in CONFIGURATIONS
            }
        return self._configurations

    async def calls_a_url(self) -> bool:
        """Whether the API server calls an address instead of a Service: the replicas may run anywhere."""
        found = (await self.configurations()).values()
        return any("url" in each["clientConfig"] for raw in found if raw for each in raw.get("webhooks") or ())


def is_ready(pod: Raw) -> bool:
    """Whether a Service leads to the pod."""
    conditions = mapping_or_empty(pod.get("status")).get("conditions") or ()
    ready = any(each.get("type") == "Ready" and each.get("status") == "True" for each in conditions)
    return ready and "deletionTimestamp" not in pod["metadata"]


def flags_of(deployment: Raw) -> dict[str, str]:
    """The settings that the Deployment's containers get as flags, by field name."""
    names = {flag(field): field for field in Settings.model_fields}
    given = (
        argument.partition("=")
        for container in deployment["spec"]["template"]["spec"]["containers"]
        for argument in container.get("args") or ()
    )
    return {names[name]: value for name, equals, value in given if equals and name in names}


# The first minor version with scheduling gates and CEL match conditions that are stable.
_OLDEST: Final = (1, 30)


async def kubernetes(release: Release) -> list[Finding]:
    """Whether the API server is new enough."""
    answer = await release.client.get("/version")
    return [judge_version(str(answer.get("gitVersion")), release.client.host)]


def judge_version(version: str, host: str) -> Finding:
    """What `gitVersion` of /version says, such as v1.33.5-eks-3abbec1.

    Not `major` and `minor`: builds that are not upstream's releases leave them empty, and providers append to them.
    """
    oldest = ".".join(map(str, _OLDEST))
    numbers = re.match(r"v?([0-9]{1,9})\.([0-9]{1,9})", version)
    if numbers is None:
        return warn(
            f"{host} calls its version {version!r}; needed is Kubernetes {oldest} or newer", "compare it by hand"
        )
    if tuple(map(int, numbers.groups())) < _OLDEST:
        return fail(f"{host} is Kubernetes {version}, older than {oldest}", f"upgrade it to {oldest} or newer")
    return ok(f"{host} is Kubernetes {version}")


async def crds(release: Release) -> list[Finding]:
    """Whether the kinds exist that the service reads."""
    topologies = await locate(release.client, NODE_RESOURCE_TOPOLOGIES)
    racks = [wanted for wanted in (KAI_TOPOLOGIES, KUEUE_TOPOLOGIES) if await locate(release.client, wanted)]
    apply = "kubectl apply --server-side -f crds/"
    found = []
    if topologies is None:
        text = "noderesourcetopologies.topology.node.k8s.io is not served: pods with a NUMA policy wait"
        found.append(fail(text, apply))
    if await locate(release.client, PROVISIONING_REQUESTS) is None and await _asks_for_gangs(release):
        text = f"{PROVISIONING_REQUESTS.name} is not served, but provisioningClass is set: gangs get no new nodes"
        found.append(fail(text, "install the CRD of cluster-autoscaler, or unset settings.provisioningClass"))
    if not racks:
        found.append(warn("no kind Topology is served: no gang can ask for a rack", apply))
    served = [wanted.name for wanted in ((NODE_RESOURCE_TOPOLOGIES,) if topologies else ()) + tuple(racks)]
    return found or [ok(f"served: {', '.join(served)}")]


async def _asks_for_gangs(release: Release) -> bool:
    """Whether the replicas make ProvisioningRequests; False for a user who may not read their settings."""
    try:
        return bool((await release.settings()).provisioning_class)
    except APIError:
        return False  # the check of the replicas says so
