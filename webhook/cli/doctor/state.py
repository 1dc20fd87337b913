"""Whether a replica knows the cluster as it is: its answer to a trial pod must be the one that fresh lists lead to.

The pod asks for one NUMA node, so the answer counts the nodes that fit by their labels, taints, NodeResourceTopologies,
and by what their pods hold. A pod that is placed meanwhile changes the answer: only a difference that stays is one.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from webhook.admission.pod.mutation import mutate_pod
from webhook.app.settings import Settings, rules_of, times_of
from webhook.cli.doctor.finding import Finding, ok, warn
from webhook.cli.doctor.release import Release
from webhook.cli.doctor.trial_pods import create_trial_pod
from webhook.formats.kubernetes.resident import TERMINAL_PHASES
from webhook.kube.api_errors import APIError
from webhook.kube.discovery import NODE_RESOURCE_TOPOLOGIES, locate
from webhook.kube.resource import Resource
from webhook.model.errors import UserError
from webhook.model.names import PLACEMENT
from webhook.model.raw import Raw
from webhook.state.cluster_cache import ClusterCache

_SPEC: Final = '{"numaTopologyPolicy": "SingleNUMANode", "singleNUMANodeExclusive": "Preferred"}'
_TRIES: Final = 3
_BETWEEN_SECONDS: Final = 3.0


async def agreement(release: Release) -> list[Finding]:
    """Whether the answer of the replica that the API server calls is that of fresh lists. Not in other modes."""
    settings = await release.settings()
    if await release.deployment() is None or settings.mode != "Enforce":
        return []
    answered = expected = ""
    for attempt in range(_TRIES):
        if attempt:
            await asyncio.sleep(_BETWEEN_SECONDS)
        try:
            created = await create_trial_pod(release, "topology-webhook-doctor-state", _SPEC)
        except APIError:
            return []  # the check of the good pod says why
        answered = text_of(created)
        if not answered:
            return []  # so it does here
        expected = expected_text(created, await _listed(release, settings), settings)
        if answered == expected:
            break
    return [judge_agreement(answered, expected, release.namespace)]


def judge_agreement(answered: str, expected: str, namespace: str) -> Finding:
    """answered: the replica's placement text; expected: that of fresh lists."""
    if answered == expected:
        return ok(f"the answer is that of fresh lists: {answered.splitlines()[0]}")
    return warn(
        f'a replica answers "{answered.splitlines()[0]}"; fresh lists say "{expected.splitlines()[0]}"',
        f"let the replicas in {namespace} compare their state and log it: docs/troubleshooting.md, "
        '"review and the service disagree"',
    )


def text_of(pod: Raw) -> str:
    """The placement text in a pod; empty if it has none."""
    return str((pod["metadata"].get("annotations") or {}).get(PLACEMENT) or "")


def expected_text(created: Raw, cache: ClusterCache, settings: Settings) -> str:
    """The placement text of the same pod by this state. created: with the service's own additions, or without."""
    decided = mutate_pod(created, cache.snapshot(), rules_of(settings))
    return text_of(decided.mutated) or decided.message


async def _listed(release: Release, settings: Settings) -> ClusterCache:
    cache = ClusterCache(
        times_of(settings), rules=rules_of(settings), pods_in_order=lambda: False, failed_in_order=lambda: False
    )
    async for raw in release.items(Resource("", "v1", "nodes")):
        _add(cache.nodes.add, raw)
    if (served := await locate(release.client, NODE_RESOURCE_TOPOLOGIES)) is not None:
        async for raw in release.items(served):
            _add(cache.node_topologies.add, raw)
    async for raw in release.items(Resource("", "v1", "pods")):
        phase = (raw.get("status") or {}).get("phase")
        if phase == "Failed":
            _add(cache.failed_pods.add, raw)
        elif phase not in TERMINAL_PHASES:
            _add(cache.pods.add, raw)
    return cache


def _add(add: Callable[[Raw], object], raw: Raw) -> None:
    try:
        add(raw)
    except UserError:
        return  # the service leaves it out as well
