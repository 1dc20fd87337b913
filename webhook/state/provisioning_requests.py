"""The ProvisioningRequests that the leader made, in the cache. Those of others are left out."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from webhook.formats.autoscaling.provisioning_request import ProvisioningRequest, own_request
from webhook.formats.koordinator.hint_key import HintKey
from webhook.state.feed import Feed


class ProvisioningRequests:
    """Our requests by namespace/name. key: the key that seals them now."""

    def __init__(self, key: Callable[[], HintKey]) -> None:
        self.version = ""
        """The version in which the API server serves the kind; empty: in none that we read."""
        self._key = key
        self._known: dict[str, ProvisioningRequest] = {}
        self.feed = Feed("ProvisioningRequest", self._read, self._put, self._drop)

    def __iter__(self) -> Iterator[ProvisioningRequest]:
        return iter(tuple(self._known.values()))

    def serve(self, version: str) -> None:
        """The API server serves the kind in this version; empty: no longer."""
        self.version = version

    def _read(self, raw: Mapping[str, Any]) -> tuple[str, ProvisioningRequest | None]:
        metadata = raw["metadata"]
        return f"{metadata.get('namespace')}/{metadata['name']}", own_request(raw, self._key())

    def _put(self, record: tuple[str, ProvisioningRequest | None]) -> None:
        key, request = record
        if request is None:
            self._drop(key)
        else:
            self._known[key] = request

    def _drop(self, key: str) -> None:
        self._known.pop(key, None)
