"""The pod fingerprint that an exporter publishes."""

from collections.abc import Iterable

from webhook.state.assumed.node_state import fingerprint_of_sorted, pod_hash


def pod_fingerprint(pods: Iterable[tuple[str, str]]) -> str:
    """The value of the NRT attribute nodeTopologyPodsFingerprint for these (namespace, name) pairs."""
    return fingerprint_of_sorted(sorted(pod_hash(namespace, name) for namespace, name in pods))
