"""The measured process as the bench sees it: what its probe reports, and how far it is behind the stream."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

from tests.cluster.ports import free_port
from tests.scale.storage import NODES, PODS, TOPOLOGIES

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from tests.scale.storage import Storage

KINDS: Final = (TOPOLOGIES, PODS, NODES)


class EndedError(RuntimeError):
    """The measured process has ended."""


class Measured:
    """The process. url: of its webhooks."""

    def __init__(self, storage: Storage, url: str) -> None:
        self.url = url
        self.ready = False
        """Whether it is ready, and leads."""
        self.cpu_seconds = 0.0
        self.peak_mib = 0.0
        self.behind: dict[str, list[float]] = {kind: [] for kind in KINDS}
        """By kind, the seconds from the moment an event was sent until it was processed."""
        self.log: list[str] = []
        self.ended = False
        self._storage = storage
        self._news = asyncio.Event()

    async def follow(self, output: asyncio.StreamReader) -> None:
        """Read what the process prints, until it ends."""
        async for line in output:
            try:
                seen = json.loads(line)
            except ValueError:
                seen = {}
            if isinstance(seen, dict) and "versions" in seen:
                self._note(seen)
            else:
                self.log.append(line.decode(errors="replace").rstrip())
        self.ended = True
        self._wake()

    async def wait_until(self, holds: Callable[[], bool]) -> None:
        """Wait until this holds after a report. Raises EndedError."""
        while not holds():
            if self.ended:
                raise EndedError("\n".join(self.log[-20:]))
            await self._news.wait()

    async def caught_up(self) -> None:
        """Wait until every event that was sent is processed."""
        await self.wait_until(lambda: not any(self._storage.sent[kind] for kind in KINDS))

    def _note(self, seen: dict[str, Any]) -> None:
        self.cpu_seconds, self.peak_mib = seen["cpu"], seen["peak_mib"]
        self.ready = seen["ready"]
        for kind in KINDS:
            version = int(seen["versions"].get(kind) or 0)
            self.behind[kind] += self._storage.behind(kind, version, seen["at"])
        self._wake()

    def _wake(self) -> None:
        self._news.set()
        self._news = asyncio.Event()


@asynccontextmanager
async def measured(storage: Storage, api_server: str, folder: Path) -> AsyncIterator[Measured]:
    """Start the process with the files in `folder`: kubeconfig, tls.crt, tls.key."""
    (folder / "kubeconfig").write_text(json.dumps(_kubeconfig(api_server)))
    port = free_port()
    flags = {
        "kubeconfig": str(folder / "kubeconfig"),
        "tls_cert_file": str(folder / "tls.crt"),
        "tls_key_file": str(folder / "tls.key"),
        "bind_address": "127.0.0.1",
        "port": str(port),
        "metrics_port": "0",
        "log_level": "warning",
    }
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.scale.replica",
        json.dumps(flags),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env={"PATH": os.environ["PATH"]},
    )
    assert process.stdout is not None
    seen = Measured(storage, f"https://127.0.0.1:{port}")
    following = asyncio.create_task(seen.follow(process.stdout))
    try:
        yield seen
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await following
        await process.wait()


def _kubeconfig(server: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "synthetic", "cluster": {"server": server}}],
        "users": [{"name": "webhook", "user": {"token": "synthetic"}}],
        "contexts": [{"name": "synthetic", "context": {"cluster": "synthetic", "user": "webhook"}}],
        "current-context": "synthetic",
    }
