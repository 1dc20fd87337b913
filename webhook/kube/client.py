"""One connection to the API server: raw JSON in, raw JSON out.

`Client` adds to HTTP an error type for each kind of failure, deadlines, a rate limit, and streams as lines.
`HTTPSession` makes the requests, and `ListPage` decodes the pages of lists.
"""

import asyncio
import json
import socket
import sys
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any, Final, Self
from urllib.parse import quote, urlencode
from urllib.request import getproxies

import aiohttp
import structlog
from kubernetes.aio.client import Configuration
from kubernetes.aio.client.rest import RESTClientObject

from webhook.codec import dumps, loads
from webhook.kube.api_errors import (
    APIError,
    ClusterError,
    MalformedAnswerError,
    SilenceError,
    UnreachableError,
    mapping_or_empty,
)
from webhook.kube.credentials import Credentials, load_credentials
from webhook.kube.pacing import Backoff, RateLimiter
from webhook.kube.resource import is_object, items_of
from webhook.model.raw import Raw
from webhook.version import DISTRIBUTION, VERSION

log = structlog.get_logger(__name__)

_ITEMS: Final = b'"items":['
# An object may contain lists of objects that begin as it does. Each wrong place costs as much as decoding up to there.
_MOST_TRIES: Final = 16
# A dozen watches stay open. The remaining connections are for calls; HTTP/1.1 makes one at a time per connection.
_CONNECTIONS: Final = 32
# An event of a watch can be larger than aiohttp's default buffer of 64 KiB.
_READ_BYTES: Final = 2 * 1024 * 1024
_TOKEN: Final = "BearerToken"  # noqa: S105 # the name in the Kubernetes client's configuration
NO_ANSWER: Final = "none"
JSON_PATCH: Final = "application/json-patch+json"
MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC_MERGE_PATCH: Final = "application/strategic-merge-patch+json"
APPLY_PATCH: Final = "application/apply-patch+yaml"
# Source: kubernetes apiserver pkg/endpoints/handlers/response.go. A server that knows no such form sends the object.
_METADATA: Final = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
# Every authenticated user may call this (ClusterRole system:basic-user).
_PATH: Final = "/apis/authentication.k8s.io/v1/selfsubjectreviews"


class ListPage:
    """One page of a list, the answer `text` to `call`. Its objects are cut from the text and decoded one at a time.

    500 pods are 2 MiB of text, but 20 MiB of Python objects. Decoded one at a time they fit the CPU's caches, and the
    next one takes the memory of the last one. Decoded a page at a time, a list of 50,000 pods takes 65 % more CPU time,
    from its text to the state of 5,000 nodes.

        {"kind":"PodList","metadata":{...},"items":[{"metadata":...},{"metadata":...}]}
        |-------------- head -------------|         |--- object ---| |--- object ---||-| tail

    1. The head ends before "items". It is a field of the page itself if the head and a closing brace are valid JSON.
    2. An object ends where the next one seems to begin, or where a list seems to end. This is so if the text up to
       there is valid JSON: no JSON object is the beginning of another. Otherwise the next such place is tried.
    3. What is left without the objects must be valid JSON, too.

    A page that cannot be cut like this is decoded whole. `call` is a GET of the list at `path`.
    """

    def __init__(self, text: bytes, call: str, path: str) -> None:
        self._text = text
        self._call = call
        self._path = path
        self._rest: Raw | None = None

    @property
    def metadata(self) -> Raw:
        """The list's own metadata, after all objects have been read."""
        return mapping_or_empty((self._rest or {}).get("metadata"))

    def objects(self) -> Iterator[tuple[Raw, bytes | None]]:
        """The objects, each with its text; None if the page was decoded whole. Other entries are logged and left out.

        Raises UnreachableError or MalformedAnswerError if the answer is not a list, possibly after some objects.
        """
        begin = self._first()
        odd = 0
        while begin is not None:
            found = self._object_at(begin)
            if found is None:
                break
            raw, text = found
            end = begin + len(text)
            if is_object(raw):
                yield raw, text
            else:
                odd += 1
            del raw, text, found
            if self._text[end : end + 1] == b"]":
                self._rest = self._without_items(end)
                break
            begin = end + 1
        if self._rest is None:
            for raw in self._decoded_whole():
                yield raw, None
        elif odd:
            log.warning("list.odd_objects", path=self._path, count=odd)

    def _first(self) -> int | None:
        """Where the first object begins; None if the page cannot be cut."""
        at = self._text.find(_ITEMS)
        begin = at + len(_ITEMS)
        if at < 0 or self._text[begin : begin + 1] != b"{":
            return None
        return begin if isinstance(_decoded(self._text[:at].rstrip(b",") + b"}"), dict) else None

    def _object_at(self, begin: int) -> tuple[Any, bytes] | None:
        """The object that begins there, and its text; None if its end was not found."""
        text = self._text
        end = begin
        start_of_next = b"}," + text[begin : text.find(b":", begin) + 1]
        for _ in range(_MOST_TRIES):
            end = text.find(start_of_next, end) + 1
            if not end:
                break
            raw = _decoded(whole := text[begin:end])
            if raw is not None:
                return raw, whole
        end = len(text)
        for _ in range(_MOST_TRIES):
            end = text.rfind(b"}]", begin, end) + 1
            if not end:
                break
            raw = _decoded(whole := text[begin:end])
            if raw is not None:
                return raw, whole
        return None

    def _without_items(self, end: int) -> Raw | None:
        """The page with an empty list; None if that is not valid JSON."""
        begin = self._text.find(_ITEMS) + len(_ITEMS)
        rest = _decoded(self._text[:begin] + self._text[end:])
        return rest if isinstance(rest, dict) else None

    def _decoded_whole(self) -> Iterator[Raw]:
        try:
            page = loads(self._text)
        except ValueError as error:
            msg = f"{self._call}: the answer broke off: {error}"
            raise UnreachableError(msg) from error
        if not isinstance(page, dict):
            msg = f"{self._call}: the answer is not an object: {self._text[:200]!r}"
            raise MalformedAnswerError(msg)
        self._rest = page
        yield from items_of(page, self._path)


