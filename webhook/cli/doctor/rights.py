"""The rights of the service's account, as the API server answers about them; and the clocks."""

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from webhook.cli.doctor.finding import Finding, fail, ok, some, warn
from webhook.cli.doctor.release import Release
from webhook.formats.autoscaling import GROUP, PLURAL
from webhook.formats.dra import GROUP as DRA
from webhook.formats.kubernetes.timestamps import epoch_seconds
from webhook.kube.api_errors import mapping_or_empty
from webhook.kube.discovery import DEVICES
from webhook.kube.resource import Resource
from webhook.model.raw import Raw

_AGREE_SECONDS: Final = 5
"""Times in objects are whole seconds, and a call takes a moment."""
_SKEW_SECONDS: Final = 300
"""How far a clock may be off before a new certificate is not valid yet (certs/window.py)."""


@dataclass(frozen=True, slots=True)
class Right:
    """One verb on a resource, in all namespaces or in the release's own."""

    verb: str
    group: str
    resource: str
    name: str = ""
    own: bool = False
    """Whether only the release's namespace counts."""

    def __str__(self) -> str:
        plural, slash, part = self.resource.partition("/")
        resource = f"{plural}.{self.group}{slash}{part}" if self.group else self.resource
        return f"{self.verb} {resource}{f' {self.name}' if self.name else ''}"


def rights(name: str, *, self_managed: bool) -> tuple[Right, ...]:
    """What the service needs. self_managed: whether it writes caBundle."""
    read = (("", "namespaces"), ("", "nodes"), ("", "pods"), ("topology.node.k8s.io", "noderesourcetopologies"))
    optional = (("kai.scheduler", "topologies"),)
    configurations = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")
    return (
        *(Right(verb, group, resource) for group, resource in read + optional for verb in ("list", "watch")),
        Right("patch", "", "pods"),
        Right("patch", "", "pods/status"),
        Right("create", "events.k8s.io", "events"),
        *(Right(verb, "coordination.k8s.io", "leases", name, own=True) for verb in ("get", "patch")),
        *(Right("patch", "admissionregistration.k8s.io", each, name) for each in configurations if self_managed),
    )


PROVISIONING_RIGHTS: Final = (
    *(Right(verb, GROUP, PLURAL) for verb in ("list", "watch", "create", "delete")),
    *(Right(verb, "", "podtemplates") for verb in ("get", "create", "delete")),
)
"""What it needs besides for ProvisioningRequests."""


METRICS_RIGHTS: Final = (
    Right("create", "authentication.k8s.io", "tokenreviews"),
    Right("create", "authorization.k8s.io", "subjectaccessreviews"),
)
"""What it needs besides for secure metrics."""


DEVICE_RIGHTS: Final = tuple(
    Right(verb, wanted.group, wanted.plural) for wanted in DEVICES.values() for verb in ("list", "watch")
)
"""What it needs besides for devices of Dynamic Resource Allocation."""
CLAIM_RIGHTS: Final = (
    Right("get", DRA, "resourceclaims"),
    *(Right("patch", DRA, f"resourceclaims{part}") for part in ("", "/status", "/binding")),
)
"""What it needs in mode Enforce besides, for claims of pods behind the gate."""


async def account_rights(release: Release) -> list[Finding]:
    """Ask for each right of the Deployment's service account."""
    deployment = await release.deployment()
    if deployment is None:
        return []
    account = deployment["spec"]["template"]["spec"].get("serviceAccountName", "default")
    settings = await release.settings()
    wanted = rights(release.name, self_managed=settings.tls_files is None)
    if settings.provisioning_class:
        wanted += PROVISIONING_RIGHTS
    if settings.metrics_tls_port is not None:
        wanted += METRICS_RIGHTS
    if settings.dynamic_resources:
        wanted += DEVICE_RIGHTS
        if settings.mode == "Enforce":
            wanted += CLAIM_RIGHTS
    allowed = await asyncio.gather(*(_is_allowed(release, account, right) for right in wanted))
    missing = [str(right) for right, granted in zip(wanted, allowed, strict=True) if not granted]
    if missing:
        return [
            fail(
                f"{release.namespace}/{account} may not: {some(missing)}",
                f"run helm upgrade, which restores the roles {release.name} and their bindings",
            )
        ]
    return [ok(f"{release.namespace}/{account} has the rights of the service")]


async def _is_allowed(release: Release, account: str, right: Right) -> bool:
    resource, _, subresource = right.resource.partition("/")
    attributes = {
        "verb": right.verb,
        "group": right.group,
        "resource": resource,
        "subresource": subresource,
        "name": right.name,
        "namespace": release.namespace if right.own else "",
    }
    groups = ["system:serviceaccounts", f"system:serviceaccounts:{release.namespace}", "system:authenticated"]
    user = f"system:serviceaccount:{release.namespace}:{account}"
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {"user": user, "groups": groups, "resourceAttributes": attributes},
    }
    answer = await release.client.create(Resource("authorization.k8s.io", "v1", "subjectaccessreviews").path, body)
    return bool(mapping_or_empty(answer.get("status")).get("allowed"))


async def clocks(release: Release) -> list[Finding]:
    """Compare this machine's clock and the leader's with the API server's."""
    kind = Resource("authentication.k8s.io", "v1", "selfsubjectreviews").path
    asked = datetime.now(UTC).timestamp()
    answer = await release.client.create(
        kind, {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview", "metadata": {}}
    )
    # The review has the API server's time. What the call took is no difference of the clocks.
    server = epoch_seconds(answer["metadata"].get("creationTimestamp"))
    answered = datetime.now(UTC).timestamp()
    nearest = None if server is None else min(max(server, asked), answered)
    found = {} if server is None or nearest is None else {"this machine": abs(nearest - server)}
    lease = await release.get(
        f"{Resource('coordination.k8s.io', 'v1', 'leases', release.namespace).path}/{release.name}"
    )
    if lease is not None and (skew := leader_skew(lease)) is not None:
        found["the leader"] = skew
    return judge_clocks(found)


def leader_skew(lease: Raw) -> float | None:
    """The leader writes its own time into the Lease, and the API server its time beside it."""
    renewed = epoch_seconds(mapping_or_empty(lease.get("spec")).get("renewTime"))
    stored = [epoch_seconds(each.get("time")) for each in lease["metadata"].get("managedFields") or ()]
    known = [time for time in stored if time is not None]
    return None if renewed is None or not known else abs(renewed - max(known))


def judge_clocks(skews: dict[str, float]) -> list[Finding]:
    """skews: seconds between a clock and the API server's."""
    found = []
    for whose, skew in skews.items():
        text = f"the clock of {whose} differs from the API server's by {skew:.0f} s"
        if skew > _SKEW_SECONDS:
            found.append(fail(f"{text}: certificates are not valid yet, or not any more", "synchronize the clocks"))
        elif skew > _AGREE_SECONDS:
            found.append(warn(text, "synchronize the clocks"))
    return found or [ok(f"{' and '.join(skews) or 'no clock'}: as the API server's")]
