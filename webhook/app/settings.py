"""All settings, defined once: the configuration file and the flags of `serve` are generated from these fields.

1. Most stand in the configuration file (`TopologyWebhookConfiguration`), in camelCase: those of `CommonSettings` at its
   top, the others in the section of their class. The chart writes the file.
2. A flag `--<field>`, with dashes, wins over the file. Lists are comma-separated there.
3. The namespace, the pod's name and its address are also read from `TOPOLOGY_WEBHOOK_<FIELD>`, for the downward API.

With a wrong value the process does not start; the error names the place, the value and what is allowed. Code without
I/O gets the settings that it reads as `Rules` (`rules_of`).
Source: the configuration files of Kueue and cert-manager, which have a version and are overridden by flags, too.
"""

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self, get_origin

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator
from pydantic.alias_generators import to_camel

from webhook.formats.autoscaling import Autoscaler, ProvisioningClass
from webhook.formats.koordinator.intent import NUMASpec
from webhook.kube.election import Timing
from webhook.model.options import Fidelity, GangStrategy, Manage, Options, ScoreStrategy, Unenforced
from webhook.model.policy import Exclusive, NUMAPolicy
from webhook.model.wording import counted, did_you_mean, quoted
from webhook.state.assumed.unreported import ReportingTimes
from webhook.state.rules import Asking, GateMode, Mode, NoCapacity, NotAlignable, PreemptionMode, Repair, Rules

Names = tuple[str, ...]
Weights = dict[str, Annotated[int, Field(ge=1)]]
# Source: kubernetes apimachinery pkg/util/validation (IsQualifiedName).
_LABEL_KEY: Final = r"^(([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$"
ShardLabel = Annotated[str, Field(pattern=_LABEL_KEY)]
Port = Annotated[int, Field(ge=0, le=65535)]

PREFIX: Final = "TOPOLOGY_WEBHOOK_"
IN_ENVIRONMENT: Final = ("namespace", "pod_name", "pod_ip")
"""The fields that are read from variables, too."""
API_VERSION: Final = "config.topology-webhook.dev/v1alpha1"
KIND: Final = "TopologyWebhookConfiguration"


class SettingsError(Exception):
    """One or more settings are wrong; the message has a line for each, with what is allowed."""


def _off(value: object) -> object:
    """Off is a boolean in YAML 1.1, which Kubernetes reads, unless it is quoted."""
    return "Off" if value is False else value


class _Group(BaseModel):
    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        use_attribute_docstrings=True,
        alias_generator=to_camel,
        validate_by_name=True,
        serialize_by_alias=True,
    )


