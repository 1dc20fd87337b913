from datetime import datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.verification import PolicyBuilder, Store

from certs import Authority, CertificateError, Leaf, ServerNames
from tests.unit.certs.conftest import NOW


def test_a_leaf_passes_an_independent_verifier_for_each_of_its_dns_names(
    authority: Authority, leaf: Leaf, names: ServerNames
) -> None:
    policy = PolicyBuilder().store(Store([authority.certificate])).time(NOW)
    for name in names.dns:
        chain = policy.build_server_verifier(x509.DNSName(name)).verify(leaf.certificate, [])
        assert chain == [leaf.certificate, authority.certificate]


def test_keys_are_p256_and_no_two_leaves_share_one(authority: Authority, names: ServerNames) -> None:
    one, other = authority.issue(names, NOW), authority.issue(names, NOW)
    for leaf in (one, other):
        assert isinstance(leaf.key, ec.EllipticCurvePrivateKey)
        assert leaf.key.curve.name == "secp256r1"
    assert one.key_pem != other.key_pem
    assert one.certificate.serial_number != other.certificate.serial_number


def test_validity_begins_before_now_so_that_a_slower_clock_accepts_it(leaf: Leaf) -> None:
    assert leaf.window.begin == NOW - timedelta(minutes=5)
    assert leaf.window.end == NOW + timedelta(days=1)


def test_a_certificate_is_to_be_renewed_with_a_third_of_its_life_left(authority: Authority, names: ServerNames) -> None:
    window = authority.issue(names, NOW, lifetime=timedelta(hours=3)).window
    assert window.end - window.renew_at == (window.end - window.begin) / 3


def test_a_leaf_never_outlives_its_ca(names: ServerNames) -> None:
    short = Authority.create("short", NOW, lifetime=timedelta(hours=1))
    leaf = short.issue(names, NOW)
    assert leaf.window.end == short.window.end
    assert leaf.window.begin == short.window.begin


@pytest.mark.parametrize("moment", [NOW - timedelta(days=1), NOW + timedelta(days=366)], ids=["early", "late"])
def test_a_ca_outside_its_validity_signs_nothing(authority: Authority, names: ServerNames, moment: datetime) -> None:
    with pytest.raises(CertificateError, match="cannot sign a leaf"):
        authority.issue(names, moment)


def test_a_leaf_without_a_name_is_refused(authority: Authority) -> None:
    with pytest.raises(CertificateError, match="at least one DNS name"):
        authority.issue(ServerNames(), NOW)


def test_two_generations_of_a_ca_have_different_names() -> None:
    old, new = Authority.create("topology-webhook", NOW), Authority.create("topology-webhook", NOW)
    assert old.name != new.name
    assert old.name.startswith("topology-webhook CA ")


def test_a_ca_survives_the_way_through_a_secret(authority: Authority, names: ServerNames) -> None:
    again = Authority.from_secret_data(authority.to_secret_data())
    assert again.certificate == authority.certificate
    again.issue(names, NOW).certificate.verify_directly_issued_by(authority.certificate)


def test_a_ca_may_sign_leaves_only(authority: Authority) -> None:
    constraints = authority.certificate.extensions.get_extension_for_class(x509.BasicConstraints)
    assert constraints.critical
    assert constraints.value == x509.BasicConstraints(ca=True, path_length=0)


def test_a_secret_that_cannot_be_used_says_why_and_what_to_do(authority: Authority, leaf: Leaf) -> None:
    good = authority.to_secret_data()
    other = Authority.create("other", NOW).to_secret_data()
    broken = {
        "has no entry 'ca.key'": {"ca.crt": good["ca.crt"]},
        "is not base64": {**good, "ca.key": "%%%"},
        "do not belong together": {**good, "ca.key": other["ca.key"]},
    }
    for fault, data in broken.items():
        with pytest.raises(CertificateError, match=fault) as raised:
            Authority.from_secret_data(data)
        assert "empty the Secret" in str(raised.value)
    with pytest.raises(CertificateError, match="is not a CA's"):
        Authority.from_pem(leaf.chain_pem, leaf.key_pem)
    with pytest.raises(CertificateError, match="no readable PEM certificate in the CA certificate"):
        Authority.from_pem(b"", authority.key_pem)
