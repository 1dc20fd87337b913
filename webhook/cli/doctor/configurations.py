"""The webhook configurations: both exist, and trust a CA that is valid. And the policies that protect hints."""

import base64
import binascii
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

from webhook.cli.doctor.finding import Finding, fail, ok, warn
from webhook.cli.doctor.release import Release
from webhook.kube.resource import Resource
from webhook.model.raw import Raw

_WITHOUT: Final = {
    "mutatingwebhookconfigurations": "no pod is gated and no binding is checked",
    "validatingwebhookconfigurations": "annotations are not validated",
}
_POLICIES: Final = ("pods", "bindings")


async def configurations(release: Release) -> list[Finding]:
    """Whether the API server knows what to call, and whom to trust."""
    found = []
    for plural, raw in (await release.configurations()).items():
        if raw is None:
            cure = "run helm upgrade, which creates it again"
            found.append(fail(f"{plural}/{release.name} is missing: {_WITHOUT[plural]}", cure))
        else:
            found.append(judge_configuration(plural, raw, datetime.now(UTC)))
    return found


def judge_configuration(plural: str, raw: Raw, now: datetime) -> Finding:
    """Whether each webhook trusts a valid CA."""
    what, webhooks = f"{plural}/{raw['metadata']['name']}", raw.get("webhooks") or []
    if not webhooks:
        return fail(f"{what} has no webhooks", "run helm upgrade")
    for webhook in webhooks:
        if not webhook["clientConfig"].get("caBundle"):
            return fail(
                f"{what}: {webhook['name']} has no caBundle, so the API server trusts no replica",
                "tls.mode SelfManaged: see the replicas' logs; CertManager: cainjector's; else set caBundle",
            )
    try:
        from certs import CABundle, CertificateError  # noqa: PLC0415 # only with the extra `server`
    except ModuleNotFoundError:
        cure = "to examine it: pip install 'topology-webhook[server]', or helm test"
        return warn(f"{what}: {len(webhooks)} webhooks, their CA was not examined", cure)
    until = []
    for webhook in webhooks:
        try:
            bundle = CABundle.from_pem(base64.b64decode(webhook["clientConfig"]["caBundle"]))
        except (CertificateError, binascii.Error) as error:
            return fail(f"{what}: the caBundle of {webhook['name']} cannot be read: {error}", "write PEM certificates")
        ends = [ca.not_valid_after_utc for ca in bundle.certificates if ca.not_valid_before_utc <= now]
        if max(ends, default=now) <= now:
            return fail(
                f"{what}: no CA in the caBundle of {webhook['name']} is valid now",
                "see the replicas' logs: the service, or what writes caBundle, must renew it",
            )
        until.append(max(ends))
    return ok(f"{what}: {len(webhooks)} webhooks, their CA is valid until {min(until):%Y-%m-%d}")


async def protection(release: Release) -> list[Finding]:
    """Whether the policies deny writes to the service's fields."""
    kind = Resource("admissionregistration.k8s.io", "v1", "validatingadmissionpolicybindings").path
    names = [f"{release.name}-{each}" for each in _POLICIES]
    return [judge_protection({name: await release.get(f"{kind}/{name}") for name in names})]


def judge_protection(bindings: Mapping[str, Raw | None]) -> Finding:
    """bindings: the ValidatingAdmissionPolicyBindings by name; None: it does not exist."""
    if missing := [name for name, raw in bindings.items() if raw is None]:
        return warn(
            f"no ValidatingAdmissionPolicyBinding {' and '.join(missing)}: where the webhooks are not called, "
            "tenants can forge allocations",
            "set admissionPolicy.enabled",
        )
    if lenient := [name for name, raw in bindings.items() if raw and "Deny" not in raw["spec"]["validationActions"]]:
        return warn(
            f"ValidatingAdmissionPolicyBinding {' and '.join(lenient)} denies nothing: tenants can forge allocations",
            "set settings.mode to Enforce, the only mode in which they deny",
        )
    return ok("only the service writes its annotations, labels and gate")
