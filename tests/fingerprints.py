"""The fingerprint that an exporter writes, made from the names of pods."""

from collections.abc import Iterable

from webhook.model.fingerprint import fingerprint_of_sorted, pod_hash


def pod_fingerprint(pods: Iterable[tuple[str, str]]) -> str:
    """The fingerprint of (namespace, name) pairs, as NRT attribute nodeTopologyPodsFingerprint carries it."""
    return fingerprint_of_sorted(sorted(pod_hash(namespace, name) for namespace, name in pods))
