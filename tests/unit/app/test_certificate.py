"""The certificate on the port: renewed in time, replaced at the next handshake, kept when its source fails."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509

from certs import Authority, CertificateError, ServerNames
from tests.client_certificates import client_context, client_leaf
from tests.leaf_files import write_leaf
from webhook.app.certificate import OTHERS_FIRST, ClientCAFile, FilesSource, SecretSource, ServingCertificate
from webhook.kube.api_errors import UnreachableError

NOW = datetime.now(UTC)
NAMES = ServerNames.of(["127.0.0.1", "webhook.ns.svc"])


class FakeSecret:
    """A Secret in memory, in place of the API server's."""

    def __init__(self) -> None:
        self.data: Mapping[str, str] = {}
        self.down = False
        self.key = "ns/ca"
        self.told: list[str] = []

    async def read_or_fill(self, data: Mapping[str, str]) -> Mapping[str, str]:
        if self.down:
            msg = "connection refused"
            raise UnreachableError(msg)
        self.data = self.data or data
        return self.data

    async def replace(self, expected: Mapping[str, str], data: Mapping[str, str]) -> Mapping[str, str]:
        self.data = data if self.data == expected else self.data
        return self.data

    async def tell(self, reason: str, note: str) -> None:
        self.told.append(f"{reason}: {note}")


class Clock:
    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> datetime:
        return self.now


def secret_source(secret: FakeSecret) -> SecretSource:
    return SecretSource(secret, "webhook", NAMES)  # type: ignore[arg-type] # the same one method


@asynccontextmanager
async def listening(certificate: ServingCertificate) -> AsyncIterator[int]:
    server = await asyncio.start_server(_hang_up, "127.0.0.1", 0, ssl=(await certificate.context()).listening)
    async with server:
        yield server.sockets[0].getsockname()[1]


async def _hang_up(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"in")
    writer.close()


async def handshake(port: int, trust: str, name: str = "127.0.0.1") -> x509.Certificate:
    """The certificate that a client is shown which trusts `trust` (PEM)."""
    context = ssl.create_default_context(cadata=trust)
    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname=name)
    shown = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    return x509.load_der_x509_certificate(shown)


async def until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110 # nothing to wait on: the condition is any expression
        await asyncio.sleep(0.01)


async def test_a_leaf_is_renewed_after_two_thirds_of_its_life_and_shown_at_the_next_handshake() -> None:
    clock, published = Clock(), list[str]()
    clock.now = NOW - timedelta(hours=17)  # OpenSSL's clock cannot be set: the renewal is now
    secret = FakeSecret()
    source = secret_source(secret)
    certificate = ServingCertificate(source, published.append, clock)
    certificate.refresh(await source.current(clock.now))
    authority = Authority.from_secret_data(secret.data)
    trust = authority.certificate_pem.decode()
    async with listening(certificate) as port:
        first = await handshake(port, trust)
        clock.now = NOW - timedelta(hours=2)
        certificate.refresh(await source.current(clock.now))
        assert await handshake(port, trust) == first
        clock.now = NOW
        certificate.refresh(await source.current(clock.now))
        for name in ("127.0.0.1", "webhook.ns.svc"):  # a client that dials an address sends no server name
            renewed = await handshake(port, trust, name)
            assert renewed != first
            assert renewed.not_valid_after_utc > first.not_valid_after_utc
    assert len(set(published)) == 1  # the CA stayed


async def test_the_ca_is_published_before_a_leaf_of_it_is_shown() -> None:
    secret, order = FakeSecret(), list[str]()
    source = secret_source(secret)
    certificate = ServingCertificate(source, lambda _: order.append(f"published, shown: {certificate.end}"))
    certificate.refresh(await source.current(NOW))
    assert order == ["published, shown: None"]


async def test_a_source_that_fails_leaves_the_certificate_and_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SecretSource, "poll_seconds", 0.01)
    secret = FakeSecret()
    certificate = ServingCertificate(secret_source(secret), lambda _: None)
    running = asyncio.create_task(certificate.run())
    async with asyncio.timeout(60):
        await certificate.context()
        secret.down = True
        await until(lambda: certificate.error == "connection refused")
        assert certificate.valid
        secret.down = False
        await until(lambda: certificate.error == "")
    running.cancel()


@pytest.mark.parametrize("entry", ["no base64!", "é", "A", None, 7], ids=repr)
async def test_a_secret_whose_entries_are_no_base64_is_filled_again(entry: Any) -> None:
    secret = FakeSecret()
    secret.data = {"ca.crt": entry, "ca.key": entry}
    source = secret_source(secret)
    with pytest.raises(CertificateError, match=r"is not base64 .* unless another replica restores the old one"):
        await source.current(NOW)
    shown = await source.current(NOW + OTHERS_FIRST)
    assert shown.trust is not None
    assert secret.data["ca.crt"] == shown.trust.ca_bundle
    assert secret.told


