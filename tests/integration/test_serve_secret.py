"""The Secret of the CA on a real API server: creation by several replicas at once, and deletion."""

from __future__ import annotations

import asyncio
import base64
import contextlib
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID

from certs import Authority, CertificateError, ServerNames, check, faults
from certs.authority import AUTHORITY_LIFETIME, LEAF_LIFETIME
from certs.succession import ANNOUNCEMENT
from certs.window import CLOCK_SKEW
from webhook.app.allocation_key_secret import SharedAllocationKey
from webhook.app.certificate import OTHERS_FIRST, SecretSource, Shown
from webhook.formats.koordinator.numa_allocation import AllocationKey
from webhook.kube.api_errors import APIError
from webhook.kube.client import Client
from webhook.kube.shared_secret import SharedSecret

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Sequence

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


def entry(text: bytes) -> str:
    return base64.b64encode(text).decode()


def with_extension(extension: x509.ExtensionType, *, critical: bool = True, ca: bool = True) -> dict[str, str]:
    """A CA whose certificate has one more extension."""
    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([])
    now = datetime.now(UTC)
    builder = (
        x509.CertificateBuilder(name, name, key.public_key(), 7, now - timedelta(days=1), now + timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
        .add_extension(extension, critical=critical)
    )
    certificate = builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    return {"ca.crt": entry(certificate), "ca.key": entry(Authority(x509, key).key_pem)}  # type: ignore[arg-type]


def of_key(key: Any) -> dict[str, str]:
    """A CA with another kind of key."""
    now, name = datetime.now(UTC), x509.Name([])
    builder = x509.CertificateBuilder(
        name, name, key.public_key(), 7, now - timedelta(days=1), now + timedelta(days=1)
    ).add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    certificate = builder.sign(key, None if isinstance(key, ed25519.Ed25519PrivateKey) else hashes.SHA256())
    text = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return {"ca.crt": entry(certificate.public_bytes(serialization.Encoding.PEM)), "ca.key": entry(text)}


def spoilt() -> Iterator[tuple[str, dict[str, str]]]:
    """Secrets whose content is not a CA that can sign now."""
    now = datetime.now(UTC)
    good, other = Authority.create("webhook", now).to_secret_data(), Authority.create("webhook", now).to_secret_data()
    certificate = base64.b64decode(good["ca.crt"])
    yield "wrong PEM", {"ca.crt": entry(b"garbage"), "ca.key": entry(b"garbage")}
    yield "empty entries", {"ca.crt": "", "ca.key": ""}
    yield "a binary", {"ca.crt": entry(bytes(range(256)) * 40), "ca.key": entry(bytes(range(256)) * 40)}
    yield "truncated", good | {"ca.crt": entry(certificate[:-40])}
    yield "a byte flipped", good | {"ca.crt": entry(certificate[:200] + b"A" + certificate[201:])}
    yield "key and certificate swapped", {"ca.crt": good["ca.key"], "ca.key": good["ca.crt"]}
    yield "key of another", good | {"ca.key": other["ca.key"]}
    yield "no key", {"ca.crt": good["ca.crt"]}
    yield "other entries alone", {"tls.crt": good["ca.crt"], "x": entry(b"x")}
    yield "expired", Authority.create("webhook", now - 2 * AUTHORITY_LIFETIME).to_secret_data()
    yield "not valid yet", Authority.create("webhook", now + timedelta(days=1)).to_secret_data()
    yield "half a successor", good | {"next-ca.crt": good["ca.crt"]}
    yield "a spoilt successor", good | {"next-ca.crt": entry(b"x"), "next-ca.key": entry(b"x")}
    yield "RSA", of_key(rsa.generate_private_key(65537, 2048))
    yield "Ed25519", of_key(ed25519.Ed25519PrivateKey.generate())
    yield "a curve that API servers do not know", of_key(ec.generate_private_key(ec.SECP256K1()))
    yield "not a CA's", with_extension(x509.SubjectKeyIdentifier(b"x"), critical=False, ca=False)
    yield "for clients", with_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]))
    yield "for names elsewhere", with_extension(x509.NameConstraints([x509.DNSName("example.com")], None))
    yield "critical and unknown", with_extension(x509.UnrecognizedExtension(x509.ObjectIdentifier("1.2.3.4"), b"\5\0"))


SPOILT = dict(spoilt())


def shown_bundle(shown: Sequence[Shown]) -> str:
    """The bundle that all replicas share. An API server accepts each leaf by it."""
    now = datetime.now(UTC)
    for each in shown:
        check(each.leaf, NAMES, now, each.trust)
    (bundle,) = {each.trust.ca_bundle for each in shown if each.trust is not None}
    return bundle


