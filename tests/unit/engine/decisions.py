"""The engine's decisions in short form, for tests."""

from webhook.engine.decide import Decision, decide
from webhook.engine.snapshot.cluster_state import ClusterState
from webhook.engine.snapshot.ledger import Ledger
from webhook.engine.snapshot.snapshot import Snapshot
from webhook.formats.koordinator.intent import parse_numa_intent
from webhook.formats.kubernetes.pod import Pod
from webhook.model.options import Options


def decision(
    cluster: ClusterState, pod: Pod, *, ledger: Ledger | None = None, options: Options | None = None
) -> Decision:
    """The decision on the cluster as it is now."""
    intent, _ = parse_numa_intent(pod.annotations)
    return decide(Snapshot(cluster.node_arrays(), ledger), pod, intent, options)


def reasons(decided: Decision) -> dict[str, str]:
    """Node name -> code of its reason."""
    return {name: decided.explain(n)[0].code for n, name in enumerate(decided.snapshot.node_arrays.names)}
