import base64
from datetime import timedelta

import pytest

from certs import Authority, CABundle, CertificateError, Leaf, ServerNames, faults
from tests.certs.conftest import NOW


def test_while_a_ca_is_replaced_leaves_of_both_are_trusted(names: ServerNames) -> None:
    old, new = Authority.create("ca", NOW), Authority.create("ca", NOW)
    leaves = [old.issue(names, NOW), new.issue(names, NOW)]

    def trusted(bundle: CABundle) -> list[bool]:
        return [not list(faults(leaf, names, NOW, bundle)) for leaf in leaves]

    before = CABundle(()).with_authority(old)
    during = before.with_authority(new)
    after = CABundle.of([new.certificate])
    assert [trusted(bundle) for bundle in (before, during, after)] == [[True, False], [True, True], [False, True]]


def test_a_bundle_is_the_same_after_pem_and_after_adding_what_it_holds(authority: Authority) -> None:
    bundle = CABundle(()).with_authority(authority).with_authority(Authority.create("next", NOW))
    assert CABundle.from_pem(bundle.pem) == bundle
    assert bundle.with_authority(authority) == bundle
    assert base64.b64decode(bundle.ca_bundle) == bundle.pem


def test_expired_cas_are_dropped(authority: Authority) -> None:
    brief = Authority.create("brief", NOW, lifetime=timedelta(minutes=1))
    bundle = CABundle(()).with_authority(brief).with_authority(authority)
    assert bundle.without_expired(NOW) == bundle
    assert bundle.without_expired(NOW + timedelta(hours=1)).certificates == (authority.certificate,)


def test_a_bundle_needs_a_certificate(leaf: Leaf) -> None:
    with pytest.raises(CertificateError, match="no readable PEM certificate in the CA bundle"):
        CABundle.from_pem(leaf.key_pem)
