import base64

import pytest

from certs import Authority, CABundle, CertificateError, Leaf, ServerNames, faults
from tests.unit.certs.conftest import NOW


def test_while_a_ca_is_replaced_leaves_of_both_are_trusted(names: ServerNames) -> None:
    old, new = Authority.create("ca", NOW), Authority.create("ca", NOW)
    leaves = [old.issue(names, NOW), new.issue(names, NOW)]

    def trusted(bundle: CABundle) -> list[bool]:
        return [not list(faults(leaf, names, NOW, bundle)) for leaf in leaves]

    before, during, after = (
        CABundle.of(cas) for cas in ([old.certificate], [old.certificate, new.certificate], [new.certificate])
    )
    assert [trusted(bundle) for bundle in (before, during, after)] == [[True, False], [True, True], [False, True]]


def test_a_bundle_is_the_same_after_pem_and_holds_a_ca_once(authority: Authority) -> None:
    bundle = CABundle.of([authority.certificate, Authority.create("next", NOW).certificate])
    assert CABundle.from_pem(bundle.pem) == bundle
    assert CABundle.of([*bundle.certificates, authority.certificate]) == bundle
    assert base64.b64decode(bundle.ca_bundle) == bundle.pem


def test_a_bundle_needs_a_certificate(leaf: Leaf) -> None:
    with pytest.raises(CertificateError, match="no readable PEM certificate in the CA bundle"):
        CABundle.from_pem(leaf.key_pem)
