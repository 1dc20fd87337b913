"""A shutdown loses no request, over real sockets."""

import asyncio

import aiohttp
import pytest
from aiohttp import web

from webhook.app.signals import drain, finish_seconds, settle_seconds
from webhook.server.health import Health
from webhook.server.listener import Listener


@pytest.mark.parametrize(("whole", "settle", "finish"), [(20.0, 3.0, 17.0), (2.0, 1.0, 1.0), (0.0, 0.0, 0.0)])
def test_the_phases_share_the_time(whole: float, settle: float, finish: float) -> None:
    assert (settle_seconds(whole), finish_seconds(whole)) == (settle, finish)


class Slow:
    """A route that answers on demand."""

    def __init__(self) -> None:
        self.entered = asyncio.Event()
        self.leave = asyncio.Event()

    async def handle(self, _: web.Request) -> web.Response:
        self.entered.set()
        await self.leave.wait()
        return web.Response(text="done")


async def listening(slow: Slow, finish: float) -> Listener:
    app = web.Application()
    app.router.add_get("/", slow.handle)
    listener = Listener(app, finish)
    await listener.open("127.0.0.1", 0)
    return listener


async def get(session: aiohttp.ClientSession, listener: Listener) -> str:
    async with session.get(f"http://127.0.0.1:{listener.port}/") as answer:
        return await answer.text()


async def test_while_endpoints_settle_new_requests_are_taken_and_then_those_in_flight_are_finished() -> None:
    slow = Slow()
    listener = await listening(slow, finish=5.0)
    health = Health(lambda: (), lambda: True)
    async with aiohttp.ClientSession() as session:
        draining = asyncio.create_task(drain(health, listener, 1.0))
        await asyncio.sleep(0)
        assert not health.ready
        late = asyncio.create_task(get(session, listener))
        await slow.entered.wait()
        await asyncio.sleep(0.7)  # past the half of the time that is for settling
        assert not draining.done()
        with pytest.raises(aiohttp.ClientConnectorError):
            await get(session, listener)
        slow.leave.set()
        assert await late == "done"
        await draining


async def test_a_request_that_takes_too_long_does_not_hold_up_the_end() -> None:
    slow = Slow()
    listener = await listening(slow, finish=0.1)
    async with aiohttp.ClientSession() as session:
        stuck = asyncio.create_task(get(session, listener))
        await slow.entered.wait()
        await listener.close()
        with pytest.raises(aiohttp.ClientError):
            await stuck
