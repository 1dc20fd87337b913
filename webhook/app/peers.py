"""What replicas ask one another: the reviews that only the leader can answer, by mutual TLS.

1. A replica finds the leader's address in the Lease, passes the review on as it came, and returns the answer. It is one
   call, which ends before the review does. If it fails, the replica answers as well as it can alone.
2. Replicas know each other by certificates of a CA whose key each of them derives from the key that signs NUMA
   allocations (`app.allocation_key_secret`). So there is no CA to store, to publish or to renew, however the
   certificate for the API server is obtained. Who has that key could forge allocations anyway.
3. The port for other replicas has its own application, which asks no one: a review is passed on once at most.

The API server's certificate is checked by the replica that it called. The leader answers what a replica passes on as if
the API server had called it, and believes it no more than that: without client certificates, briefly.
"""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from io import BytesIO
from typing import TYPE_CHECKING, Any, Final, NoReturn

import aiohttp
import structlog
from cryptography.x509.oid import ExtendedKeyUsageOID

from certs import Authority, CABundle, ServerNames, client_context, server_context
from webhook.app.certificate import HandshakeContext
from webhook.codec import dumps
from webhook.formats.koordinator.numa_allocation import AllocationKey
from webhook.internal_errors import LogLimit

if TYPE_CHECKING:
    import ssl

log = structlog.get_logger(__name__)

# In every replica's certificate: which of them leads, the Lease says.
_NAME: Final = "replica.topology-webhook.dev"
_BOTH: Final = (ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH)
_RENEW_SECONDS: Final = 60.0
# Of the time that the review has left: the rest is for our own answer if none comes.
_ASKED_SHARE: Final = 0.9
# A machine that is gone refuses no connection.
_CONNECT_SECONDS: Final = 1.0
# As many as an API server sends at a time if all of its mutating requests are bindings (see `binding.guard`). The
# leader's port takes more (`server.listener.REVIEW_LIMITS`).
_CONNECTIONS: Final = 600
# The answer to a Binding has some hundred bytes for each NUMA node.
_LARGEST_ANSWER: Final = 1024 * 1024


class Peers:
    """The other replicas. leader_of: the address of the replica that leads for a node; empty if there is none."""

    def __init__(
        self, leader_of: Callable[[str], str], clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self._leader_of = leader_of
        self._clock = clock
        self._key: AllocationKey | None = None
        self._renew_at: datetime | None = None
        self._listening: HandshakeContext | None = None
        self._asking: ssl.SSLContext | None = None
        self._established = asyncio.Event()
        self._session: aiohttp.ClientSession | None = None
        self._lines = LogLimit(1 / 60, 1)

    def use(self, key: AllocationKey) -> None:
        """Derive the CA from this key, and use a new certificate of it from the next handshake on."""
        self._key = key
        now = self._clock()
        authority = Authority.derived("topology-webhook replicas", key.secret, now)
        leaf, trust = (
            authority.issue(ServerNames.of((_NAME,)), now, usages=_BOTH),
            CABundle.of((authority.certificate,)),
        )
        listening, self._asking = server_context(leaf, trust), client_context(leaf, trust)
        if self._listening is None:
            self._listening = HandshakeContext(listening)
        else:
            self._listening.replace(listening)
        self._renew_at = leaf.window.renew_at
        self._established.set()

    async def run(self) -> NoReturn:
        """Renew the certificate until cancelled."""
        while True:
            await asyncio.sleep(_RENEW_SECONDS)
            self.renew()

    def renew(self) -> None:
        """Renew the certificate if it is time."""
        if self._key is not None and self._renew_at is not None and self._clock() >= self._renew_at:
            self.use(self._key)

    async def context(self) -> HandshakeContext:
        """The context of the port for other replicas, once there is a key."""
        await self._established.wait()
        assert self._listening is not None  # noqa: S101 # set before the event
        return self._listening

    async def ask(self, path: str, review: Any, node: str, deadline: float) -> bytes | None:
        """The leader's answer to an AdmissionReview for this path; None if it gives none.

        deadline: of our own answer, by the event loop's clock.
        """
        address, context = self._leader_of(node), self._asking
        seconds = (deadline - asyncio.get_running_loop().time()) * _ASKED_SHARE
        if not address or context is None or seconds <= 0:
            return None
        try:
            async with self._opened().post(
                f"https://{address}{path}",
                params={"timeout": f"{seconds:.3f}s"},
                data=BytesIO(dumps(review)),
                headers={"Content-Type": "application/json"},
                ssl=context,
                server_hostname=_NAME,
                timeout=aiohttp.ClientTimeout(total=seconds, sock_connect=min(seconds, _CONNECT_SECONDS)),
                allow_redirects=False,
            ) as answer:
                if answer.status == 200 and (answer.content_length or 0) <= _LARGEST_ANSWER:
                    return await answer.read()
                fault = f"HTTP status {answer.status}"
        except (aiohttp.ClientError, OSError, ValueError) as error:  # TimeoutError is an OSError
            fault = f"{type(error).__name__}: {error}"
        if (left_out := self._lines.take()) is not None:
            log.warning("leader.not_asked", address=address, path=path, error=fault, left_out=left_out)
        return None

    async def close(self) -> None:
        """Close all connections to other replicas."""
        if self._session is not None:
            await self._session.close()

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            connector = aiohttp.TCPConnector(limit=_CONNECTIONS, use_dns_cache=False)
            self._session = aiohttp.ClientSession(
                connector=connector, cookie_jar=aiohttp.DummyCookieJar(), trust_env=False, auto_decompress=False
            )
        return self._session
