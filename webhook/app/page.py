"""The page's port, of a replica (`serve --page`) and of a person's own process (`topology-webhook page`)."""

from collections.abc import Collection, Iterable, Iterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from webhook.app.informers import Watched
from webhook.page.app import Source, page_app
from webhook.page.change_stream import MAX_STREAMS
from webhook.server.listener import Limits, Listener

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

_LIMITS: Final = Limits(connections=4 * MAX_STREAMS, bytes=1024 * 1024)
"""A browser opens up to six connections to a host while it loads, and keeps one or two. Requests have no body."""
_HEAD_LINE_BYTES: Final = 32 * 1024
"""A browser sends the cookies of every other port of localhost, and these add up."""


def page_listener(source: Source, hosts: Collection[str] = ()) -> Listener:
    """The page's port, not open yet. hosts: see `webhook.page.protection`."""
    application = page_app(source, hosts)
    return Listener(application, finish_seconds=1.0, name="page", limits=_LIMITS, head_line_bytes=_HEAD_LINE_BYTES)


@asynccontextmanager
async def page_port(source: Source, address: str, port: int) -> "AsyncIterator[int]":
    """Serve the page; gives the port. Raises OSError if it cannot be opened."""
    listener = page_listener(source)
    try:
        await listener.open(address, port)
        yield listener.port
    finally:
        await listener.close()


def problems_of(watched: Iterable[Watched]) -> Iterator[str]:
    """A sentence for each kind of object that cannot be read, or that is not read yet."""
    for each in watched:
        status = each.status
        if status.error:
            yield f"{status.name} cannot be read, so the page may be incomplete or old: {status.error}"
        elif not status.synced:
            yield f"{status.name}: not read yet."
