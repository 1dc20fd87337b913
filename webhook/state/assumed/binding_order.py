"""The order in which pods were seen bound: kubelets admit pods in that order.

A watch shows the order. Of pods that come from a list the order is unknown.
"""

from collections.abc import Iterable, Sequence

from webhook.formats.kubernetes.resident import ResidentPod


class BindingOrder:
    """The position of each bound pod (namespace/name)."""

    def __init__(self) -> None:
        self._positions: dict[str, int] = {}
        self._last = 0
        self.gap = 0
        """The position of the last pod that came from a list. The order up to here is unknown."""

    def bound(self, pod: str) -> None:
        """Record that a pod was seen bound. The order of the calls is the order of binding."""
        self._last += 1
        self._positions[pod] = self._last

    def listed(self) -> None:
        """Record that the last pod came from a list. What happened before, and in which order, is unknown."""
        self.gap = self._last

    def forget(self, pod: str) -> int:
        """Remove a pod that is gone or has ended; returns the position that it had."""
        return self._positions.pop(pod, 0)

    def position(self, pod: str) -> int:
        """The position of the pod, also of one from a list; 0: it was not seen bound."""
        return self._positions.get(pod, 0)

    def known_position(self, pod: str) -> int:
        """The position of the pod; 0 for pods from a list, whose order is unknown."""
        position = self.position(pod)
        return position if position > self.gap else 0

    def bound_after(self, pod: str, others: Iterable[str]) -> frozenset[str]:
        """The pods among `others` that were bound after `pod`, or may have been."""
        position = self.position(pod)
        return frozenset(other for other in others if self.position(other) >= position)

    def in_order(self, pods: Iterable[ResidentPod]) -> Sequence[ResidentPod]:
        """The pods in the order in which they were seen bound. Those from a list come first, by second and name."""
        positions, gap = self._positions, self.gap

        def place(pod: ResidentPod) -> tuple[int, int, str]:
            position = positions.get(pod.key, 0)
            return position if position > gap else 0, pod.bound_at or 0, pod.key

        return sorted(pods, key=place)
