"""Everything an operator can set, once: environment variables and `serve` flags are made from these fields.

`TOPOLOGY_WEBHOOK_<FIELD>` in the environment, `--<field>` with dashes on the command line; the flag wins. Lists are
comma-separated in both. A wrong value stops the start with the variable, the value and what is allowed.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

from pydantic import BeforeValidator, Field, ValidationError, model_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from webhook.admission.rules import GateMode, NoRoom, NotAlignable
from webhook.engine.options import Fidelity, GroupStrategy, ScoreStrategy
from webhook.model.manage import Manage
from webhook.model.policy import Exclusive

PREFIX: Final = "TOPOLOGY_WEBHOOK_"


def _split(value: object) -> object:
    """`a, b` -> ("a", "b"); what is not text is left to the validation."""
    if not isinstance(value, str):
        return value
    return tuple(part.strip() for part in value.split(",") if part.strip())


def _split_weights(value: object) -> object:
    """`cpu=1, memory=2` -> {"cpu": "1", "memory": "2"}."""
    if not isinstance(value, str):
        return value
    weights = {}
    for part in value.split(","):
        if part.strip():
            name, equals, weight = part.partition("=")
            if not equals:
                msg = f"{part.strip()!r} is not of the form resource=weight"
                raise ValueError(msg)
            weights[name.strip()] = weight.strip()
    return weights


# NoDecode: pydantic-settings would otherwise want JSON in the environment for anything that is not a scalar.
Names = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_split)]
Weights = Annotated[dict[str, Annotated[int, Field(ge=1)]], NoDecode, BeforeValidator(_split_weights)]
Port = Annotated[int, Field(ge=0, le=65535)]


class SettingsError(Exception):
    """One or more settings are wrong; the message has a line for each, with what is allowed."""


class Settings(BaseSettings):
    """The settings of `topology-webhook serve`."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, frozen=True, extra="forbid", use_attribute_docstrings=True, env_ignore_empty=True
    )

    kubeconfig: Path | None = None
    """Kubeconfig file of the cluster to serve.
    Unset: the pod's service account, outside of a cluster $KUBECONFIG or ~/.kube/config."""
    context: str | None = None
    """Context in the kubeconfig. Unset: its current one."""
    namespace: str = "topology-webhook"
    """Namespace that the service runs in; its CA Secret, Services and Lease are there."""
    pod_name: str | None = None
    """Pod that the process runs in, by the downward API. Unset: it may lead, but no Pod is marked as the leader's."""

    bind_address: str = "0.0.0.0"  # noqa: S104 # a pod's own network namespace
    """Address that both ports listen on."""
    port: Port = 8443
    """HTTPS port for the API server: /mutate/pods and /validate/pods. 0 takes a free one."""
    metrics_port: Port = 8080
    """HTTP port for /healthz, /readyz and /metrics. 0 takes a free one."""

    tls_mode: Literal["secret", "files"] = "secret"
    """Where the serving certificate comes from. `secret`: a CA kept in a Secret, by which the process issues itself
    short-lived certificates, and whose caBundle it writes; `files`: tls-cert-file and tls-key-file, which somebody else
    (cert-manager) renews together with caBundle."""
    tls_cert_file: Path | None = None
    """PEM certificate chain, for tls-mode `files`; read again when it changes."""
    tls_key_file: Path | None = None
    """PEM private key, for tls-mode `files`; read again when it changes."""
    tls_secret_name: str = "topology-webhook-ca"  # noqa: S105 # a name
    """Secret with the CA, for tls-mode `secret`; created when absent."""
    client_ca_file: Path | None = None
    """PEM certificates of the CAs that issue the API server's client certificate for webhooks; reloaded when the file
    changes. Set: a client without a certificate of these CAs fails the TLS handshake of the HTTPS port. Unset: every
    client that reaches the port gets an answer, and a binding's reservation is confirmed within seconds or released."""
    client_names: Names = ()
    """Common names and subject alternative names; the client certificate must carry one of them, else the answer is
    HTTP 403. Unset: any certificate of the CA. Needs client-ca-file."""
    hint_key_secret_name: str = "topology-webhook-hint-key"  # noqa: S105 # a name
    """Secret with the key that signs the NUMA hints of pods that are not bound yet, against forgery; created when
    absent."""
    service_name: str = "topology-webhook"
    """Service by which the API server calls; its DNS names are in the certificate."""
    bind_service_name: str = "topology-webhook-bind"
    """Service that leads to the leader, for calls that need it; its DNS names are in the certificate, too."""
    tls_names: Names = ()
    """Further DNS names and IP addresses for the certificate, where the API server calls a URL."""
    webhook_configurations: Names = ("topology-webhook",)
    """Names of the MutatingWebhookConfigurations and ValidatingWebhookConfigurations whose caBundle is kept, for
    tls-mode `secret`."""

    manage: Manage = Manage.ANNOTATED
    """Which pods are placed, guarded and counted: `Annotated` those that ask for something, themselves or by their
    owners; `Aligned` also those that a kubelet with a NUMA policy would align: Guaranteed pods with exclusive CPUs,
    memory or huge pages, and pods with devices of NUMA nodes; `All` every pod. The namespace label
    `topology-webhook.dev/manage` (`annotated`, `aligned`, `all`) wins."""
    default_numa_topology_policy: Literal["", "BestEffort", "Restricted", "SingleNUMANode"] = ""
    """NUMA policy of managed pods that state none, nor do their owners and their namespace. Unset: each node's own
    policy holds."""
    default_exclusive: Exclusive = Exclusive.REQUIRED
    """The same for `singleNUMANodeExclusive` of pods with a policy: `Required` or `Preferred`."""
    excluded_namespaces: Names = ("kube-system",)
    """Namespaces of which `manage` covers no pod, besides --namespace. The chart leaves them out of its webhooks."""
    manage_missed: bool = True
    """Whether `manage` also covers pods whose creation no replica saw: their binding is guarded, and they get a hint
    afterwards. The chart turns it off where it calls the service for some pods only (`webhook.namespaceSelector`,
    `objectSelector`, `matchConditions`), as the service does not know which."""
    no_compatible_node: Literal["deny", "warn"] = "deny"
    """What to do with a pod when no node has a NUMA policy compatible with the pod's. While the NUMA topology or policy
    of a node that it may go to is unknown, the pod waits."""
    not_alignable: NotAlignable = "Warn"
    """What to do with a pod that asks for a NUMA policy and that no kubelet aligns, such as one without limits. `Warn`
    admits it, and the warning names the container and the field to set; `Deny` refuses it, unless some node it may go
    to would align it."""
    fidelity: Fidelity = "kubelet"
    """What decides whether a node fits: `kubelet` predicts the node's own admission, `plugin` repeats the scheduler
    plugin NodeResourceTopologyMatch."""
    score_strategy: ScoreStrategy = "Packing"
    """How fitting nodes are ranked: `Packing` as Koordinator does (few NUMA nodes, the fuller ones first), the others
    as the scheduler plugin NodeResourceTopologyMatch does."""
    resource_weights: Weights = Field(default_factory=dict)
    """Weight of each resource in the scores other than `Packing`, as resource=weight; others weigh 1."""
    preference_weight: Annotated[int, Field(ge=0, le=100)] = 0
    """Share, in percent, that a pod's preferred node affinity and the nodes' `PreferNoSchedule` taints have in a score.
    0: they decide between nodes of equal score. Groups: they decide between domains, and nodes, that serve the group
    equally well, whatever the weight."""
    group_strategy: GroupStrategy = GroupStrategy.BIN_PACK
    """Which of several domains that hold a group is chosen: `bin-pack` the one where the group needs the fewest domains
    below and the fewest nodes, then the one that its pods prefer, then the tightest; `spread` the one that they prefer,
    then the one with most room."""
    gate: GateMode = "always"
    """Which pods get a scheduling gate at their creation and are placed by the leader, exactly, when their turn comes:
    `always` all that are managed, `when-needed` those that fit nowhere at that moment and all members of groups,
    `never` none. What is decided at creation for many pods at a time is out of date when they are bound: some are then
    refused, others held to nodes that are full."""
    no_room: NoRoom = "gate"
    """What to do with a pod that fits on no node now, but may later: `gate` has it wait behind the gate (with
    `--gate=never` as `allow`), `allow` lets it in, kept off nodes that never can take it, `deny` refuses it. Members
    of groups are not meant: they wait for one another. Nor is, with `gate`, a pod for which there is no node yet: a
    cluster autoscaler must see it."""
    ungate_concurrency: Annotated[int, Field(ge=1, le=256)] = 16
    """How many gated pods are written at a time. A write takes the API server 10 to 20 ms: 16 make about 1,000
    a second."""
    release_after_seconds: Annotated[float, Field(ge=0, le=31_536_000)] = 0.0
    """A pod that has waited so long is let go without a place, kept off nodes that never can take it: a cluster
    autoscaler sees only pods without gates. 0: never."""
    reserve_after_seconds: Annotated[float, Field(ge=0, le=31_536_000)] = 0.0
    """When the oldest member of a group has waited so long, the domain that will hold the group soonest is kept for it:
    pods and groups whose turn comes later get no place there. 0: never."""
    stuck_after_seconds: Annotated[float, Field(ge=0, le=31_536_000)] = 60.0
    """A pod that has been without gate and node for so long is looked at: is it held to nodes that can no longer take
    it, while others can, an event says so."""
    evict_stuck: bool = False
    """Whether such a pod is evicted if a controller makes a new one, which is then placed anew."""
    scheduler_names: Annotated[Names, Field(min_length=1)] = ("default-scheduler",)
    """Pods with one of these as `schedulerName` are steered, guarded and placed; those of others are left alone. Name
    the further profiles of your kube-scheduler, not a scheduler that places by NUMA nodes or groups itself."""
    max_affinity_values: Annotated[int, Field(ge=1, le=1000)] = 64
    """Most node names that are written into a pod's required node affinity."""
    preferred_nodes: Annotated[int, Field(ge=0, le=100)] = 10
    """Number of best nodes that are written as preferred, with a weight each."""

    trusted_users: Names = ()
    """Users who, like the service itself, may set and change what it writes into pods: its annotations and labels,
    `scheduling.koordinator.sh/resource-status`, and the removal of its gate. Koordinator's scheduler, where it runs as
    well, is one: `system:serviceaccount:koordinator-system:koord-scheduler`."""
    scheduler_users: Annotated[Names, Field(min_length=1)] = ("system:kube-scheduler",)
    """Users who bind pods for kube-scheduler; add the user of each further scheduler. Only their bindings get NUMA
    nodes. A binding by another user (kubectl, a controller) is checked, and passes without a hint."""
    nrt_settle_seconds: Annotated[float, Field(ge=0, le=3600)] = 10.0
    """A NodeResourceTopology without a fingerprint of its pods that was written so long after a pod was bound has
    counted it."""
    nrt_age_seconds: Annotated[float, Field(ge=0, le=86_400)] = 120.0
    """One that was written sooner after it has counted the pod when the pod has been bound for so long: two periods of
    the exporter."""

    lease_name: str = "topology-webhook"
    """Lease by which replicas agree on one that leads."""
    lease_duration_seconds: Annotated[int, Field(ge=1, le=3600)] = 15
    """How long a leader is believed to live after it was last heard of. Short: a dead one is replaced soon; long: an
    API server that is slow or restarted does not end its term."""
    renew_deadline_seconds: Annotated[float, Field(ge=0.1, le=3600)] = 10.0
    """How long a leader leads after the last renewal it has asked for and got. What it is below
    lease-duration-seconds is the time between the end of one term and the earliest begin of the next: no less than the
    API server waits for a webhook's answer."""
    retry_period_seconds: Annotated[float, Field(ge=0.1, le=3600)] = 2.0
    """How often a leader renews, and others look. A call may take half of renew-deadline-seconds, so that one that
    fails leaves time for another."""
    grant_horizon_seconds: Annotated[float, Field(ge=0, le=3600)] = 65.0
    """How long the next leader must reckon with bindings that a dead one allowed and that it cannot see yet: the API
    server's --request-timeout (60) and etcd's own time for a write (7), less what lies between the two terms (5), and 3
    for the watch. Until then it binds only pods that were placed before."""

    drain_seconds: Annotated[float, Field(ge=0, le=600)] = 20.0
    """Longest time from SIGTERM to the end: not ready at once, serving on while endpoints are removed, then finishing
    what is in flight."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """Least severe log lines that are written; `info` has one line for each decision."""
    log_format: Literal["json", "console"] = "json"
    """Log lines as JSON objects, or for people."""
    list_page_size: Annotated[int, Field(ge=1, le=10_000)] = 500
    """Objects per page when listing from the API server."""

    @model_validator(mode="before")
    @classmethod
    def _drop_service_links(cls, given: dict[str, Any]) -> dict[str, Any]:
        # NB: for a Service called topology-webhook the kubelet puts TOPOLOGY_WEBHOOK_PORT=tcp://10.0.0.1:443 into every
        # container of the namespace, for one called topology-webhook-metrics TOPOLOGY_WEBHOOK_METRICS_PORT.
        links = [field for field in ("port", "metrics_port") if str(given.get(field)).startswith("tcp://")]
        return {field: value for field, value in given.items() if field not in links}

    @model_validator(mode="after")
    def _files_come_in_pairs(self) -> Self:
        given = {"tls_cert_file": self.tls_cert_file, "tls_key_file": self.tls_key_file}
        missing = [name for name, path in given.items() if path is None]
        if self.tls_mode == "files" and missing:
            msg = f"tls_mode is 'files', which needs {' and '.join(missing)}"
            raise ValueError(msg)
        return self

    @model_validator(mode="after")
    def _names_are_verified(self) -> Self:
        if self.client_names and self.client_ca_file is None:
            msg = "client_names is set, which needs client_ca_file: without it no client shows a certificate"
            raise ValueError(msg)
        return self

    @model_validator(mode="after")
    def _terms_end_before_leases_run_out(self) -> Self:
        if self.renew_deadline_seconds >= self.lease_duration_seconds:
            msg = (
                f"renew_deadline_seconds is {self.renew_deadline_seconds:g}, which must be less than "
                f"lease_duration_seconds, {self.lease_duration_seconds}"
            )
            raise ValueError(msg)
        if self.retry_period_seconds > self.renew_deadline_seconds / 2:
            msg = (
                f"retry_period_seconds is {self.retry_period_seconds:g}, which must be at most half of "
                f"renew_deadline_seconds, {self.renew_deadline_seconds:g}"
            )
            raise ValueError(msg)
        return self

    @classmethod
    def load(cls, flags: Mapping[str, Any] | None = None) -> Self:
        """Settings from `flags` (by field name; None means not given), then the environment, then the defaults.

        Raises SettingsError.
        """
        given = {name: value for name, value in (flags or {}).items() if value is not None}
        try:
            return cls(**given)
        except ValidationError as error:
            raise SettingsError("\n".join(_sentence(fault, given) for fault in error.errors())) from error


def environment_variable(field: str) -> str:
    """The environment variable of a field."""
    return PREFIX + field.upper()


def flag(field: str) -> str:
    """The command-line flag of a field."""
    return "--" + field.replace("_", "-")


def _sentence(fault: Mapping[str, Any], given: Mapping[str, Any]) -> str:
    """`--port: 70000 is wrong: input should be less than or equal to 65535`."""
    message = str(fault["msg"]).removeprefix("Value error, ")
    message = message[:1].lower() + message[1:]
    if not fault["loc"]:
        return message
    field, *inner = (str(part) for part in fault["loc"])
    source = flag(field) if field in given else environment_variable(field)
    place = f"{source} ({'.'.join(inner)})" if inner else source
    return f"{place}: {fault['input']!r} is wrong: {message}"
