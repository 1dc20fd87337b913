"""The CA certificates an API server trusts for a webhook: what goes into `caBundle`.

A rotation in three phases, each safe to stop after:
1. `bundle.with_authority(new)` is published; leaves are still signed by the old CA, which old and new bundles hold.
2. Every API server has seen the bundle: leaves are signed by the new CA.
3. Every leaf of the old CA has ended: `bundle.without_expired(now)`, or a bundle of the new CA alone, is published.
"""

import base64
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Self

from cryptography import x509
from cryptography.hazmat.primitives import serialization

from certs import pem
from certs.authority import Authority
from certs.window import Window


@dataclass(frozen=True, slots=True)
class CABundle:
    """CA certificates without repetition, newest last."""

    certificates: tuple[x509.Certificate, ...]

    @classmethod
    def of(cls, certificates: Iterable[x509.Certificate]) -> Self:
        """A bundle of `certificates`, each once, in the order they came."""
        return cls(tuple(dict.fromkeys(certificates)))

    @classmethod
    def from_pem(cls, text: bytes) -> Self:
        """A bundle from PEM; raises CertificateError when no certificate is in it."""
        return cls.of(pem.load_certificates(text, "the CA bundle"))

    def with_authority(self, authority: Authority) -> Self:
        """The bundle with one more CA; the same bundle when it is in it already."""
        return type(self).of((*self.certificates, authority.certificate))

    def without_expired(self, now: datetime) -> Self:
        """The bundle without what nobody can trust any more."""
        return type(self)(tuple(ca for ca in self.certificates if now <= Window.of(ca).end))

    @property
    def pem(self) -> bytes:
        """The certificates as PEM, one after the other."""
        return b"".join(ca.public_bytes(serialization.Encoding.PEM) for ca in self.certificates)

    @property
    def ca_bundle(self) -> str:
        """The value of `clientConfig.caBundle`: base64 of the PEM."""
        return base64.b64encode(self.pem).decode()
