"""A server certificate with its private key: issued by our own CA, or read from files that another program renews."""

from dataclasses import dataclass
from typing import Self

from cryptography import x509
from cryptography.hazmat.primitives import serialization

from certs import pem
from certs.pem import CertificateError
from certs.window import Window


@dataclass(frozen=True, slots=True)
class Leaf:
    """The server's certificate (first in `chain`), the intermediates up to its CA, and the key."""

    chain: tuple[x509.Certificate, ...]
    key: pem.PrivateKey

    @classmethod
    def from_pem(cls, chain_pem: bytes, key_pem: bytes) -> Self:
        """A leaf from PEM texts; raises CertificateError if one is broken or they are not a pair."""
        chain = pem.load_certificates(chain_pem, "the server certificate")
        key = pem.load_key(key_pem, "the server key")
        if not pem.is_pair(chain[0], key):
            msg = "The server certificate and the server key do not belong together (one may have been renewed first)."
            raise CertificateError(msg)
        return cls(chain, key)

    @property
    def certificate(self) -> x509.Certificate:
        """The server's own certificate."""
        return self.chain[0]

    @property
    def window(self) -> Window:
        """The validity period of the server's own certificate."""
        return Window.of(self.certificate)

    @property
    def chain_pem(self) -> bytes:
        """The certificate and its intermediates as PEM, in the order TLS sends them."""
        return b"".join(certificate.public_bytes(serialization.Encoding.PEM) for certificate in self.chain)

    @property
    def key_pem(self) -> bytes:
        """The private key as unencrypted PKCS #8 PEM."""
        return pem.dump_key(self.key)
