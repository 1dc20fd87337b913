"""What the API server is and serves: its version, and the kinds that the service reads."""

import re
from typing import Final

from webhook.cli.diagnosis.finding import Finding, fail, ok, warn
from webhook.cli.diagnosis.release import PROVISIONING_CLASS_VARIABLE, Release
from webhook.kube.api_errors import APIError
from webhook.kube.discovery import KAI_TOPOLOGIES, KUEUE_TOPOLOGIES, NODE_RESOURCE_TOPOLOGIES, locate
from webhook.kube.provisioning_request_client import PROVISIONING_REQUESTS

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
        return bool(await release.setting(PROVISIONING_CLASS_VARIABLE, ""))
    except APIError:
        return False  # the check of the replicas says so
