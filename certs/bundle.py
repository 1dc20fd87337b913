"""The CA certificates an API server trusts for a webhook: the value of `caBundle`."""

import base64
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

from cryptography import x509
from cryptography.hazmat.primitives import serialization

from certs import pem


@dataclass(frozen=True, slots=True)
class CABundle:
    """CA certificates without duplicates, newest last."""

    certificates: tuple[x509.Certificate, ...]

    @classmethod
    def of(cls, certificates: Iterable[x509.Certificate]) -> Self:
        """A bundle of `certificates` in this order, without duplicates."""
        return cls(tuple(dict.fromkeys(certificates)))

    @classmethod
    def from_pem(cls, text: bytes, what: str = "the CA bundle") -> Self:
        """A bundle from PEM; raises CertificateError if it has no certificate. `what` names the text in messages."""
        return cls.of(pem.load_certificates(text, what))

    @property
    def pem(self) -> bytes:
        """The certificates as concatenated PEM."""
        return b"".join(ca.public_bytes(serialization.Encoding.PEM) for ca in self.certificates)

    @property
    def ca_bundle(self) -> str:
        """The value of `clientConfig.caBundle`: base64 of the PEM."""
        return base64.b64encode(self.pem).decode()
