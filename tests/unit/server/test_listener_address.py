"""The addresses that a port listens on."""

import asyncio
import socket

import pytest
from aiohttp import web

from webhook.server.listener import Listener


async def _reaches(address: str, port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection(address, port)
    except OSError:
        return False
    writer.close()
    return True


async def _reached(bound: str) -> set[str]:
    listener = Listener(web.Application(), 0.1)
    await listener.open(bound, 0)
    try:
        return {address for address in ("127.0.0.1", "::1") if await _reaches(address, listener.port)}
    finally:
        await listener.close()


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="the machine has no IPv6")
async def test_a_port_on_all_addresses_takes_ipv6_and_ipv4() -> None:
    assert await _reached("::") == {"127.0.0.1", "::1"}


async def test_without_ipv6_a_port_on_all_addresses_takes_ipv4(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "has_dualstack_ipv6", lambda: False)  # as with the kernel's ipv6.disable=1
    assert await _reached("::") == {"127.0.0.1"}


async def test_a_taken_port_is_told_with_its_number_and_closing_it_changes_nothing() -> None:
    first, second = Listener(web.Application(), 0.1), Listener(web.Application(), 0.1)
    await first.open("127.0.0.1", 0)
    try:
        with pytest.raises(OSError, match=f"cannot listen on 127.0.0.1 port {first.port}: address already in use"):
            await second.open("127.0.0.1", first.port)
        await second.close()
        assert await _reaches("127.0.0.1", first.port)
    finally:
        await first.close()


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="the machine has no IPv6")
async def test_an_ipv4_client_has_the_same_address_on_a_port_for_both() -> None:
    listener = Listener(web.Application(), 0.1)
    await listener.open("::", 0)
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", listener.port)
        while not listener.connections._of:  # noqa: ASYNC110 # the listener announces no connection
            await asyncio.sleep(0)
        assert set(listener.connections._of) == {"127.0.0.1"}
        writer.close()
    finally:
        await listener.close()