async def test_who_waits_for_others_waits_again_when_the_secret_says_something_else() -> None:
    secret = FakeSecret()
    source = secret_source(secret)
    for moment, text in ((NOW, "x"), (NOW + OTHERS_FIRST, "y")):
        secret.data = {"ca.crt": text}
        with pytest.raises(CertificateError):
            await source.current(moment)


async def test_the_ca_bundle_follows_a_ca_that_was_made_again_for_one_that_cannot_be_used() -> None:
    secret, clock, published = FakeSecret(), Clock(), list[str]()
    source = secret_source(secret)
    certificate = ServingCertificate(source, published.append, clock)
    certificate.refresh(await source.current(clock()))
    other = secret_source(secret)
    secret.data = {"ca.crt": "x"}
    certificate.refresh(await source.current(clock()))  # puts its own back
    (bundle,) = published
    assert secret.data["ca.crt"] == bundle == (await other.current(clock())).trust.ca_bundle  # type: ignore[union-attr]
    clock.now += 2 * timedelta(days=365)
    secret.data = {"ca.crt": "x"}
    certificate.refresh(await source.current(clock()))  # its own has expired
    assert published[1:] == [secret.data["ca.crt"]]
    assert published[1] != bundle


async def test_an_expired_certificate_is_not_valid() -> None:
    clock, secret = Clock(), FakeSecret()
    source = secret_source(secret)
    certificate = ServingCertificate(source, lambda _: None, clock)
    valid = [certificate.valid]
    certificate.refresh(await source.current(NOW))
    valid.append(certificate.valid)
    clock.now = NOW + timedelta(days=2)
    valid.append(certificate.valid)
    assert valid == [False, True, False]


async def test_files_are_read_again_and_a_renewal_that_has_come_half_way_is_waited_for(tmp_path: Path) -> None:
    authority = Authority.create("issuer", NOW)
    trust = authority.certificate_pem.decode()
    certificate_file, key_file = tmp_path / "tls.crt", tmp_path / "tls.key"
    old, new = authority.issue(NAMES, NOW), authority.issue(NAMES, NOW)
    write_leaf(old, certificate_file, key_file)
    source = FilesSource(certificate_file, key_file, NAMES)
    certificate = ServingCertificate(source, lambda _: pytest.fail("caBundle is not ours in this mode"))
    certificate.refresh(await source.current(NOW))
    async with listening(certificate) as port:
        assert await handshake(port, trust) == old.certificate
        key_file.write_bytes(new.key_pem)
        with pytest.raises(CertificateError, match="do not belong together"):
            await source.current(NOW)
        assert await handshake(port, trust) == old.certificate
        certificate_file.write_bytes(new.chain_pem)
        certificate.refresh(await source.current(NOW))
        assert await handshake(port, trust) == new.certificate


async def test_a_certificate_that_an_api_server_would_refuse_is_not_shown(tmp_path: Path) -> None:
    leaf = Authority.create("issuer", NOW).issue(ServerNames.of(["elsewhere.example.org"]), NOW)
    write_leaf(leaf, tmp_path / "tls.crt", tmp_path / "tls.key")
    source = FilesSource(tmp_path / "tls.crt", tmp_path / "tls.key", NAMES)
    certificate = ServingCertificate(source, lambda _: None)
    shown = await source.current(NOW)
    with pytest.raises(CertificateError, match=r"not for webhook\.ns\.svc, 127\.0\.0\.1"):
        certificate.refresh(shown)
    assert not certificate.valid


async def test_the_client_ca_is_read_again_and_a_broken_file_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ClientCAFile, "poll_seconds", 0.01)
    first, second = (Authority.create(name, NOW) for name in ("first", "second"))
    file, secret = tmp_path / "ca.crt", FakeSecret()
    certificate = ServingCertificate(secret_source(secret), lambda _: None, clients=ClientCAFile(file))
    running = asyncio.create_task(certificate.run())
    # Without the file nobody is let in: the port does not open.
    await until(lambda: "cannot be read" in certificate.error)
    assert certificate.end is None
    file.write_bytes(first.certificate_pem)
    async with listening(certificate) as port:
        ca = Authority.from_secret_data(secret.data)

        async def is_let_in(authority: Authority) -> bool:
            context = client_context(ca, client_leaf(authority, "kube-apiserver"))
            try:
                reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
                answer = await reader.read()
                writer.close()
            except OSError:
                return False
            return answer == b"in"

        assert await is_let_in(first)
        assert not await is_let_in(second)
        file.write_bytes(second.certificate_pem)
        while not await is_let_in(second):  # noqa: ASYNC110 # each look is a handshake
            await asyncio.sleep(0.01)
        assert not await is_let_in(first)
        file.write_text("no certificate")
        await until(lambda: "the client CA file" in certificate.error)
        assert await is_let_in(second)
        assert certificate.valid
    running.cancel()
