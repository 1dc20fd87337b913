"""The exception for unusable certificates; its text tells an operator what to do."""


class CertificateError(Exception):
    """A certificate, key or bundle cannot be used; the message says which, why and what to do."""