class CommonSettings(_Group):
    """What operators choose."""

    mode: Annotated[Mode, BeforeValidator(_off)] = "Enforce"
    """`Enforce` applies decisions. `Observe` only reports them. `Off` admits everything without a decision."""
    manage: Manage = Manage.ANNOTATED
    """Pods to manage: `Annotated` with an annotation on them or their owners; `Aligned` also what a kubelet would
    align; `All` every pod. A namespace's label `topology-webhook.dev/manage` wins."""
    default_numa_topology_policy: Literal["", "BestEffort", "Restricted", "SingleNUMANode"] = ""
    """NUMA policy of managed pods for which no annotation sets one. Unset: each node's own policy."""
    kueue_annotations: bool = False
    """Read Kueue's topology annotations (`kueue.x-k8s.io/podset-…`) on pods that Kueue does not manage."""
    gate: GateMode = "Always"
    """Which managed pods wait behind a scheduling gate: `Always` all, `WhenNeeded` members of gangs and pods that
    fit nowhere when created, `Never` none."""
    no_capacity: NoCapacity = "Gate"
    """What to do with a single pod that fits nowhere now, but may later: `Gate` it, `Allow` it without a gate, or
    `Deny` it."""
    no_compatible_node: Literal["Deny", "Warn"] = "Deny"
    """What to do with a pod whose NUMA policy contradicts that of every node: `Deny` it, or `Warn` and admit it."""
    not_alignable: NotAlignable = "Warn"
    """What to do with a pod that asks for a NUMA policy but that no kubelet aligns: `Warn` names the field to set;
    `Deny` denies the pod unless some node would align it."""
    unenforced: Unenforced = Unenforced.LAST
    """Whether `Restricted` and `SingleNUMANode` pods go to nodes that enforce neither: `Allow`, `Last` (if no other
    fits) or `Deny`."""
    gang_strategy: GangStrategy = GangStrategy.BIN_PACK
    """How to choose a gang's domain: `BinPack` the fewest and tightest, `Spread` most room, `Balanced` even counts,
    `Nearest` short distances. The annotation `topology-webhook.dev/strategy` wins."""
    scheduler_names: Annotated[Names, Field(min_length=1)] = ("default-scheduler",)
    """Only pods with one of these as `schedulerName` are managed. Add further profiles of your kube-scheduler, but
    no scheduler that places by NUMA nodes or gangs itself."""
    preemption: PreemptionMode = "LowerPriority"
    """Whether lower-priority pods are preempted for waiting pods and gangs: `LowerPriority`, or `Never`."""
    repair: Repair = "Pod"
    """If a gang lost a node and its domain has no room for the lost pods: `Pod` lets them wait, `Gang` moves the
    whole gang to a domain that holds it, if there is one."""
    evict_stuck: bool = False
    """Evict stuck pods that a controller recreates, so that they are placed again."""
    delete_rejected_after_seconds: Annotated[float, Field(ge=0, le=31_536_000)] = 0.0
    """Time after which a managed pod that its kubelet rejected is deleted, if it has a controller. 0: never."""
    ungate_after_seconds: Annotated[float, Field(ge=0, le=31_536_000)] = 0.0
    """Time after which a waiting pod is ungated without a node, so that a cluster autoscaler sees it. It still
    avoids nodes that can never take it. 0: never."""
    autoscaler: Autoscaler = "None"
    """Cluster autoscaler that is shown gated pods and gangs that one more node would help: `None`,
    `ClusterAutoscaler` or `Karpenter`."""
    provisioning_class: ProvisioningClass = ""
    """Class of the ProvisioningRequests that ask `ClusterAutoscaler` for all machines of a gang together. Unset:
    none."""
    trusted_users: Names = ()
    """Users who may also write what the service writes into pods, and remove its gate."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """Lowest severity of log lines. `info` has one line for each decision."""


class AdvancedSettings(_Group):
    """What few clusters need to change; the defaults say why they are what they are."""

    default_exclusive: Exclusive = Exclusive.REQUIRED
    """Likewise for `singleNUMANodeExclusive` of pods with a policy: `Required` or `Preferred`."""
    koordinator_reservations: bool = False
    """Count what Koordinator's Reservations hold for their owners as taken."""
    grove_pod_gangs: bool = False
    """Place the pods of Grove's PodGangs as the PodGangs say: minimums and nested pack constraints."""
    kueue_admission_check: bool = False
    """Answer Kueue's AdmissionChecks with the controllerName `topology-webhook.dev/fit`: whether there is room for all
    pods of a Workload, NUMA nodes and racks included."""
    dynamic_resources: bool = True
    """Read ResourceSlices, ResourceClaims, ResourceClaimTemplates, DeviceClasses and DeviceTaintRules where the API
    server serves `resource.k8s.io/v1`, and count the devices of each node."""
    fidelity: Fidelity = "Kubelet"
    """What decides whether a node fits: `Kubelet` predicts its kubelet's admission, `Plugin` decides as the
    scheduler plugin NodeResourceTopologyMatch does."""
    score_strategy: ScoreStrategy = "Packing"
    """How nodes that fit are ranked: `Packing` as by Koordinator (few NUMA nodes, the fuller ones first), the
    others as by NodeResourceTopologyMatch."""
    resource_weights: Weights = Field(default_factory=dict)
    """Weights of resources in the scores other than `Packing`, as resource=weight. Default: 1."""
    preference_weight: Annotated[int, Field(ge=0, le=100)] = 0
    """Percentage of a single pod's score that comes from preferred node affinity and `PreferNoSchedule` taints. 0:
    they only break ties."""
    max_affinity_values: Annotated[int, Field(ge=1, le=1000)] = 64
    """Maximum number of node names in a pod's required node affinity."""
    reserve_after_seconds: Annotated[float, Field(ge=0, le=31_536_000)] = 600.0
    """How long a gang waits until a domain is reserved for it, one gang of each namespace at a time. 0: never."""
    warn_after_seconds: Annotated[float, Field(ge=0, le=31_536_000)] = 300.0
    """How long a gang waits until the Event on its owner is a Warning. 0: never."""
    stuck_after_seconds: Annotated[float, Field(ge=0, le=31_536_000)] = 60.0
    """Time after which a pod without gate and node gets an Event if it is pinned to nodes that no longer fit while
    others do."""
    node_group_labels: Names = ()
    """For autoscaler: node labels that name a node's group, besides those of the usual clusters and of Karpenter."""
    new_node_seconds: Annotated[float, Field(ge=0, le=86_400)] = 300.0
    """For autoscaler: time until a new node's devices and NUMA nodes are published. What a younger node cannot take,
    the next one of its node group may."""
    narrow_after_seconds: Annotated[float, Field(ge=0, le=31_536_000)] = 300.0
    """For `ClusterAutoscaler`: time without a new node after which a shown pod is kept off nodes that have enough
    free in total only. 0: never."""
    trusted_groups: Names = ("system:masters",)
    """Groups that may remove the gate from a waiting pod and change its `placement` text: the administrators who
    take the service out. A single comma: no group."""
    scheduler_users: Annotated[Names, Field(min_length=1)] = ("system:kube-scheduler",)
    """Users who bind pods for kube-scheduler; add those of further schedulers. Bindings by other users are checked,
    but get no NUMA nodes."""
    nrt_age_seconds: Annotated[float, Field(ge=0, le=86_400)] = 120.0
    """Two periods of the exporter. A NodeResourceTopology without a pod fingerprint has counted a pod that was bound
    this long ago, or a twelfth of that (at most 10 s) before it was written."""
    lease_duration_seconds: Annotated[int, Field(ge=1, le=3600)] = 7
    """How long other replicas respect a leader after its last renewal. If shorter, a dead leader is replaced sooner;
    if longer, a leader survives a slow or restarted API server."""
    api_server_request_timeout_seconds: Annotated[float, Field(ge=0, le=3600)] = 60.0
    """The API server's `--request-timeout`. For about as long, a new leader admits only bindings of pods that were
    placed before: others that the previous leader allowed may not be visible yet."""
    shard_label: ShardLabel = ""
    """Node label whose values divide the nodes into shards, each led by one replica, where one replica cannot lead all
    nodes. Unset: one leads all."""
    drain_seconds: Annotated[float, Field(ge=0, le=600)] = 20.0
    """Maximum time from SIGTERM to exit. The replica is unready at once, serves while endpoints are removed, then
    finishes open requests."""
    log_format: Literal["json", "console"] = "json"
    """Log lines as JSON objects (`json`) or for people (`console`)."""
    bind_address: str = "::"
    """Address of the ports. `::`: all IPv6 (where the host has it) and IPv4 addresses."""


