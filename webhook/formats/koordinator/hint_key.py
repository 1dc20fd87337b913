"""Proof that a hint is ours: a message authentication code (HMAC) over the pod's uid and the hint.

A hint on a pod that is not bound reserves NUMA nodes, so it is trusted only with this proof. The API server chooses
the uid, so the signature of one pod is invalid on a copy of it. The key is in a Secret that all replicas share, so a
replica that restarts can verify older hints.

Rejected alternatives:
- the admission policy alone: it may be off, or absent, or installed after the forgery;
- the node in the pod's affinity, the missing gate, `managedFields`: the pod's creator can write all of them;
- a condition in the status, which tenants cannot write: one more write for each assigned pod;
- the leader's memory: the next leader would trust no hint, and split gangs that are half bound.

Source: RFC 2104; NIST SP 800-107 (a code of 128 bits suffices, a key as long as the hash).
"""

import hmac
import json
from base64 import b64decode, b64encode, urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from secrets import token_bytes
from typing import Any, Final, Self

from webhook.model.names import NUMA_HINT, NUMA_SIGNATURE

SEAL: Final = "topology-webhook.dev/seal"
"""The annotation with the proof that we made an object other than a pod."""

_KEY_BYTES: Final = 32
_SIGNATURE_BYTES: Final = 16
# The key's name in the Secret's data.
_ENTRY: Final = "hint.key"


@dataclass(frozen=True, slots=True)
class HintKey:
    """A key that signs hints and verifies them."""

    secret: bytes = field(repr=False)

    @classmethod
    def create(cls) -> Self:
        """Generate a key."""
        return cls(token_bytes(_KEY_BYTES))

    @classmethod
    def from_secret_data(cls, data: Mapping[str, str]) -> Self | None:
        """The key in the `data` of a Secret; None if it is missing or invalid."""
        try:
            secret = b64decode(data.get(_ENTRY, ""), validate=True)
        except ValueError:
            return None
        return cls(secret) if len(secret) == _KEY_BYTES else None

    def to_secret_data(self) -> dict[str, str]:
        """The `data` of a Secret with this key."""
        return {_ENTRY: b64encode(self.secret).decode()}

    def sign(self, uid: str, hint: str) -> str:
        """The signature of a hint, given as its annotation's value, for the pod with this uid."""
        return self._code(f"{NUMA_HINT}\0{uid}\0{hint}".encode(errors="surrogatepass"))

    def seal(self, *parts: str) -> str:
        """The proof that we made an object with these parts: its kind, its name, and what it asks for.

        A copy of the object in the same place is equal to it. The proof is invalid for any other object.
        """
        return self._code(json.dumps([SEAL, *parts]).encode())

    def _code(self, message: bytes) -> str:
        return urlsafe_b64encode(hmac.digest(self.secret, message, "sha256")[:_SIGNATURE_BYTES]).decode().rstrip("=")

    def has_sealed(self, seal: object, *parts: str) -> bool:
        """Whether this is the seal of an object with these parts."""
        return isinstance(seal, str) and hmac.compare_digest(
            self.seal(*parts).encode(), seal.encode(errors="surrogatepass")
        )

    def believed(self, raw: Mapping[str, Any]) -> Mapping[str, Any]:
        """The pod, without its hint if the pod is unbound and the hint has no valid signature.

        The argument is not modified.
        """
        metadata: Mapping[str, Any] = raw["metadata"]
        annotations: Mapping[str, str] = metadata.get("annotations") or {}
        hint = annotations.get(NUMA_HINT)
        if hint is None or (raw.get("spec") or {}).get("nodeName") or self._has_signed(metadata, hint):
            return raw
        rest = {name: text for name, text in annotations.items() if name != NUMA_HINT}
        return {**raw, "metadata": {**metadata, "annotations": rest}}

    def _has_signed(self, metadata: Mapping[str, Any], hint: str) -> bool:
        uid, signature = metadata.get("uid"), metadata["annotations"].get(NUMA_SIGNATURE)
        if not uid or signature is None:
            return False
        expected = self.sign(uid, hint).encode()
        return hmac.compare_digest(expected, signature.encode(errors="surrogatepass"))


class UnverifiedHints(HintKey):
    """Stands in for the key where it cannot be read: hints of unbound pods count without a signature.

    For commands, which only read. In a cluster with the service, other users cannot write hints.
    """

    def believed(self, raw: Mapping[str, Any]) -> Mapping[str, Any]:
        """The pod as it is."""
        return raw
