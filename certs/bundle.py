"""The CA certificates an API server trusts for a webhook: what goes into `caBundle`."""

import base64
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

from cryptography import x509
from cryptography.hazmat.primitives import serialization

from certs import pem


@dataclass(frozen=True, slots=True)
class CABundle:
    """CA certificates without repetition, newest last."""

    certificates: tuple[x509.Certificate, ...]

    @classmethod
    def of(cls, certificates: Iterable[x509.Certificate]) -> Self:
        """A bundle of `certificates`, each once, in the order they came."""
        return cls(tuple(dict.fromkeys(certificates)))

    @classmethod
    def from_pem(cls, text: bytes, what: str = "the CA bundle") -> Self:
        """A bundle from PEM, `what` in words; raises CertificateError when no certificate is in it."""
        return cls.of(pem.load_certificates(text, what))

    @property
    def pem(self) -> bytes:
        """The certificates as PEM, one after the other."""
        return b"".join(ca.public_bytes(serialization.Encoding.PEM) for ca in self.certificates)

    @property
    def ca_bundle(self) -> str:
        """The value of `clientConfig.caBundle`: base64 of the PEM."""
        return base64.b64encode(self.pem).decode()