class InstallationSettings(_Group):
    """What follows from how the service is installed. The chart fills it in from its other values."""

    name: str = "topology-webhook"
    """Name of the service's objects: Service, Lease, webhook configurations; with `-ca` and `-hint-key` of Secrets. The
    Service's names are in the certificate."""
    excluded_namespaces: Names = ("kube-system",)
    """Namespaces in which `manage` covers no pod, besides the service's own. The chart excludes them from its
    webhooks."""
    manage_missed: bool = True
    """Whether `manage` covers pods whose creation no replica saw. The chart sets it to false if selectors or match
    conditions limit the calls."""
    port: Port = 8443
    """HTTPS port for the API server's calls. 0: a free port."""
    peer_port: Port = 8445
    """HTTPS port for other replicas, which pass on what only the leader can answer. 0: a free port."""
    metrics_port: Port = 8080
    """HTTP port for /healthz, /readyz and /metrics. 0: a free port."""
    metrics_tls_port: Annotated[int, Field(ge=0, le=65535)] | None = None
    """HTTPS port for /metrics, which metrics-port then lacks: it answers clients with a token whose user may `get` the
    path /metrics. 0: a free port. Unset: metrics-port serves everyone."""
    page: bool = False
    """Serve the read-only page of the cluster's topology, which has no login. It listens on localhost, which `kubectl
    port-forward` reaches; with page-hosts, on bind-address."""
    page_port: Port = 8090
    """HTTP port of the page. 0: a free port."""
    page_hosts: Names = ()
    """Host names, besides localhost, under which browsers may open the page: those of an ingress with a login. Other
    hosts get HTTP 421."""
    tls_cert_file: Path | None = None
    """PEM certificate chain that another tool renews together with caBundle; reloaded when it changes. Unset: the
    service keeps a CA in a Secret, and writes caBundle."""
    tls_key_file: Path | None = None
    """PEM private key for tls-cert-file, reloaded when it changes."""
    tls_names: Names = ()
    """Further DNS names and IP addresses for the certificate, if the API server calls a URL."""
    client_ca_file: Path | None = None
    """PEM certificates of the CAs of the API server's client certificate, reloaded when they change. Clients without
    such a certificate fail the TLS handshake. Unset: every client is answered."""
    client_names: Names = ()
    """Common or subject alternative names, of which the client certificate must have one, else HTTP 403. Unset: any
    certificate of the CA."""


