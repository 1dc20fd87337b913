"""The webhooks: a handler for each path."""

from collections.abc import Callable, Mapping
from time import monotonic
from typing import Final

from webhook.admission.handler import Handler
from webhook.admission.namespace.validate import NamespaceValidator
from webhook.admission.node.validate import NodeValidator
from webhook.admission.pod.mutate import PodMutator
from webhook.admission.pod.validate import PodValidator
from webhook.admission.workload.mutate import WorkloadMutator
from webhook.admission.workload.validate import WorkloadValidator
from webhook.app.watch_lag import namespace_lag, topology_lag
from webhook.state.cluster_cache import ClusterCache
from webhook.state.cluster_snapshot import ClusterSnapshot
from webhook.state.rules import Rules

_MUTATE_PODS: Final = "/mutate/pods"
_VALIDATE_WORKLOADS: Final = "/validate/workloads"


def handlers_of(rules: Rules, snapshot: Callable[[], ClusterSnapshot], bindings: Handler) -> Mapping[str, Handler]:
    """Path -> handler. snapshot: returns the cluster at the time of a review. bindings: reviews Bindings."""
    return {
        _MUTATE_PODS: PodMutator(snapshot, rules, monotonic),
        "/mutate/bindings": bindings,
        "/mutate/workloads": WorkloadMutator(rules),
        "/validate/pods": PodValidator(snapshot, rules),
        "/validate/namespaces": NamespaceValidator(),
        "/validate/nodes": NodeValidator(),
        _VALIDATE_WORKLOADS: WorkloadValidator(snapshot, rules),
    }


def waiting_handlers(handlers: Mapping[str, Handler], cache: ClusterCache) -> Mapping[str, Handler]:
    """The handlers, of which two wait: pods for their namespace, and workloads for the topologies that they name."""
    return {
        **handlers,
        _MUTATE_PODS: namespace_lag(handlers[_MUTATE_PODS], cache),
        _VALIDATE_WORKLOADS: topology_lag(handlers[_VALIDATE_WORKLOADS], cache),
    }
