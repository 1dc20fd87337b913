from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from certs import Authority, CABundle, CertificateError, FaultKind, Leaf, ServerNames, check, faults
from certs.pem import PrivateKey
from tests.unit.certs.conftest import NOW


def kinds(leaf: Leaf, names: ServerNames, now: datetime, *trusted: Authority) -> list[FaultKind]:
    trust = CABundle.of(authority.certificate for authority in trusted)
    return [fault.kind for fault in faults(leaf, names, now, trust)]


def test_a_good_leaf_has_no_fault(authority: Authority, leaf: Leaf, names: ServerNames) -> None:
    assert kinds(leaf, names, NOW, authority) == []
    check(leaf, names, NOW, CABundle.of([authority.certificate]))


def test_every_fault_is_found_not_only_the_first(leaf: Leaf) -> None:
    stranger = Authority.create("stranger", NOW)
    found = kinds(leaf, ServerNames.of(("elsewhere.example",)), NOW + timedelta(days=3), stranger)
    assert found == [FaultKind.UNTRUSTED, FaultKind.EXPIRED, FaultKind.NAME_MISSING]


def test_a_message_names_what_is_wrong_and_what_is_there(leaf: Leaf) -> None:
    with pytest.raises(CertificateError) as raised:
        check(leaf, ServerNames.of(("elsewhere.example", "10.9.9.9")), NOW, CABundle(()))
    text = str(raised.value)
    assert "not issued by a CA of the bundle, which holds no CA at all" in text
    assert "not for elsewhere.example, 10.9.9.9; it carries: topology-webhook.placement.svc," in text


def test_dates_count_for_the_leaf_and_for_its_ca(names: ServerNames) -> None:
    ca = Authority.create("ca", NOW, lifetime=timedelta(hours=2))
    leaf = ca.issue(names, NOW, lifetime=timedelta(hours=1))
    assert kinds(leaf, names, NOW - timedelta(minutes=6), ca) == [FaultKind.NOT_YET_VALID, FaultKind.NOT_YET_VALID]
    assert kinds(leaf, names, NOW - timedelta(minutes=5), ca) == []
    assert kinds(leaf, names, NOW + timedelta(hours=1), ca) == []
    assert kinds(leaf, names, NOW + timedelta(hours=1, seconds=1), ca) == [FaultKind.EXPIRED]
    assert kinds(leaf, names, NOW + timedelta(hours=2, seconds=1), ca) == [FaultKind.EXPIRED, FaultKind.EXPIRED]


def test_a_key_of_another_leaf_is_found(authority: Authority, leaf: Leaf, names: ServerNames) -> None:
    mixed = replace(leaf, key=authority.issue(names, NOW).key)
    assert kinds(mixed, names, NOW, authority) == [FaultKind.NOT_A_PAIR]


def test_a_leaf_is_not_a_ca_even_if_somebody_trusts_it(authority: Authority, leaf: Leaf, names: ServerNames) -> None:
    # The second leaf claims the first as its issuer: the signature is right, the right to sign is not there.
    assert isinstance(leaf.key, ec.EllipticCurvePrivateKey)
    forged = Authority(leaf.certificate, leaf.key).issue(names, NOW)
    trust = CABundle.of([leaf.certificate])
    assert FaultKind.UNTRUSTED in [fault.kind for fault in faults(forged, names, NOW, trust)]
    assert kinds(leaf, names, NOW, authority) == []


def test_a_foreign_ca_is_not_asked_for(leaf: Leaf, names: ServerNames) -> None:
    assert list(faults(leaf, names, NOW, None)) == []


# root ── intermediate ── server          (what cert-manager hands out: server and intermediate in tls.crt)
@pytest.mark.parametrize("kind", ["rsa", "ed25519"])
def test_a_chain_with_an_intermediate_of_another_kind_of_key_is_followed_to_its_root(kind: str) -> None:
    keys: dict[str, PrivateKey] = {
        who: rsa.generate_private_key(65537, 2048) if kind == "rsa" else ed25519.Ed25519PrivateKey.generate()
        for who in ("root", "intermediate", "server")
    }
    root = certificate("root", keys["root"], "root", keys["root"], ca=True)
    intermediate = certificate("intermediate", keys["intermediate"], "root", keys["root"], ca=True)
    server = certificate("server", keys["server"], "intermediate", keys["intermediate"], ca=False)
    leaf, names = Leaf((server, intermediate), keys["server"]), ServerNames.of(("server",))

    assert list(faults(leaf, names, NOW, CABundle.of([root]))) == []
    assert list(faults(leaf, names, NOW, CABundle.of([intermediate]))) == []
    assert [fault.kind for fault in faults(Leaf((server,), keys["server"]), names, NOW, CABundle.of([root]))] == [
        FaultKind.UNTRUSTED
    ]


def test_a_client_certificate_is_not_a_server_certificate() -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    client = certificate("server", key, "server", key, ca=False, usage=ExtendedKeyUsageOID.CLIENT_AUTH)
    found = list(faults(Leaf((client,), key), ServerNames.of(("server",)), NOW, None))
    assert [fault.kind for fault in found] == [FaultKind.NOT_A_SERVER]


def certificate(
    name: str,
    key: PrivateKey,
    issuer: str,
    issuer_key: PrivateKey,
    *,
    ca: bool,
    usage: x509.ObjectIdentifier = ExtendedKeyUsageOID.SERVER_AUTH,
) -> x509.Certificate:
    return (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
        .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, issuer)]))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(NOW)
        .not_valid_after(NOW + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        .sign(issuer_key, None if isinstance(issuer_key, ed25519.Ed25519PrivateKey) else hashes.SHA256())
    )
