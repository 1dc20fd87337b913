"""Our own user name, as webhooks see it in our requests."""

import asyncio
from typing import Final

import structlog

from webhook.kube.api_errors import ClusterError
from webhook.kube.backoff import Backoff
from webhook.kube.client import Client

log = structlog.get_logger(__name__)

# Every authenticated user may call this (ClusterRole system:basic-user).
_PATH: Final = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
_REVIEW: Final = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}


async def own_user(client: Client) -> str:
    """The user name, such as system:serviceaccount:<namespace>:<name>; retried until the API server answers."""
    backoff = Backoff()
    while True:
        try:
            review = await client.create(_PATH, dict(_REVIEW))
        except ClusterError as error:
            log.warning("identity.retry", error=str(error))
            await asyncio.sleep(backoff.next())
        else:
            return str(review["status"]["userInfo"]["username"])
