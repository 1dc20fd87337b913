"""The `serve` process: it logs, reads its settings, connects to the API server and runs the service until a signal.

Background tasks are supervised: a failed task is restarted (see `webhook.supervise`), and the others continue. On
SIGTERM the service ends first (see `service`), then every task is cancelled. The process exits with 1 only if it cannot
serve at all: a port cannot be opened, or the settings lead to no API server.
"""

import asyncio
import gc
from collections.abc import Callable, Iterator

import structlog

from certs import CertificateError
from webhook.app import logs
from webhook.app.clients import Clients
from webhook.app.service import Service
from webhook.app.settings import Settings
from webhook.app.signals import stop_event
from webhook.codec import CODEC
from webhook.kube.api_errors import ConnectionSettingsError
from webhook.supervise import supervised
from webhook.version import VERSION

log = structlog.get_logger(__name__)

# With the defaults (700, 10, 10) the collector often scans all objects: half of the time to read 50,000 pods. Those of
# lists are hidden from it (see `webhook.collector`). Of the others it scans at most 10,000 young ones at a time, which
# takes 5 ms, and five times as many when they are older: reviews wait meanwhile. At 5,000 nodes and 20,000 pods, 1,200
# reviews and 10,000 changed pods wait for 75 ms in total instead of 226, and for 9 ms at a time instead of 73.
_GC_THRESHOLDS = (10_000, 5, 100)


def run(settings: Settings) -> int:
    """Serve until a signal; returns the exit code."""
    logs.configure(settings.log_level, settings.log_format)
    gc.set_threshold(*_GC_THRESHOLDS)
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        try:
            runner.run(_serve(settings))
        except* (ConnectionSettingsError, CertificateError, OSError) as group:
            # Faults of the environment: a sentence is more useful than a traceback.
            for error in _leaves(group):
                log.critical("serve.failed", error=str(error))
        except* Exception as group:
            for error in _leaves(group):
                log.critical("serve.failed", error=repr(error), exc_info=error)
        else:
            return 0
    return 1


async def _serve(settings: Settings) -> None:
    stop = stop_event()
    async with Clients.connect(settings) as clients:
        client = clients.general
        log.info("serve.starting", version=VERSION, api_server=client.host, credentials=client.source, codec=CODEC)
        service = Service(settings, clients)
        async with asyncio.TaskGroup() as tasks:
            background = [tasks.create_task(supervised(run)) for run in service.background()]
            await service.serve(stop)
            for task in background:
                task.cancel()
    log.info("serve.ended")


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """The loop of uvloop if it is installed; None for that of asyncio."""
    try:
        import uvloop  # noqa: PLC0415 # an extra
    except ImportError:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory


def _leaves(error: BaseException) -> Iterator[BaseException]:
    """The single exceptions in nested groups."""
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from _leaves(inner)
    else:
        yield error
