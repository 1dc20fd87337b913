"""The rules: the settings that code without I/O reads."""

from webhook.app.settings import Settings
from webhook.formats.koordinator.intent import NUMASpec
from webhook.model.options import Options
from webhook.model.policy import NUMAPolicy
from webhook.placing.autoscaling.answers import Asking
from webhook.state.assumed.unreported import ReportingTimes
from webhook.state.rules import Rules


def rules_of(settings: Settings, own_user: str | None = None) -> Rules:
    """The rules that the settings define. own_user: our user name at the API server; None where it does not matter."""
    return Rules(
        manage=settings.manage,
        defaults=NUMASpec(
            NUMAPolicy.from_koordinator(settings.default_numa_topology_policy), settings.default_exclusive
        ),
        excluded_namespaces=frozenset((settings.namespace, *settings.excluded_namespaces)),
        manage_missed=settings.manage_missed,
        kueue_annotations=settings.kueue_annotations,
        dynamic_resources=settings.dynamic_resources,
        no_compatible_node=settings.no_compatible_node,
        not_alignable=settings.not_alignable,
        unenforced=settings.unenforced,
        gate=settings.gate,
        no_capacity=settings.no_capacity,
        max_affinity_values=settings.max_affinity_values,
        preferred_nodes=settings.preferred_nodes,
        scheduler_names=frozenset(settings.scheduler_names),
        trusted_users=frozenset(settings.trusted_users) | ({own_user} if own_user else set()),
        trusted_groups=frozenset(settings.trusted_groups),
        scheduler_users=frozenset(settings.scheduler_users),
        autoscaler=settings.autoscaler,
        engine=Options(
            fidelity=settings.fidelity,
            score_strategy=settings.score_strategy,
            resource_weights=settings.resource_weights,
            preference_weight=settings.preference_weight,
            gang_strategy=settings.gang_strategy,
        ),
    )


def times_of(settings: Settings) -> ReportingTimes:
    """How long exporters take to report a pod, by the settings."""
    return ReportingTimes(settings.nrt_settle_seconds, settings.nrt_age_seconds)


def asking_of(settings: Settings) -> Asking:
    """How a cluster autoscaler is asked. Only cluster-autoscaler sees pods that are kept off nodes by name."""
    narrow_after = settings.narrow_after_seconds if settings.autoscaler == "ClusterAutoscaler" else 0.0
    return Asking(
        settings.autoscaler,
        settings.node_group_labels,
        settings.new_node_seconds,
        narrow_after,
        settings.provisioning_class,
    )
