"""What the API server is and serves: its version, and the kinds that the service reads."""

from typing import Final

from webhook.cli.diagnosis.finding import Finding, fail, ok, warn
from webhook.cli.diagnosis.release import Release
from webhook.kube.discovery import KAI_TOPOLOGIES, KUEUE_TOPOLOGIES, NODE_RESOURCE_TOPOLOGIES, locate

# The first minor version with scheduling gates and CEL match conditions that are stable.
_OLDEST: Final = (1, 30)


async def kubernetes(release: Release) -> list[Finding]:
    """Whether the API server is new enough."""
    answer = await release.client.get("/version")
    return [judge_version(str(answer.get("major")), str(answer.get("minor")), release.client.host)]


def judge_version(major: str, minor: str, host: str) -> Finding:
    """Providers append to the minor version: 33+."""
    numbers = [int("".join(filter(str.isdigit, text)) or 0) for text in (major, minor)]
    if tuple(numbers) < _OLDEST:
        oldest = ".".join(map(str, _OLDEST))
        return fail(f"{host} is Kubernetes {major}.{minor}, older than {oldest}", f"upgrade it to {oldest} or newer")
    return ok(f"{host} is Kubernetes {major}.{minor}")


async def crds(release: Release) -> list[Finding]:
    """Whether the kinds exist that the service reads."""
    topologies = await locate(release.client, NODE_RESOURCE_TOPOLOGIES)
    racks = [wanted for wanted in (KAI_TOPOLOGIES, KUEUE_TOPOLOGIES) if await locate(release.client, wanted)]
    apply = "kubectl apply --server-side -f crds/"
    found = []
    if topologies is None:
        text = "noderesourcetopologies.topology.node.k8s.io is not served: pods with a NUMA policy wait"
        found.append(fail(text, apply))
    if not racks:
        found.append(warn("no kind Topology is served: no gang can ask for a rack", apply))
    served = [wanted.name for wanted in ((NODE_RESOURCE_TOPOLOGIES,) if topologies else ()) + tuple(racks)]
    return found or [ok(f"served: {', '.join(served)}")]
