"""What makes pods equal: they fit on the same nodes.

A controller makes its pods from one template and many at a time. What was found for one holds for all that have its
signature, as long as the cluster stays as it is.

Two things are not part of it, since they do not change where a pod fits: which of these nodes it prefers, and the names
in it. Who needs them equal too, adds them: the decision at creation (`placing.pod.decision`), the members of a gang
(`GatedPod.preferred`).

Source: kube-scheduler's pod signature (kubernetes pkg/scheduler/framework, SignPod).
"""

from collections.abc import Hashable, Mapping

from webhook.formats.koordinator.cpu_bind import cpu_bind_of
from webhook.formats.koordinator.intent import NUMAIntent
from webhook.formats.kubernetes.pod import Pod
from webhook.model.resources import CPU


def pod_signature(pod: Pod, intent: NUMAIntent) -> Hashable:
    """Equal for pods that fit on the same nodes."""
    return (
        intent,
        cpu_bind_of(intent.cpu_bind, pod.labels, pod.priority, pod.requests.get(CPU, 0)),
        tuple(
            (container.kind, *_items(container.requests), None, *_items(container.limits))
            for container in pod.containers
        ),
        _items(pod.overhead),
        pod.pod_level and (_items(pod.pod_level.requests), _items(pod.pod_level.limits)),
        pod.qos,
        _items(pod.requests),
        _items(pod.node_selector),
        # Nested as the user wrote them; as text they can be compared.
        repr(pod.required_terms),
        repr(pod.tolerations),
        pod.avoided,
        pod.learned,
        pod.unchecked,
    )


def _items(held: Mapping[str, int] | Mapping[str, str]) -> tuple[tuple[str, int | str], ...]:
    """In order of name, which files have as they like."""
    return tuple(sorted(held.items()))
