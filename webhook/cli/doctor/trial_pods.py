"""Two pods created as dry runs: the API server calls the webhook for them as for any pod, and stores neither.

The good one is admitted and has a decision. The bad one has an annotation with a typing error, and is denied for it.
"""

from typing import Any, Final

from webhook.cli.doctor.finding import Finding, fail, ok, warn
from webhook.cli.doctor.release import Release
from webhook.formats.kubernetes.gates import has_gate
from webhook.kube.api_errors import APIError
from webhook.kube.resource import Resource
from webhook.model.names import NUMA_TOPOLOGY_SPEC, PLACEMENT
from webhook.model.raw import Raw

GOOD: Final = '{"numaTopologyPolicy": ""}'
BAD: Final = '{"numaTopologyPolicy": "SingleNumaNod"}'
_DENIED: Final = "admission webhook"
_UNREACHED: Final = "failed calling webhook"


def trial_pod(name: str, spec: str) -> dict[str, Any]:
    """A pod that every Pod Security level admits."""
    amounts = {"cpu": "1", "memory": "64Mi"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": {NUMA_TOPOLOGY_SPEC: spec}},
        "spec": {
            "securityContext": {"runAsNonRoot": True, "runAsUser": 65532, "seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [
                {
                    "name": "main",
                    "image": "none",
                    "resources": {"requests": amounts, "limits": amounts},
                    "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
                }
            ],
        },
    }


async def good_pod(release: Release) -> list[Finding]:
    """Whether a pod that asks for a placement gets one."""
    if (mode := (await release.settings()).mode) != "Enforce":
        return [
            warn(
                f"settings.mode is {mode}: pods are neither changed nor denied, so no pod was tried",
                "set it to Enforce when you have seen enough",
            )
        ]
    try:
        created = await create_trial_pod(release, "topology-webhook-doctor-good", GOOD)
    except APIError as error:
        if error.status == 403 and _may_not(error):
            raise
        return [judge_refusal(error, release.trial_namespace)]
    return [judge_admitted(created, release.trial_namespace)]


def judge_admitted(pod: Raw, namespace: str) -> Finding:
    """Whether the pod has a decision."""
    text = (pod["metadata"].get("annotations") or {}).get(PLACEMENT, "")
    if not text:
        return fail(
            f"a pod with an annotation was admitted in {namespace} unchanged: the webhook was not called, or silent",
            "see the checks above. Is the namespace covered by webhook.namespaceSelector, and not excluded? "
            "--trial-namespace names another",
        )
    gated = "gated" if has_gate(pod) else "not gated"
    return ok(f"admitted in {namespace}, {gated}: {text.splitlines()[0]}")


def judge_refusal(error: APIError, namespace: str) -> Finding:
    """Why a good pod is refused."""
    message = str(error)
    if _UNREACHED not in message:
        return fail(
            f"a good pod is refused in {namespace}: {message}",
            "correct what the message names, or use another namespace: --trial-namespace",
        )
    if "x509" in message or "tls" in message.lower():
        return fail(
            f"the API server does not accept its certificate: {message}",
            "compare caBundle with the certificate's CA, and tls.names with the called name",
        )
    return fail(
        f"the API server cannot reach the service: {message}",
        "are replicas ready, and may the API server connect to their port (networkPolicy, hostNetwork, firewall)?",
    )


async def bad_pod(release: Release) -> list[Finding]:
    """Whether a typing error in an annotation is denied, with its place. Not in other modes than Enforce."""
    if (await release.settings()).mode != "Enforce":
        return []
    try:
        await create_trial_pod(release, "topology-webhook-doctor-bad", BAD)
    except APIError as error:
        if error.status == 403 and _may_not(error):
            raise
        return [judge_denial(error, release.trial_namespace)]
    return [
        fail(
            f"a pod with an invalid annotation was admitted in {release.trial_namespace}",
            "the webhook was not called, or silent: see the good pod",
        )
    ]


def judge_denial(error: APIError, namespace: str) -> Finding:
    """Whether it is the service that denies the bad pod, and says why."""
    message = str(error)
    if _UNREACHED in message or _DENIED not in message or NUMA_TOPOLOGY_SPEC not in message:
        return fail(
            f"a bad pod is refused in {namespace}, but not for its annotation: {message}",
            "see the good pod, or use another namespace: --trial-namespace",
        )
    return ok(f"denied in {namespace}: {message}")


def _may_not(error: APIError) -> bool:
    """Whether RBAC forbids us to create pods."""
    return "cannot create resource" in str(error)


async def create_trial_pod(release: Release, name: str, spec: str) -> Raw:
    """The pod as it would be stored. Raises APIError."""
    path = Resource("", "v1", "pods", release.trial_namespace).path
    return await release.client.create(path, trial_pod(name, spec), {"dryRun": "All"})
