"""What goes wrong with certificates, as one exception whose text an operator can act on."""


class CertificateError(Exception):
    """A certificate, key or bundle cannot be used; the message says which, why and what to do."""
