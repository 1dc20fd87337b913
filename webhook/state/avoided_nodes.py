"""Which nodes the next pods of a controller or gang avoid: those whose kubelet rejected one of its pods.

Life cycle of an entry, of a node and a controller or gang:
1. A kubelet rejects a pod. The entry begins, unless the node's NodeResourceTopology (NRT) is newer already.
2. A further rejection there renews it.
3. It ends when the node's NRT is newer than the rejection: then the NRT shows what was taken. It also ends when that
   time has passed without one, because an exporter does not write an NRT that does not change. Or the node is gone.

All of it comes from objects of the API server: failed pods and NRTs. So a replica that starts knows the same, unless
the failed pod was deleted meanwhile.

A kubelet that gives whole cores only (full-pcpus-only) says so when it rejects a pod, with the threads per core. For
all pods of the namespace this is known until the kubelet restarts, which shows as its node becoming ready again. If it
restarts faster than its node is seen as not ready, nothing shows it: so it is known for a day at most.

Users cannot write a pod's status, unless they are given the right to, but they can have pods of their own rejected. So
all of this counts for the pods of their own namespace alone, and a namespace has a bounded number of entries; the
oldest are dropped. It never denies a pod, because it ends.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from webhook.formats.kubernetes.avoided_node import Avoided, AvoidedNode, avoided_by, learned_in, learned_key
from webhook.formats.kubernetes.membership import membership_of
from webhook.formats.kubernetes.pod import Pod
from webhook.formats.kubernetes.rejected_pod import RejectedPod
from webhook.model.raw import Raw
from webhook.signal import Signal

# Per namespace. More nodes than reject the pods of one namespace between two reports of their NRTs, unless something
# else is wrong with its pods. An entry takes about 300 bytes.
_MOST: Final = 256
_LEARNED_SECONDS: Final = 86_400


def avoiding(pod: Pod, raw: Raw, avoided: Avoided, namespace: str = "") -> Pod:
    """The pod of an object with the nodes that it avoids. namespace: where the object names none."""
    if not avoided:
        return pod
    controller, membership = pod.controller, membership_of(raw)
    namespace = pod.namespace or namespace
    nodes = avoided_by(
        avoided,
        namespace,
        "" if controller is None else controller.uid,
        "" if membership is None else membership.group,
    )
    learned = learned_in(avoided, namespace)
    return replace(pod, avoided=nodes, learned=learned) if nodes or learned else pod


class AvoidedNodes:
    """The entries. clock: seconds since the epoch; seconds: how long a node without a newer NRT is avoided.

    written_at: when the zones of a node's NRT were written, in seconds since the epoch; None: not known. ready_since:
    when a node became ready; 0: not known.
    """

    def __init__(
        self,
        clock: Callable[[], float],
        seconds: float,
        written_at: Callable[[str], int | None],
        ready_since: Callable[[str], int],
        changed: Signal[[]],
    ) -> None:
        self.began = Signal[[RejectedPod, AvoidedNode]]()
        """Emitted when a pod was rejected just now, and the next ones avoid its node."""
        self._clock = clock
        self._seconds = seconds
        self._written_at = written_at
        self._ready_since = ready_since
        self._changed = changed
        self._of: dict[str, dict[tuple[str, str], AvoidedNode]] = {}  # namespace -> (group, node) -> entry
        self._by_key: Avoided | None = {}
        self._nodes: frozenset[str] = frozenset()

    def by_key(self) -> Avoided:
        """The avoided nodes by key of a controller's pods or of a gang; later changes do not affect the result."""
        if self._by_key is None:
            by_key: dict[str, list[AvoidedNode]] = {}
            for entries in self._of.values():
                for (group, _), entry in entries.items():
                    by_key.setdefault(group, []).append(entry)
            self._by_key = {group: tuple(sorted(entries)) for group, entries in by_key.items()}
            self._nodes = frozenset(entry.node for entries in by_key.values() for entry in entries)
        return self._by_key

    def saw(self, pod: RejectedPod, just_now: bool) -> None:  # a signal's observer
        """Take a rejected pod."""
        now = self._clock()
        at = int(now) if pod.rejected_at is None else pod.rejected_at
        if pod.node and pod.threads:
            self._learn(pod, at, now)
        if not (pod.node and pod.groups):
            return
        # A kubelet's clock may be ahead.
        entry = AvoidedNode(pod.node, pod.rejection.reason, at, int(min(at, now) + self._seconds))
        if entry.until <= now or self._is_newer(pod.node, at):
            return
        entries = self._of.setdefault(pod.namespace, {})
        for group in pod.groups:
            known = entries.pop((group, pod.node), None)
            entries[group, pod.node] = entry if known is None else max(known, entry, key=lambda one: one.rejected_at)
        self._bound(entries)
        if just_now:
            self.began.emit(pod, entry)

    def reported(self, node: str) -> None:
        """Take a new NRT of the node."""
        if self.by_key() and node in self._nodes:
            self._drop(
                lambda entry: entry.node == node and not entry.threads and self._is_newer(node, entry.rejected_at)
            )

    def restarted(self, node: str, ready_since: int) -> None:
        """The node became ready then."""
        if self.by_key() and node in self._nodes:
            self._drop(lambda entry: entry.node == node and entry.threads > 0 and entry.rejected_at < ready_since)

    def gone(self, node: str) -> None:
        """The node was deleted."""
        if self.by_key() and node in self._nodes:
            self._drop(lambda entry: entry.node == node)

    def advance(self) -> None:
        """Drop the entries whose time has passed."""
        if self._of:
            now = self._clock()
            self._drop(lambda entry: entry.until <= now)

    def _learn(self, pod: RejectedPod, at: int, now: float) -> None:
        """The kubelet gives whole cores only."""
        entry = AvoidedNode(pod.node, pod.rejection.reason, at, int(min(at, now) + _LEARNED_SECONDS), pod.threads)
        if entry.until <= now or self._ready_since(pod.node) > at:
            return
        entries = self._of.setdefault(learned_key(pod.namespace), {})
        key = learned_key(pod.namespace), pod.node
        known = entries.pop(key, None)
        entries[key] = entry if known is None else max(known, entry, key=lambda one: one.rejected_at)
        self._bound(entries)

    def _bound(self, entries: dict[tuple[str, str], AvoidedNode]) -> None:
        while len(entries) > _MOST:
            del entries[next(iter(entries))]
        self._has_changed()

    def _is_newer(self, node: str, rejected_at: int) -> bool:
        written = self._written_at(node)
        return written is not None and written > rejected_at  # whole seconds: within the same one it may be older

    def _drop(self, ended: Callable[[AvoidedNode], bool]) -> None:
        kept = {
            namespace: {key: entry for key, entry in entries.items() if not ended(entry)}
            for namespace, entries in self._of.items()
        }
        kept = {namespace: entries for namespace, entries in kept.items() if entries}
        if sum(map(len, kept.values())) != sum(map(len, self._of.values())):
            self._of = kept
            self._has_changed()

    def _has_changed(self) -> None:
        self._by_key = None
        self._changed.emit()