class TopologyWebhookConfiguration(CommonSettings):
    """The configuration file."""

    api_version: Literal["config.topology-webhook.dev/v1alpha1"]
    """Version of the format."""
    kind: Literal["TopologyWebhookConfiguration"]
    """Kind of the file."""
    advanced: AdvancedSettings = AdvancedSettings()
    """What few clusters need to change."""
    installation: InstallationSettings = InstallationSettings()
    """What follows from how the service is installed. The chart fills it in."""


class ProcessSettings(_Group):
    """What only the process itself can know. It does not stand in the configuration file."""

    kubeconfig: Path | None = None
    """Kubeconfig file. Unset: the pod's service account, or outside of a cluster $KUBECONFIG or ~/.kube/config."""
    context: str | None = None
    """Context of the kubeconfig. Unset: its current context."""
    namespace: str = "topology-webhook"
    """Namespace of the service, with its Secrets, Services and Lease."""
    pod_name: str | None = None
    """The process's own pod, from the downward API."""
    pod_ip: str | None = None
    """Its address, likewise, under which other replicas reach it. Unset: replicas do not ask each other, so what only
    the leader can answer is refused by others until a call reaches it."""


class Settings(ProcessSettings, InstallationSettings, AdvancedSettings, CommonSettings):
    """The settings of `topology-webhook serve`, however they were given."""

    # The messages of these name fields in braces, for `_sentence` to say where they stand.
    @model_validator(mode="after")
    def _files_come_in_pairs(self) -> Self:
        given = {"tls_cert_file": self.tls_cert_file, "tls_key_file": self.tls_key_file}
        missing = [name for name, path in given.items() if path is None]
        if len(missing) == 1:
            (present,) = given.keys() - missing
            msg = f"{{{present}}} is set, which needs {{{missing[0]}}}"
            raise ValueError(msg)
        return self

    @model_validator(mode="after")
    def _names_are_verified(self) -> Self:
        if self.client_names and self.client_ca_file is None:
            msg = "{client_names} is set, which needs {client_ca_file}: without it no client shows a certificate"
            raise ValueError(msg)
        return self

    @model_validator(mode="after")
    def _classes_are_cluster_autoscalers(self) -> Self:
        if self.provisioning_class and self.autoscaler != "ClusterAutoscaler":
            needs = f"{{autoscaler}} 'ClusterAutoscaler', not {self.autoscaler!r}"
            msg = f"{{provisioning_class}} is set, which needs {needs}"
            raise ValueError(msg)
        return self

    @property
    def page_bind_address(self) -> str:
        """The address of the page."""
        return self.bind_address if self.page_hosts else "127.0.0.1"

    @property
    def tls_files(self) -> tuple[Path, Path] | None:
        """Certificate and key; None if the service keeps a CA of its own."""
        if self.tls_cert_file is None or self.tls_key_file is None:
            return None
        return self.tls_cert_file, self.tls_key_file

    @property
    def timing(self) -> Timing:
        """The times of the election. Those of client-go (15, 10 and 2 s) are in this proportion."""
        lease = self.lease_duration_seconds
        return Timing(lease, renew_deadline=lease * 10 / 15, retry_period=lease * 2 / 15)

    @property
    def assume_ttl(self) -> float:
        """Seconds after its claim in which a new leader may not know everything that was promised.

        `kube.leadership` derives it: 60 + 7 - 2 + 3 s with the defaults. The 3 s of the watch remain however long the
        time between two terms is.
        """
        between_terms = self.timing.lease_duration - self.timing.renew_deadline
        return max(self.api_server_request_timeout_seconds + 7.0 - between_terms, 0.0) + 3.0

    @property
    def preempts(self) -> bool:
        """Whether pods may be preempted for others. In the other modes nothing waits behind the gate."""
        return self.preemption != "Never" and self.mode == "Enforce"

    @classmethod
    def load(
        cls, flags: Mapping[str, str | None] | None = None, configuration: Mapping[str, Any] | None = None
    ) -> Self:
        """Settings from `flags` (by field name; None means not given), else variables, else the file, else defaults.

        configuration: the content of the configuration file. Raises SettingsError.
        """
        given: dict[str, Any] = {} if configuration is None else _flat(configuration)
        # Also for fields that are not given: that is where one would write them.
        sources = {
            field: (configuration is not None and path_in_file(field)) or flag(field) for field in cls.model_fields
        }
        for field in IN_ENVIRONMENT:
            if value := os.environ.get(environment_variable(field)):
                given[field], sources[field] = value, environment_variable(field)
        faults = [*_unread_variables()]
        for field, value in (flags or {}).items():
            if value is not None:
                sources[field] = flag(field)
                try:
                    given[field] = _from_text(cls.model_fields[field].annotation, value)
                except ValueError as error:
                    faults.append(f"{flag(field)}: {value!r} is wrong: {error}")
        if faults:
            raise SettingsError("\n".join(faults))
        try:
            return cls.model_validate(given, by_name=True, by_alias=False)
        except ValidationError as error:
            raise SettingsError(
                "\n".join(_sentence(fault, sources, flags or {}) for fault in error.errors())
            ) from error


