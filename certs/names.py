"""The names in a server certificate: those of a Kubernetes Service, and further DNS names and IP addresses.

Source: the API server dials a webhook's Service as `<service>.<namespace>.svc` and verifies that name (Kubernetes,
"Dynamic Admission Control", service references); a webhook reached by URL is verified by the URL's host.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Self

from cryptography import x509

from certs.pem import CertificateError

# RFC 1123 labels, lower case, optionally one leading wildcard label.
_DNS_NAME = re.compile(r"(\*\.)?[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*")
_DNS_NAME_LENGTH = 253  # RFC 1035: 255 octets on the wire, less the first length byte and the root


@dataclass(frozen=True, slots=True)
class ServerNames:
    """DNS names and IP addresses without duplicates, in the order given."""

    dns: tuple[str, ...] = ()
    ips: tuple[IPv4Address | IPv6Address, ...] = ()

    @classmethod
    def of(cls, names: Iterable[str]) -> Self:
        """Sort `names` into DNS names and IP addresses; raises CertificateError for anything else."""
        dns: dict[str, None] = {}
        ips: dict[IPv4Address | IPv6Address, None] = {}
        for name in names:
            address = _as_ip(name)
            if address is None:
                dns[_as_dns_name(name)] = None
            else:
                ips[address] = None
        return cls(tuple(dns), tuple(ips))

    @classmethod
    def of_service(
        cls, service: str, namespace: str, extra: Iterable[str] = (), cluster_domain: str = "cluster.local"
    ) -> Self:
        """Every name of a Service inside a cluster, then `extra`."""
        return cls.of(
            (
                f"{service}.{namespace}.svc",
                f"{service}.{namespace}.svc.{cluster_domain}",
                f"{service}.{namespace}",
                service,
                *extra,
            )
        )

    @classmethod
    def in_certificate(cls, certificate: x509.Certificate) -> Self:
        """The names in a certificate; none without a subjectAltName, because TLS clients ignore the common name."""
        try:
            san = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        except x509.ExtensionNotFound:
            return cls()
        addresses = san.get_values_for_type(x509.IPAddress)
        return cls(
            tuple(name.lower() for name in san.get_values_for_type(x509.DNSName)),
            tuple(address for address in addresses if isinstance(address, IPv4Address | IPv6Address)),
        )

    def missing_from(self, certificate: x509.Certificate) -> tuple[str, ...]:
        """Our names that `certificate` does not cover; a wildcard covers exactly one label."""
        carried = type(self).in_certificate(certificate)
        covered = set(carried.dns)
        dns = (name for name in self.dns if name not in covered and _wildcard_of(name) not in covered)
        return (*dns, *(str(address) for address in self.ips if address not in carried.ips))

    def as_extension(self) -> x509.SubjectAlternativeName:
        """The names as the subjectAltName extension."""
        return x509.SubjectAlternativeName([*map(x509.DNSName, self.dns), *map(x509.IPAddress, self.ips)])

    def __bool__(self) -> bool:
        return bool(self.dns or self.ips)


def _as_ip(text: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(text)
    except ValueError:
        return None


def _as_dns_name(text: str) -> str:
    name = text.lower().removesuffix(".")
    if len(name) > _DNS_NAME_LENGTH or not _DNS_NAME.fullmatch(name):
        msg = (
            f"{text!r} is neither a DNS name nor an IP address; give names such as 'webhook.example.org' or '10.0.0.7'."
        )
        raise CertificateError(msg)
    return name


def _wildcard_of(name: str) -> str:
    return "*." + name.partition(".")[2]