@pytest.mark.parametrize("name", SPOILT)
async def test_what_is_no_ca_is_replaced_by_one_that_all_who_start_at_once_agree_on(
    control_plane: ControlPlane, namespace: str, client: Client, name: str
) -> None:
    control_plane.api.create(secrets(namespace), {"metadata": {"name": "ca"}, "data": SPOILT[name]})
    sources = [SecretSource(SharedSecret(client, namespace, "ca"), "webhook", NAMES) for _ in range(4)]
    now = datetime.now(UTC)
    first = await asyncio.gather(*(source.current(now) for source in sources), return_exceptions=True)
    assert all(isinstance(one, (Shown, CertificateError)) for one in first)
    shown = await asyncio.gather(*(source.current(now + OTHERS_FIRST) for source in sources))
    shown = await asyncio.gather(*(source.current(now + OTHERS_FIRST) for source in sources))
    data = control_plane.api.get(f"{secrets(namespace)}/ca")["data"]
    assert shown_bundle(shown) == data["ca.crt"]
    assert data.keys() == {"ca.crt", "ca.key"}
    if name in {"half a successor", "a spoilt successor"}:
        assert data["ca.crt"] == SPOILT[name]["ca.crt"]
    else:
        assert data != SPOILT[name]
    if name != "expired":  # which is a step of the life cycle
        path = f"/api/v1/namespaces/{namespace}/events?fieldSelector=reason=CAReplaced"
        (event,) = control_plane.api.get(path)["items"]
        assert "was unusable and was replaced by" in event["message"]
        assert event["involvedObject"]["name"] == "ca"


async def test_who_knows_the_ca_puts_it_back_before_one_that_starts_makes_another(
    control_plane: ControlPlane, namespace: str, client: Client
) -> None:
    running, starting = (SecretSource(SharedSecret(client, namespace, "ca"), "webhook", NAMES) for _ in range(2))
    now = datetime.now(UTC)
    before = await running.current(now)
    data = control_plane.api.get(f"{secrets(namespace)}/ca")["data"]
    for name in SPOILT.keys() - {"expired", "half a successor", "a spoilt successor"}:  # these hold a CA
        spoil = SPOILT[name]
        secret = control_plane.api.get(f"{secrets(namespace)}/ca")
        control_plane.api.replace(f"{secrets(namespace)}/ca", {**secret, "data": spoil})
        with contextlib.suppress(CertificateError):
            await starting.current(now)
        assert (await running.current(now)) is before
        assert control_plane.api.get(f"{secrets(namespace)}/ca")["data"] == data
        assert shown_bundle([before, await starting.current(now)])


async def test_a_secret_that_nobody_may_change_is_said_to_be_deleted(
    control_plane: ControlPlane, namespace: str, client: Client
) -> None:
    body = {"metadata": {"name": "ca"}, "immutable": True, "data": SPOILT["wrong PEM"]}
    control_plane.api.create(secrets(namespace), body)
    source = SecretSource(SharedSecret(client, namespace, "ca"), "webhook", NAMES)
    now = datetime.now(UTC)
    for moment in (now, now + OTHERS_FIRST):
        with pytest.raises(CertificateError) as error:
            await source.current(moment)
    assert f"It cannot be replaced either: delete the Secret {namespace}/ca." in str(error.value)
    control_plane.api.delete(f"{secrets(namespace)}/ca")
    assert shown_bundle([await source.current(now)])


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


async def test_of_many_replicas_one_makes_the_key_that_signs_allocations_and_all_have_it(
    control_plane: ControlPlane, namespace: str, client: Client
) -> None:
    control_plane.api.create(secrets(namespace), {"metadata": {"name": "key"}, "type": "Opaque"})
    keys: list[AllocationKey] = []
    await asyncio.gather(*(allocation_key(client, namespace, keys).refresh() for _ in range(8)))
    (key,) = set(keys)
    assert len(keys) == 8
    assert control_plane.api.get(f"{secrets(namespace)}/key")["data"] == key.to_secret_data()


async def test_a_key_that_was_deleted_or_spoilt_is_put_back_and_another_one_taken_over(
    control_plane: ControlPlane, namespace: str, client: Client
) -> None:
    keys: list[AllocationKey] = []
    shared = allocation_key(client, namespace, keys)
    await shared.refresh()
    data = control_plane.api.get(f"{secrets(namespace)}/key")["data"]
    control_plane.api.delete(f"{secrets(namespace)}/key")
    await shared.refresh()
    assert control_plane.api.get(f"{secrets(namespace)}/key")["data"] == data
    control_plane.api.patch(f"{secrets(namespace)}/key", {"data": {"hint.key": "Z2FyYmFnZQ=="}})
    await shared.refresh()
    assert control_plane.api.get(f"{secrets(namespace)}/key")["data"] == data
    assert len(keys) == 1
    other = AllocationKey.create()
    control_plane.api.patch(f"{secrets(namespace)}/key", {"data": other.to_secret_data()})
    await shared.refresh()
    assert keys[-1] == other


def allocation_key(client: Client, namespace: str, keys: list[AllocationKey]) -> SharedAllocationKey:
    return SharedAllocationKey(SharedSecret(client, namespace, "key"), keys.append)
