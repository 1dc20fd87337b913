"""The CA's Secret on a real API server: who fills it when several may, and what becomes of it when it is deleted."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from certs import Authority, ServerNames, faults
from certs.authority import AUTHORITY_LIFETIME, LEAF_LIFETIME
from certs.succession import ANNOUNCEMENT
from certs.window import CLOCK_SKEW
from webhook.cluster.client import Client
from webhook.cluster.errors import APIError
from webhook.cluster.secret import SharedSecret
from webhook.service.certificate import SecretSource

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from cryptography import x509

    from tests.cluster.control_plane import ControlPlane

NAMES = ServerNames.of_service("webhook", "ns")


@pytest.fixture
async def client(control_plane: ControlPlane) -> AsyncIterator[Client]:
    async with await Client.connect(control_plane.kubeconfig) as client:
        yield client


def secrets(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/secrets"


@pytest.mark.parametrize("made_by_the_chart", [True, False], ids=["empty", "absent"])
async def test_of_many_replicas_one_fills_the_secret_and_all_have_its_ca(
    control_plane: ControlPlane, namespace: str, client: Client, made_by_the_chart: bool
) -> None:
    if made_by_the_chart:
        control_plane.api.create(secrets(namespace), {"metadata": {"name": "ca"}, "type": "Opaque"})
    sources = [SecretSource(SharedSecret(client, namespace, "ca"), "webhook", NAMES) for _ in range(8)]
    now = datetime.now(UTC)
    shown = await asyncio.gather(*(source.current(now) for source in sources))
    bundles = {each.trust.ca_bundle for each in shown if each.trust is not None}
    assert bundles == {control_plane.api.get(f"{secrets(namespace)}/ca")["data"]["ca.crt"]}
    assert len({each.leaf.chain_pem for each in shown}) == 8


async def test_a_deleted_secret_gets_the_ca_back_that_the_other_replicas_trust(
    control_plane: ControlPlane, namespace: str, client: Client
) -> None:
    source = SecretSource(SharedSecret(client, namespace, "ca"), "webhook", NAMES)
    before = await source.current(datetime.now(UTC))
    data = control_plane.api.get(f"{secrets(namespace)}/ca")["data"]
    control_plane.api.delete(f"{secrets(namespace)}/ca")
    assert await source.current(datetime.now(UTC)) is before
    assert control_plane.api.get(f"{secrets(namespace)}/ca")["data"] == data


async def test_another_ca_in_the_secret_is_taken_up_with_a_new_leaf(
    control_plane: ControlPlane, namespace: str, client: Client
) -> None:
    source = SecretSource(SharedSecret(client, namespace, "ca"), "webhook", NAMES)
    now = datetime.now(UTC)
    before = await source.current(now)
    other = Authority.create("other", now)
    control_plane.api.patch(f"{secrets(namespace)}/ca", {"data": other.to_secret_data()})
    after = await source.current(now)
    assert after is not before
    assert after.trust is not None
    assert after.trust.certificates == (other.certificate,)


async def test_a_namespace_that_is_not_there_is_an_error_not_a_loop(client: Client) -> None:
    data: dict[str, Any] = {"ca.crt": "eA=="}
    with pytest.raises(APIError, match="404"):
        await SharedSecret(client, "no-such-namespace", "ca").read_or_fill(data)


async def test_a_ca_is_replaced_by_whichever_replica_comes_first_and_no_leaf_is_untrusted_on_the_way(
    control_plane: ControlPlane, namespace: str, client: Client
) -> None:
    created = datetime.now(UTC) - AUTHORITY_LIFETIME * 2 / 3
    old = Authority.create("webhook", created)
    sources = [SecretSource(SharedSecret(client, namespace, "ca"), "webhook", NAMES) for _ in range(4)]
    control_plane.api.create(
        secrets(namespace), {"metadata": {"name": "ca"}, "type": "Opaque", "data": old.to_secret_data()}
    )
    begin = datetime.now(UTC)
    moments = [begin, begin + ANNOUNCEMENT + CLOCK_SKEW, begin + ANNOUNCEMENT + LEAF_LIFETIME + 2 * CLOCK_SKEW]
    trusted: list[tuple[x509.Certificate, ...]] = []
    signed_by_old: list[bool] = []
    for now in moments:
        shown = await asyncio.gather(*(source.current(now) for source in sources))
        shown = await asyncio.gather(*(source.current(now) for source in sources))  # who came second sees it, too
        bundles = {each.trust for each in shown}
        assert len(bundles) == 1
        bundle = bundles.pop()
        assert bundle is not None
        trusted.append(bundle.certificates)
        for each in shown:
            assert not list(faults(each.leaf, NAMES, now, bundle))
        signed_by_old.append(all(each.leaf.certificate.issuer == old.certificate.subject for each in shown))
    new = trusted[2][0]
    assert trusted == [(old.certificate, new), (old.certificate, new), (new,)]
    assert signed_by_old == [True, False, False]