def _decoded(text: bytes) -> Any:
    """The JSON value of the text; None if it is not valid."""
    try:
        return loads(text)
    except ValueError:
        return None


# After 30 s of silence the connection is probed, and closed 3 x 5 s later: a vanished API server is detected in 45 s.
_KEEPALIVE: Final = {"TCP_KEEPIDLE": 30, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3}


def keepalive_socket(address: tuple[Any, ...]) -> socket.socket:
    """A socket with TCP keepalive, by which a watch notices a peer that vanished without closing the connection."""
    family, kind, protocol = address[0], address[1], address[2]
    connection = socket.socket(family, kind, protocol)
    connection.setblocking(False)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in _KEEPALIVE.items():
        if hasattr(socket, option):  # macOS names some of them differently
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
    return connection


class HTTPSession:
    """The connections of one client, with TLS settings, proxy and token of the Kubernetes client's configuration.

    They are opened when they are needed. Requests do not go through the Kubernetes client itself. It looks for typed
    models in headers, queries and bodies, which takes a fifth of the CPU time of a write, and keeps cookies, which no
    API server needs.
    """

    def __init__(self, configuration: Configuration) -> None:
        self._configuration = configuration
        self._tls = RESTClientObject(configuration).ssl_context
        self._session: aiohttp.ClientSession | None = None
        self._options = _options(configuration)

    async def request(
        self,
        method: str,
        path: str,
        query: Mapping[str, str | int] | None,
        body: Any,
        *,
        content_type: str,
        accept: str,
        limits: aiohttp.ClientTimeout,
    ) -> aiohttp.ClientResponse:
        """Send a request; the answer's body is unread. body: encoded as JSON; None: no body."""
        headers = {
            "Accept": accept,
            "Content-Type": content_type,
            "User-Agent": f"{DISTRIBUTION}/{VERSION}",
            **await self._authorization(),
        }
        url = f"{self._configuration.host}{path}"
        if query:
            url = f"{url}?{urlencode(query, quote_via=quote)}"
        text = None if body is None else encoded(body)
        return await self._opened().request(method, url, headers=headers, data=text, timeout=limits, **self._options)

    async def close(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()

    def _opened(self) -> aiohttp.ClientSession:
        """The session. It can only be made while the event loop runs."""
        if self._session is None:
            connector = aiohttp.TCPConnector(
                ssl=self._tls,
                limit=_CONNECTIONS,
                socket_factory=keepalive_socket,
                # An aborted call's connection stays in these until its peer closes it, which a hanging peer never does.
                enable_cleanup_closed=sys.version_info < (3, 12, 7),
            )
            self._session = aiohttp.ClientSession(
                connector=connector,
                cookie_jar=aiohttp.DummyCookieJar(),
                read_bufsize=_READ_BYTES,
                # aiohttp would look for proxies in the environment and read ~/.netrc at each call, a tenth of a call's
                # cost. Usually there are none.
                trust_env=bool(getproxies()),
            )
        return self._session

    async def _authorization(self) -> dict[str, str]:
        """The header with the token; empty with another kind of credentials."""
        keys = self._configuration.api_key
        if _TOKEN not in keys and "authorization" not in keys:
            return {}
        token = await self._configuration.get_api_key_with_prefix(_TOKEN, alias="authorization")
        return {"Authorization": token} if token else {}


def encoded(body: Any) -> bytes:
    """The body as JSON. The fast encoder knows no enums as keys and no halves of characters, the other one does."""
    try:
        return dumps(body)
    except (TypeError, ValueError):
        return json.dumps(body).encode()


def _options(configuration: Configuration) -> dict[str, Any]:
    """What the configuration says about the way to the API server."""
    found = {
        "server_hostname": configuration.tls_server_name,
        "proxy": configuration.proxy,
        "proxy_headers": configuration.proxy_headers,
    }
    return {name: value for name, value in found.items() if value}


# The API server lists a page of 500 pods in well under a second; half a minute means that it is in trouble.
_CALL_TIMEOUT: Final = aiohttp.ClientTimeout(total=30.0, sock_connect=10.0)


class Client:
    """Calls to the API server with raw objects."""

    def __init__(self, credentials: Credentials, pace: RateLimiter | None = None) -> None:
        configuration = credentials.configuration
        # OpenSSL's strict mode (the default from Python 3.13 on) rejects CAs without an authority key identifier, which
        # many clusters have; kubectl accepts them.
        configuration.disable_strict_ssl_verification = True
        self._credentials = credentials
        self._pace = pace or RateLimiter()
        self._http = HTTPSession(configuration)
        self.errors: Counter[tuple[str, str]] = Counter()
        """How many calls failed, by method and status; "none": there was no answer, or it broke off."""

    @classmethod
    async def connect(
        cls, kubeconfig: Path | None = None, context: str | None = None, pace: RateLimiter | None = None
    ) -> Self:
        """A client for a kubeconfig's context, or for the cluster we run in; makes no call yet."""
        return cls(await load_credentials(kubeconfig, context), pace)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections."""
        await self._http.close()

    @property
    def host(self) -> str:
        """The API server's URL."""
        return str(self._credentials.configuration.host)

    @property
    def namespace(self) -> str:
        """The namespace of calls that name none, as for kubectl."""
        return self._credentials.namespace

    @property
    def source(self) -> str:
        """Where the credentials come from, for messages."""
        return self._credentials.source

    async def get(self, path: str, query: Mapping[str, str | int] | None = None) -> Raw:
        """The object or list at `path`."""
        return await self._call("GET", path, query)

    async def page(self, path: str, query: Mapping[str, str | int]) -> ListPage:
        """A page of the list at `path`."""
        return ListPage(await self._read("GET", path, query), f"GET {path}", path)

    async def create(self, path: str, body: Raw, query: Mapping[str, str | int] | None = None) -> Raw:
        """Create `body` in the collection at `path`; 409 (APIError) if it exists."""
        return await self._call("POST", path, query, body)

    async def delete(self, path: str, options: Raw | None = None) -> Raw:
        """Delete the object at `path`; 404 (APIError) if it does not exist. options: its DeleteOptions."""
        return await self._call("DELETE", path, body=options)

    async def patch(self, path: str, body: Raw | list[Raw]) -> Raw:
        """Patch the object at `path`: a list is a JSON patch, a mapping a merge patch."""
        content_type = JSON_PATCH if isinstance(body, list) else MERGE_PATCH
        return await self._call("PATCH", path, body=body, content_type=content_type)

    async def write(self, path: str, body: Raw | list[Raw]) -> None:
        """The same as `patch`, without the new object: the API server answers with its metadata, which is not read."""
        content_type = JSON_PATCH if isinstance(body, list) else MERGE_PATCH
        await self._read("PATCH", path, body=body, content_type=content_type, accept=_METADATA)

    async def merge(self, path: str, body: Raw) -> None:
        """Patch the object of a built-in kind at `path`; lists such as conditions are merged by key.

        The answer is that of `write`.
        """
        await self._read("PATCH", path, body=body, content_type=STRATEGIC_MERGE_PATCH, accept=_METADATA)

    async def add(self, path: str, body: Raw) -> None:
        """The same as `create`, with the answer of `write`."""
        await self._read("POST", path, body=body, accept=_METADATA)

    async def apply(self, path: str, body: Raw, manager: str) -> Raw:
        """Server-side apply `body` to the object at `path`; 409 on a conflict with another manager."""
        return await self._call("PATCH", path, {"fieldManager": manager}, body, APPLY_PATCH)

    @asynccontextmanager
    async def lines(
        self, path: str, query: Mapping[str, str | int], silence: float
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """The lines of a streamed answer until the server ends it; entered when the answer begins.

        Raises SilenceError after `silence` seconds without a line. An incomplete last line is dropped.
        """
        limits = aiohttp.ClientTimeout(total=None, sock_connect=10.0, sock_read=silence)
        response = await self._send("GET", path, query, limits=limits)
        try:
            # aclosing: if an event raises, the generator ends now, not at garbage collection.
            async with aclosing(_lines(response, f"GET {path}", silence)) as lines:
                yield lines
        finally:
            response.close()

    async def _call(
        self,
        method: str,
        path: str,
        query: Mapping[str, str | int] | None = None,
        body: Raw | list[Raw] | None = None,
        content_type: str = "application/json",
    ) -> Raw:
        text = await self._read(method, path, query, body, content_type)
        try:
            answer: Any = loads(text)
        except ValueError as error:
            raise _broken_off(method, path, error) from error
        if not isinstance(answer, dict):
            msg = f"{method} {path}: the answer is not an object: {text[:200]!r}"
            raise MalformedAnswerError(msg)
        return answer

    async def _read(
        self,
        method: str,
        path: str,
        query: Mapping[str, str | int] | None = None,
        body: Raw | list[Raw] | None = None,
        content_type: str = "application/json",
        accept: str = "application/json",
    ) -> bytes:
        """The text of the answer."""
        response = await self._send(method, path, query, body, content_type, accept)
        try:
            return await response.read()
        except (aiohttp.ClientError, OSError) as error:
            self.errors[method, NO_ANSWER] += 1
            raise _broken_off(method, path, error) from error

    async def _send(
        self,
        method: str,
        path: str,
        query: Mapping[str, str | int] | None = None,
        body: Raw | list[Raw] | None = None,
        content_type: str = "application/json",
        accept: str = "application/json",
        *,
        limits: aiohttp.ClientTimeout = _CALL_TIMEOUT,
    ) -> aiohttp.ClientResponse:
        """Send the request and return the answer with its body unread; raises APIError for an error status."""
        await self._pace.turn()
        try:
            response = await self._http.request(
                method, path, query, body, content_type=content_type, accept=accept, limits=limits
            )
        except (aiohttp.ClientError, OSError) as error:  # asyncio.TimeoutError is an OSError since Python 3.11
            self.errors[method, NO_ANSWER] += 1
            msg = f"{method} {path}: {_in_words(error)}"
            raise UnreachableError(msg) from error
        if response.status >= 400:
            self.errors[method, str(response.status)] += 1
            if response.status == 401:
                self._credentials.forget_token()
            raise await _error_of(response)
        return response


def _broken_off(method: str, path: str, error: Exception) -> UnreachableError:
    return UnreachableError(f"{method} {path}: the answer broke off: {_in_words(error)}")


async def _lines(response: aiohttp.ClientResponse, call: str, silence: float) -> AsyncGenerator[bytes, None]:
    try:
        rest = b""
        async for chunk in response.content.iter_any():
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                if line:
                    yield line
    except aiohttp.SocketTimeoutError as error:
        msg = f"{call}: nothing came for {silence:.0f} s"
        raise SilenceError(msg) from error
    except (aiohttp.ClientError, OSError) as error:
        msg = f"{call}: the stream broke off: {_in_words(error)}"
        raise UnreachableError(msg) from error


async def _error_of(response: aiohttp.ClientResponse) -> APIError:
    """The error in an answer: a Status, or a proxy's own page."""
    try:
        text = await response.read()
    except (aiohttp.ClientError, OSError):
        text = b""
    try:
        status = loads(text)
    except ValueError:
        status = None
    if not isinstance(status, dict) or status.get("kind") != "Status":
        # The first 200 characters of a proxy's page name the proxy and its error.
        status = {"reason": response.reason, "message": text[:200].decode(errors="replace")}
    try:
        retry_after = float(response.headers.get("Retry-After", "0"))
    except ValueError:  # a date, which API servers do not send
        retry_after = 0.0
    return APIError.from_status(status, response.status, retry_after)


def _in_words(error: Exception) -> str:
    """The text of an exception; the name of its type if it has none, as for a timeout."""
    return str(error) or type(error).__name__


_REVIEW: Final = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}


async def own_user(client: Client) -> str:
    """Our own user name, as webhooks see it in our requests, such as system:serviceaccount:<namespace>:<name>.

    Retried until the API server answers.
    """
    backoff = Backoff()
    while True:
        try:
            review = await client.create(_PATH, dict(_REVIEW))
        except ClusterError as error:
            log.warning("identity.retry", error=str(error))
            await asyncio.sleep(backoff.next())
        else:
            return str(review["status"]["userInfo"]["username"])
