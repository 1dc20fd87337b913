"""A small client for the API server: raw objects over a few keep-alive connections.

Tests create thousands of objects with it; starting kubectl for each would cost 0.1 s a piece.
"""

from __future__ import annotations

import copy
import http.client
import json
import ssl
import time
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"
WATCH_BYTES = 2**18
RETRIES, RETRY_AFTER_SECONDS = 10, 1.0  # client-go's number, and what the API server's Retry-After says
WORKERS = 8  # enough to keep two API server cores busy; more only queue there


class ApiError(Exception):
    """The API server rejected a request. status: HTTP code; reason: of the Kubernetes Status; message: for people."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(f"{status} {reason}: {message}")
        self.status = status
        self.reason = reason
        self.message = message


class Api:
    """Requests as the user of one bearer token."""

    def __init__(self, url: str, authority: Path, token: str) -> None:
        self._address = urlsplit(url)
        self._tls = ssl.create_default_context(cafile=str(authority))
        self._headers = {"Authorization": f"Bearer {token}", "Accept": JSON}
        self._idle: list[http.client.HTTPSConnection] = []  # append and pop are atomic

    def acting_as(self, user: str, group: str) -> Api:
        """A client that impersonates a user of one group. It has its own connections."""
        other = copy.copy(self)
        other._headers = {**self._headers, "Impersonate-User": user, "Impersonate-Group": group}
        other._idle = []
        return other

    def close(self) -> None:
        while self._idle:
            self._idle.pop().close()

    def get(self, path: str) -> Any:
        """Read; again as client-go does, if the server is too busy or makes room for a changed CRD (429)."""
        for _ in range(RETRIES):
            try:
                return self.request("GET", path)
            except ApiError as error:
                if error.status != HTTPStatus.TOO_MANY_REQUESTS:
                    raise
                time.sleep(RETRY_AFTER_SECONDS)
        return self.request("GET", path)

    def create(self, path: str, body: object) -> Any:
        """POST an object to a collection's path."""
        return self.request("POST", path, body)

    def replace(self, path: str, body: object) -> Any:
        return self.request("PUT", path, body)

    def patch(self, path: str, body: object) -> Any:
        """Merge-patch an object."""
        return self.request("PATCH", path, body, MERGE_PATCH)

    def delete(self, path: str, body: object | None = None) -> Any:
        """Delete an object or, on a collection's path, all of it; `body` holds DeleteOptions."""
        return self.request("DELETE", path, body)

    def request(self, method: str, path: str, body: object | None = None, content_type: str = JSON) -> Any:
        """Send one request and return the decoded answer. Raises `ApiError` on any code that is not 2xx."""
        payload = None if body is None else json.dumps(body).encode()
        response, text = self._send(method, path, payload, content_type)
        if response.status < 300:
            return json.loads(text) if text.startswith(b"{") else text.decode()
        try:
            status = json.loads(text)
        except ValueError:
            status = {}
        raise ApiError(response.status, status.get("reason", ""), status.get("message", text.decode(errors="replace")))

    def _send(
        self, method: str, path: str, payload: bytes | None, content_type: str
    ) -> tuple[http.client.HTTPResponse, bytes]:
        while True:
            try:
                connection, reused = self._idle.pop(), True
            except IndexError:  # no check before: another thread could take the last one in between
                connection, reused = self._connect(), False
            try:
                connection.request(method, path, payload, {**self._headers, "Content-Type": content_type})
                response = connection.getresponse()
                text = response.read()
            except (http.client.HTTPException, OSError):
                connection.close()
                if not reused:
                    raise
                continue  # the server had closed the idle connection
            self._idle.append(connection)
            return response, text

    def _connect(self, timeout: float | None = 60) -> http.client.HTTPSConnection:
        host, port = self._address.hostname, self._address.port
        assert host is not None
        return http.client.HTTPSConnection(host, port, context=self._tls, timeout=timeout)

    def watch(self, path: str) -> Iterator[Any]:
        """The events of a collection's path with `watch=1` in its query, until the server ends the watch."""
        connection = self._connect(timeout=None)
        try:
            connection.request("GET", path, headers=self._headers)
            response = connection.getresponse()
            if response.status != 200:
                raise ApiError(response.status, "", response.read().decode(errors="replace"))
            # Not by lines: http.client finds their ends byte by byte. The API server ends watches that read too slowly.
            rest = b""
            while chunk := response.read1(WATCH_BYTES):
                *lines, rest = (rest + chunk).split(b"\n")
                yield from map(json.loads, lines)
        finally:
            connection.close()

    def in_parallel(self, calls: Iterable[Callable[[], Any]]) -> list[Any]:
        """Run calls on a few threads; their results in order. The first error is raised when all are done."""
        with ThreadPoolExecutor(WORKERS) as pool:
            return [future.result() for future in [pool.submit(call) for call in calls]]