def environment_variable(field: str) -> str:
    """The environment variable of a field."""
    return PREFIX + field.upper()


def flag(field: str) -> str:
    """The command-line flag of a field."""
    return "--" + field.replace("_", "-")


def path_in_file(field: str) -> str | None:
    """Where a field stands in the configuration file; None for those of the process."""
    for section, group in _SECTIONS.items():
        if field in group.model_fields:
            return section + to_camel(field)
    return None


_SECTIONS: Final[Mapping[str, type[_Group]]] = {
    "": CommonSettings,
    "advanced.": AdvancedSettings,
    "installation.": InstallationSettings,
}


def _flat(configuration: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that a configuration file gives, by field name. Raises SettingsError."""
    try:
        read = TopologyWebhookConfiguration.model_validate_json(
            json.dumps(configuration), strict=True, by_alias=True, by_name=False
        )
    except ValidationError as error:
        raise SettingsError("\n".join(map(_fault_of_file, error.errors()))) from error
    groups = (read, read.advanced, read.installation)
    return {
        field: getattr(group, field)
        for group in groups
        for field in group.model_fields_set & Settings.model_fields.keys()
    }


def _fault_of_file(fault: Mapping[str, Any]) -> str:
    """`advanced.drainSeconds: -1 is wrong: input should be greater than or equal to 0`."""
    path = ".".join(str(part) for part in fault["loc"])
    if fault["type"] == "missing":
        return f"{path} is missing: the file begins with apiVersion: {API_VERSION} and kind: {KIND}"
    if fault["type"] == "extra_forbidden":
        places = {place.rpartition(".")[2]: place for place in map(path_in_file, Settings.model_fields) if place}
        name = str(fault["loc"][-1])
        if name in places:
            return f"{path}: it stands elsewhere: {places[name]}"
        section = ".".join(str(part) for part in fault["loc"][:-1])
        allowed = [place for place in places.values() if place.rpartition(".")[0] == section]
        return f"{quoted(path)} is no setting.{did_you_mean(name, [place.rpartition('.')[2] for place in allowed])}"
    return f"{path}: {fault['input']!r} is wrong: {_reason(fault)}"


def _sentence(fault: Mapping[str, Any], sources: Mapping[str, str], flags: Mapping[str, str | None]) -> str:
    """`--port: 70000 is wrong: input should be less than or equal to 65535`."""
    if not fault["loc"]:
        return _reason(fault).format_map(sources)
    field, *inner = (str(part) for part in fault["loc"])
    place = f"{sources[field]} ({'.'.join(inner)})" if inner else sources[field]
    value = fault["input"] if inner else flags.get(field) or fault["input"]
    return f"{place}: {value!r} is wrong: {_reason(fault)}"


def _reason(fault: Mapping[str, Any]) -> str:
    if fault["type"] == "too_short":
        return f"write at least {counted(fault['ctx']['min_length'], 'item')}"
    message = str(fault["msg"]).removeprefix("Value error, ")
    return message[:1].lower() + message[1:]


def _unread_variables() -> Iterator[str]:
    """Variables that look like settings. Not those that a kubelet makes for Services of these names."""
    for field in Settings.model_fields.keys() - set(IN_ENVIRONMENT):
        value = os.environ.get(environment_variable(field), "")
        if value and not value.startswith("tcp://"):
            place = path_in_file(field)
            instead = f"{flag(field)}, or {place} in the configuration file" if place else flag(field)
            yield f"{environment_variable(field)} is not read: use {instead}"


def _from_text(kind: Any, text: str) -> object:
    """What a flag says: `a, b` -> ("a", "b"), and `cpu=1, memory=2` -> {"cpu": "1", "memory": "2"}."""
    if get_origin(kind) not in {tuple, dict}:
        return text
    parts = tuple(part.strip() for part in text.split(",") if part.strip())
    if get_origin(kind) is tuple:
        return parts
    pairs = [part.partition("=") for part in parts]
    for name, equals, _ in pairs:
        if not equals:
            msg = f"{name!r} is not of the form resource=weight"
            raise ValueError(msg)
    return {name.strip(): weight.strip() for name, _, weight in pairs}


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
        grove_pod_gangs=settings.grove_pod_gangs,
        dynamic_resources=settings.dynamic_resources,
        no_compatible_node=settings.no_compatible_node,
        not_alignable=settings.not_alignable,
        unenforced=settings.unenforced,
        gate=settings.gate,
        no_capacity=settings.no_capacity,
        max_affinity_values=settings.max_affinity_values,
        scheduler_names=frozenset(settings.scheduler_names),
        trusted_users=frozenset(settings.trusted_users) | ({own_user} if own_user else set()),
        trusted_groups=frozenset(settings.trusted_groups),
        scheduler_users=frozenset(settings.scheduler_users),
        autoscaler=settings.autoscaler,
        shard_label=settings.shard_label,
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
    # Of an exporter with a shorter period than 60 s, reports follow sooner, too.
    return ReportingTimes(min(ReportingTimes().settle, settings.nrt_age_seconds / 12), settings.nrt_age_seconds)


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
