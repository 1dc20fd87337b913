"""The chart's objects for given values."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from tests.chart.helm import CHART, Helm, RefusedError, Rendered
from tests.chart.release import settings_of
from tests.handlers import HandlerOf
from webhook.app.settings import (
    API_VERSION,
    IN_ENVIRONMENT,
    PREFIX,
    AdvancedSettings,
    CommonSettings,
    InstallationSettings,
    Settings,
    environment_variable,
    rules_of,
)
from webhook.app.webhooks import handlers_of
from webhook.cli.app import app
from webhook.formats.workload.readers import ASKED_ABOUT, MAKERS
from webhook.model.names import NUMA_TOPOLOGY_SPEC, RESOURCE_SPEC
from webhook.model.options import BY_LABEL, Manage
from webhook.state.cluster_snapshot import ClusterSnapshot
from webhook.state.rules import Rules
from webhook.version import VERSION

MANAGE = "topology-webhook.dev/manage"
UNLABELLED = {"key": MANAGE, "operator": "DoesNotExist"}
OWN_NAMESPACE = {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["placement", "kube-system"]}


def test_mutation_is_asked_for_created_pods_and_again_after_other_webhooks(rendered: Rendered) -> None:
    assert rendered.mutating["rules"] == [
        {
            "apiGroups": [""],
            "apiVersions": ["v1"],
            "resources": ["pods"],
            "operations": ["CREATE"],
            "scope": "Namespaced",
        }
    ]
    assert rendered.mutating["reinvocationPolicy"] == "IfNeeded"


def test_validation_is_asked_for_updates_of_pods_by_every_way_to_their_annotations(rendered: Rendered) -> None:
    (rule,) = rendered.validating["rules"]
    assert (rule["resources"], rule["operations"]) == (["pods", "pods/status"], ["UPDATE"])


def test_every_way_to_bind_a_pod_is_guarded(helm: Helm) -> None:
    rendered = helm.template({"webhook": {"bindFailurePolicy": "Fail", "objectSelector": {"matchLabels": {"a": "b"}}}})
    call = rendered.calls["guard.bindings"]
    (rule,) = call["rules"]
    assert (rule["resources"], rule["operations"]) == (["pods/binding", "bindings"], ["CREATE"])
    assert call["clientConfig"]["service"]["name"] == "tw-topology-webhook"
    assert (call["failurePolicy"], rendered.mutating["failurePolicy"]) == ("Fail", "Ignore")
    assert not {"objectSelector", "matchConditions"} & call.keys()


def test_nodes_are_asked_about_for_their_label_only_and_never_held_up(helm: Helm) -> None:
    call = helm.template({"webhook": {"failurePolicy": "Fail"}}).calls["validate.nodes"]
    assert (call["rules"][0]["resources"], call["rules"][0]["scope"]) == (["nodes", "nodes/status"], "Cluster")
    assert call["failurePolicy"] == "Ignore"
    assert "node.koordinator.sh/numa-topology-policy" in call["matchConditions"][0]["expression"]


def test_kueues_annotations_are_asked_about_only_where_they_are_read(helm: Helm) -> None:
    for on in (False, True):
        calls = helm.template({"settings": {"kueueAnnotations": on}}).calls
        for name in ("mutate.pods", "mutate.workloads", "validate.workloads"):
            expression = " ".join(each["expression"] for each in calls[name]["matchConditions"])
            assert ("key.startsWith('kueue.x-k8s.io/podset-')" in expression) is on


def test_groves_pods_are_asked_about_and_its_objects_may_be_read_only_with_the_setting(helm: Helm) -> None:
    for on in (False, True):
        rendered = helm.template({"settings": {"advanced": {"grovePodGangs": on}}})
        (condition, *_) = rendered.calls["mutate.pods"]["matchConditions"]
        assert ("'grove.io/podgang' in object" in condition["expression"]) is on
        (role,) = (each for each in rendered.of("ClusterRole") if each["metadata"]["name"] == "tw-topology-webhook")
        granted = [rule["verbs"] for rule in role["rules"] if "grove.io" in rule["apiGroups"][0]]
        assert granted == ([["list", "watch"], ["list", "watch"], ["get"]] if on else [])


def test_namespaces_are_asked_about_for_what_is_read_of_them_only_and_never_held_up(helm: Helm) -> None:
    call = helm.template({"webhook": {"failurePolicy": "Fail"}}).calls["validate.namespaces"]
    assert (call["rules"][0]["resources"], call["rules"][0]["scope"]) == (
        ["namespaces", "namespaces/status"],
        "Cluster",
    )
    assert call["failurePolicy"] == "Ignore"
    read = {MANAGE, NUMA_TOPOLOGY_SPEC, RESOURCE_SPEC}
    assert all(f"'{name}'" in call["matchConditions"][0]["expression"] for name in read)


@pytest.mark.parametrize(
    ("action", "condition"), [("validate", "asks-for-a-placement"), ("mutate", "asks-or-asked-for-a-placement")]
)
def test_workloads_are_asked_about_when_they_carry_annotations_and_never_held_up(
    helm: Helm, action: str, condition: str
) -> None:
    call = helm.template({"webhook": {"failurePolicy": "Fail"}}).calls[f"{action}.workloads"]
    assert call["clientConfig"]["service"]["path"] == f"/{action}/workloads"
    assert (call["failurePolicy"], call["sideEffects"]) == ("Ignore", "None")
    assert call["namespaceSelector"] == {"matchExpressions": [OWN_NAMESPACE]}
    ruled = {(group, name) for rule in call["rules"] for group in rule["apiGroups"] for name in rule["resources"]}
    read = {(group, f"{kind.lower()}s") for group, kind in ASKED_ABOUT}
    assert ruled == read
    assert all((rule["operations"], rule["scope"]) == (["CREATE", "UPDATE"], "Namespaced") for rule in call["rules"])
    assert [condition["name"] for condition in call["matchConditions"]] == [
        "not-of-a-controller",
        condition,
    ]
    listed = set(re.findall(r"'([^'/]+)/([A-Za-z]+)'", call["matchConditions"][0]["expression"]))
    assert listed == {(group or "v1", kind) for group, kind in MAKERS}


@pytest.mark.parametrize("mode", ["Observe", "Off"])
def test_a_mode_that_applies_no_decision_denies_nothing_while_no_replica_answers(helm: Helm, mode: str) -> None:
    strict = {"failurePolicy": "Fail", "bindFailurePolicy": "Fail"}
    calls = helm.template({"settings": {"mode": mode}, "webhook": strict}).calls
    assert {call["failurePolicy"] for call in calls.values()} == {"Ignore"}


def test_without_rules_no_workload_is_asked_about(helm: Helm) -> None:
    calls = helm.template({"webhook": {"workloads": []}}).calls
    assert not {"validate.workloads", "mutate.workloads"} & calls.keys()


@pytest.mark.parametrize("webhook", ["mutating", "validating"])
def test_a_call_has_no_side_effects_is_short_and_fails_open(rendered: Rendered, webhook: str) -> None:
    call = getattr(rendered, webhook)
    assert call["sideEffects"] == "None"
    assert call["matchPolicy"] == "Equivalent"
    assert call["failurePolicy"] == "Ignore"
    assert call["timeoutSeconds"] == 5
    assert call["admissionReviewVersions"] == ["v1"]
    label = [UNLABELLED] if webhook == "mutating" else []
    assert call["namespaceSelector"] == {"matchExpressions": [OWN_NAMESPACE, *label]}


def _selects(selector: dict[str, Any], labels: dict[str, str]) -> bool:
    """Whether a namespaceSelector selects a namespace with these labels."""
    holds: dict[str, Any] = {
        "In": lambda value, values: value in values,
        "NotIn": lambda value, values: value not in values,
        "Exists": lambda value, _: value is not None,
        "DoesNotExist": lambda value, _: value is None,
    }
    return all(
        holds[one["operator"]](labels.get(one["key"]), one.get("values")) for one in selector["matchExpressions"]
    )


@pytest.mark.parametrize("setting", Manage)
@pytest.mark.parametrize("label", [None, *BY_LABEL, "unknown"])
def test_a_created_pod_is_of_one_webhook_which_asks_by_its_namespaces_label_else_by_the_setting(
    helm: Helm, setting: Manage, label: str | None
) -> None:
    calls = helm.template({"settings": {"manage": setting.value}}).calls
    labels = {"kubernetes.io/metadata.name": "team-a", **({} if label is None else {MANAGE: label})}
    (call,) = (
        call
        for name, call in calls.items()
        if name.startswith("mutate.pods") and _selects(call["namespaceSelector"], labels)
    )
    expression = call["matchConditions"][0]["expression"]
    # The service warns of an unknown label, and goes by the setting: so it has to see the pods.
    mode = setting if label is None else BY_LABEL.get(label, Manage.ALL)
    assert ("spec.schedulerName" in expression) == (mode is not Manage.ANNOTATED)
    assert ("kubernetes.io/')" in expression) == (mode is Manage.ALIGNED)
    assert (call["clientConfig"]["service"]["path"], call["reinvocationPolicy"]) == ("/mutate/pods", "IfNeeded")


def test_the_service_learns_which_namespaces_are_left_out_and_whether_pods_are(
    helm: Helm, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = settings_of(helm.template({"webhook": {"excludedNamespaces": ["a", "b"]}}), monkeypatch)
    assert rules_of(settings).excluded_namespaces == {"placement", "a", "b"}
    assert settings.manage_missed
    settings = settings_of(helm.template({"webhook": {"excludedNamespaces": []}}), monkeypatch)
    assert rules_of(settings).excluded_namespaces == {"placement"}
    for narrowed in (
        {"namespaceSelector": {"matchLabels": {"a": "b"}}},
        {"objectSelector": {"matchLabels": {"a": "b"}}},
        {"matchConditions": [{"name": "mine", "expression": "true"}]},
    ):
        assert not settings_of(helm.template({"webhook": narrowed}), monkeypatch).manage_missed


def test_ca_bundle_is_left_to_whoever_writes_it(helm: Helm, rendered: Rendered) -> None:
    for each in (rendered, helm.template({"tls": {"mode": "CertManager"}})):
        for call in each.calls.values():
            assert call["clientConfig"].keys() == {"service"}


def test_the_service_called_is_the_one_that_is_made(rendered: Rendered) -> None:
    (service,) = rendered.of("Service")
    for call, path in ((rendered.mutating, "/mutate/pods"), (rendered.validating, "/validate/pods")):
        assert call["clientConfig"]["service"] == {
            "namespace": service["metadata"]["namespace"],
            "name": service["metadata"]["name"],
            "path": path,
            "port": 443,
        }
    ports = {port["name"]: (port["port"], port["targetPort"]) for port in service["spec"]["ports"]}
    assert ports["webhook"] == (443, "webhook")
    assert {port["name"] for port in rendered.container["ports"]} == {*ports, "peers"}
    labels = rendered["Deployment"]["spec"]["template"]["metadata"]["labels"]
    assert service["spec"]["selector"].items() <= labels.items()


def test_replicas_reach_each_other_at_the_address_of_their_pod(
    rendered: Rendered, monkeypatch: pytest.MonkeyPatch
) -> None:
    (port,) = (each["containerPort"] for each in rendered.container["ports"] if each["name"] == "peers")
    assert settings_of(rendered, monkeypatch).peer_port == port
    assert rendered.environment[f"{PREFIX}POD_NAME"] == "metadata.name"
    assert rendered.environment[f"{PREFIX}POD_IP"] == "status.podIP"


def test_with_a_network_policy_only_replicas_reach_the_port_for_replicas(helm: Helm) -> None:
    policy = helm.template({"networkPolicy": {"enabled": True}})["NetworkPolicy"]["spec"]
    for rules, peer in ((policy["ingress"], "from"), (policy["egress"], "to")):
        (rule,) = (each for each in rules if {"port": 8445, "protocol": "TCP"} in each["ports"])
        assert rule[peer] == [{"podSelector": policy["podSelector"]}]


@pytest.mark.parametrize("slash", ["", "/"])
def test_a_url_takes_the_services_place_and_its_host_joins_the_certificate(
    helm: Helm, monkeypatch: pytest.MonkeyPatch, slash: str
) -> None:
    rendered = helm.template({"webhook": {"url": f"https://127.0.0.1:9443{slash}"}, "tls": {"names": ["a.example"]}})
    assert rendered.mutating["clientConfig"] == {"url": "https://127.0.0.1:9443/mutate/pods"}
    assert rendered.validating["clientConfig"] == {"url": "https://127.0.0.1:9443/validate/pods"}
    assert settings_of(rendered, monkeypatch).tls_names == ("a.example", "127.0.0.1")


def test_an_ipv6_url_is_understood(helm: Helm, monkeypatch: pytest.MonkeyPatch) -> None:
    rendered = helm.template({"webhook": {"url": "https://[::1]:9443"}})
    assert settings_of(rendered, monkeypatch).tls_names == ("::1",)


def test_further_conditions_are_added_to_the_charts_own(helm: Helm) -> None:
    expression = {"key": "tier", "operator": "Exists"}
    condition = {"name": "mine", "expression": "true"}
    rendered = helm.template(
        {
            "webhook": {
                "excludedNamespaces": ["kube-system", "gpu-operator", "placement"],
                "namespaceSelector": {"matchLabels": {"team": "a"}, "matchExpressions": [expression]},
                "objectSelector": {"matchLabels": {"numa": "yes"}},
                "matchConditions": [condition],
                "failurePolicy": "Fail",
            }
        }
    )
    mutating = [call for name, call in rendered.calls.items() if name.startswith("mutate.pods")]
    assert len(mutating) == 4
    for call in (*mutating, rendered.validating):
        assert call["namespaceSelector"]["matchLabels"] == {"team": "a"}
        first, *_, last = call["namespaceSelector"]["matchExpressions"]
        assert first == {**OWN_NAMESPACE, "values": ["placement", "kube-system", "gpu-operator"]}
        assert last == expression
        assert call["objectSelector"] == {"matchLabels": {"numa": "yes"}}
        assert call["matchConditions"][-1] == condition
        assert len(call["matchConditions"]) == 2
        assert call["failurePolicy"] == "Fail"


def test_the_container_has_no_rights_it_does_not_need(rendered: Rendered) -> None:
    pod = rendered["Deployment"]["spec"]["template"]["spec"]
    assert pod["securityContext"] == {
        "runAsNonRoot": True,
        "runAsUser": 65532,
        "runAsGroup": 65532,
        "fsGroup": 65532,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    assert rendered.container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert [each["name"] for each in pod["volumes"]] == ["config"]


def test_probes_ask_the_metrics_port(rendered: Rendered) -> None:
    assert rendered.container["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": "metrics"}
    assert rendered.container["livenessProbe"]["httpGet"] == {"path": "/healthz", "port": "metrics"}


def test_a_pod_has_more_time_to_end_than_its_drain_takes(helm: Helm, monkeypatch: pytest.MonkeyPatch) -> None:
    rendered = helm.template({"settings": {"advanced": {"drainSeconds": 90}}})
    grace = rendered["Deployment"]["spec"]["template"]["spec"]["terminationGracePeriodSeconds"]
    assert grace > settings_of(rendered, monkeypatch).drain_seconds == 90


def test_the_container_runs_a_command_of_the_program(rendered: Rendered) -> None:
    assert CliRunner().invoke(app, [*rendered.container["args"], "--help"]).exit_code == 0


def test_the_program_answers_at_every_path_that_is_called(rendered: Rendered) -> None:
    def no_cluster_snapshot() -> ClusterSnapshot:
        raise AssertionError  # nothing is reviewed here

    paths = {call["clientConfig"]["service"]["path"] for call in rendered.calls.values()}
    assert sorted(paths) == sorted(handlers_of(Rules(), no_cluster_snapshot, HandlerOf(), HandlerOf()))


def test_the_default_values_are_the_programs_defaults_under_the_releases_names(
    rendered: Rendered, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert settings_of(rendered, monkeypatch) == Settings(
        namespace="placement",
        pod_name="metadata.name",
        pod_ip="status.podIP",
        name="tw-topology-webhook",
        trusted_users=("system:serviceaccount:placement:tw-topology-webhook-uninstall",),
    )


COMMON = {
    "mode": "Observe",
    "manage": "Aligned",
    "defaultNumaTopologyPolicy": "Restricted",
    "kueueAnnotations": True,
    "gate": "Never",
    "noCapacity": "Deny",
    "noCompatibleNode": "Warn",
    "notAlignable": "Deny",
    "unenforced": "Deny",
    "gangStrategy": "Spread",
    "schedulerNames": ["default-scheduler", "batch"],
    "preemption": "Never",
    "repair": "Gang",
    "evictStuck": True,
    "deleteRejectedAfterSeconds": 3600,
    "ungateAfterSeconds": 31536000,
    "autoscaler": "ClusterAutoscaler",
    "provisioningClass": "check-capacity.autoscaling.x-k8s.io",
    "trustedUsers": ["koord-scheduler", "system:serviceaccount:a:b"],
    "logLevel": "debug",
}
ADVANCED = {
    "defaultExclusive": "Preferred",
    "koordinatorReservations": True,
    "grovePodGangs": True,
    "shardLabel": "example.com/block",
    "kueueAdmissionCheck": True,
    "dynamicResources": False,
    "fidelity": "Plugin",
    "scoreStrategy": "LeastNUMANodes",
    "resourceWeights": {"cpu": 2, "nvidia.com/gpu": 5},
    "preferenceWeight": 30,
    "maxAffinityValues": 1000,
    "reserveAfterSeconds": 0,
    "warnAfterSeconds": 900,
    "stuckAfterSeconds": 120,
    "nodeGroupLabels": ["example.com/pool"],
    "newNodeSeconds": 0.5,
    "narrowAfterSeconds": 45,
    "trustedGroups": [],
    "schedulerUsers": ["system:kube-scheduler", "system:serviceaccount:a:scheduler"],
    "nrtAgeSeconds": 3600,
    "leaseDurationSeconds": 30,
    "apiServerRequestTimeoutSeconds": 120,
    "drainSeconds": 7,
    "logFormat": "console",
    "bindAddress": "fd00::1",
}
PEM = "-----BEGIN CERTIFICATE-----"
OTHERS: dict[str, Any] = {
    "uninstall": {"ungate": False},
    "ports": {"webhook": 9443, "metrics": 9080, "metricsTls": 9444, "peers": 9445, "page": 9090},
    "metrics": {"secure": True},
    "page": {"enabled": True, "hosts": ["topology.example.com"]},
    "webhook": {"excludedNamespaces": ["gpu"], "objectSelector": {"matchLabels": {"a": "b"}}},
    "tls": {
        "mode": "ExistingSecret",
        "existingSecret": {"name": "mine"},
        "names": ["10.0.0.7"],
        "clientCA": {"pem": PEM},
        "clientNames": ["front-proxy-client"],
    },
}
INSTALLATION = {
    "name": "tw-topology-webhook",
    "excludedNamespaces": ["gpu"],
    "manageMissed": False,
    "port": 9443,
    "peerPort": 9445,
    "metricsPort": 9080,
    "metricsTlsPort": 9444,
    "page": True,
    "pagePort": 9090,
    "pageHosts": ["topology.example.com"],
    "tlsNames": ["10.0.0.7"],
    "tlsCertFile": "/etc/topology-webhook/tls/tls.crt",
    "tlsKeyFile": "/etc/topology-webhook/tls/tls.key",
    "clientCaFile": "/etc/topology-webhook/client-ca/ca.crt",
    "clientNames": ["front-proxy-client"],
}


def test_every_value_reaches_the_file_and_from_there_the_program(helm: Helm, monkeypatch: pytest.MonkeyPatch) -> None:
    rendered = helm.template({"settings": {**COMMON, "advanced": ADVANCED}, **OTHERS})
    assert rendered.configuration == {
        "apiVersion": API_VERSION,
        "kind": "TopologyWebhookConfiguration",
        **COMMON,
        "advanced": ADVANCED,
        "installation": INSTALLATION,
    }
    settings = settings_of(rendered, monkeypatch)
    for group, given in (
        (CommonSettings, COMMON),
        (AdvancedSettings, ADVANCED),
        (InstallationSettings, INSTALLATION),
    ):
        read = settings.model_dump(mode="json", by_alias=True, include=set(group.model_fields))
        assert read == given
        defaults = Settings().model_dump(mode="json", by_alias=True)
        assert not [name for name in given if given[name] == defaults[name]]


def test_other_settings_make_other_pods(helm: Helm) -> None:
    def annotations(**values: Any) -> Any:
        return helm.template(values)["Deployment"]["spec"]["template"]["metadata"]["annotations"]

    assert annotations() == annotations(dashboard={"enabled": True})
    assert annotations() != annotations(settings={"gate": "Never"}) != annotations(ports={"webhook": 9443})


def test_only_what_its_pod_knows_is_a_variable(rendered: Rendered) -> None:
    assert set(rendered.environment) == {environment_variable(field) for field in IN_ENVIRONMENT}


def test_variables_of_the_user_are_added_but_no_settings(helm: Helm) -> None:
    proxy = {"name": "HTTPS_PROXY", "value": "http://proxy"}
    assert helm.template({"extraEnv": [proxy]}).container["env"][-1] == proxy
    with pytest.raises(RefusedError, match="extraEnv: the service does not read TOPOLOGY_WEBHOOK_FIDELITY"):
        helm.template({"extraEnv": [{"name": f"{PREFIX}FIDELITY", "value": "Plugin"}]})


def test_the_releases_secrets_come_without_data(rendered: Rendered) -> None:
    secrets = rendered.of("Secret")
    names = {f"tw-topology-webhook-{of}" for of in ("ca", "hint-key")}
    assert {secret["metadata"]["name"] for secret in secrets} == names
    assert not any({"data", "stringData"} & secret.keys() for secret in secrets)


def test_cert_manager_makes_the_certificate_and_writes_ca_bundle(helm: Helm, monkeypatch: pytest.MonkeyPatch) -> None:
    rendered = helm.template(
        {"tls": {"mode": "CertManager", "names": ["10.0.0.7", "hook.example"]}, "webhook": {"annotations": {"a": "b"}}}
    )
    certificates = {each["metadata"]["name"]: each for each in rendered.of("Certificate")}
    authority, certificate = (certificates[f"tw-topology-webhook-{name}"] for name in ("root-ca", "tls"))
    assert certificate["spec"]["dnsNames"] == [
        "tw-topology-webhook.placement.svc",
        "tw-topology-webhook.placement.svc.cluster.local",
        "hook.example",
    ]
    assert certificate["spec"]["ipAddresses"] == ["10.0.0.7"]
    issuers = {each["metadata"]["name"]: each["spec"] for each in rendered.of("Issuer")}
    assert issuers[certificate["spec"]["issuerRef"]["name"]] == {"ca": {"secretName": authority["spec"]["secretName"]}}
    assert issuers[authority["spec"]["issuerRef"]["name"]] == {"selfSigned": {}}
    for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"):
        assert rendered[kind]["metadata"]["annotations"] == {
            "a": "b",
            "cert-manager.io/inject-ca-from": f"placement/{certificate['metadata']['name']}",
        }
    _, volume = rendered.volumes
    _, mount = rendered.container["volumeMounts"]
    assert volume["secret"]["secretName"] == certificate["spec"]["secretName"]
    settings = settings_of(rendered, monkeypatch)
    assert settings.tls_files == (Path(mount["mountPath"], "tls.crt"), Path(mount["mountPath"], "tls.key"))
    assert rendered["Secret"]["metadata"]["name"] == f"{settings.name}-hint-key"
    assert [rule["resources"] for rule in rendered["Role"]["rules"]] == [["leases"], ["secrets"]]
    (role,) = (each for each in rendered.of("ClusterRole") if each["metadata"]["name"] == "tw-topology-webhook")
    assert not any("admissionregistration.k8s.io" in rule["apiGroups"] for rule in role["rules"])


def test_an_issuer_of_the_users_takes_the_place_of_the_charts(helm: Helm) -> None:
    issuer = {"name": "corporate", "kind": "ClusterIssuer", "group": "cert-manager.io"}
    rendered = helm.template({"tls": {"mode": "CertManager", "certManager": {"issuerRef": issuer}}})
    assert rendered["Certificate"]["spec"]["issuerRef"] == issuer
    assert not rendered.of("Issuer")


def test_no_serving_certificate_outlives_the_charts_own_ca(helm: Helm) -> None:
    long = {"duration": "43801h"}
    with pytest.raises(RefusedError, match=r"tls\.certManager\.duration: at most 43800h"):
        helm.template({"tls": {"mode": "CertManager", "certManager": long}})
    of_a_user = {"issuerRef": {"name": "corporate"}, **long}
    rendered = helm.template({"tls": {"mode": "CertManager", "certManager": of_a_user}})
    assert rendered["Certificate"]["spec"]["duration"] == "43801h"


def test_what_the_user_says_of_pods_is_in_the_pods(helm: Helm) -> None:
    said: dict[str, Any] = {
        "nodeSelector": {"a": "b"},
        "tolerations": [{"key": "x", "operator": "Exists"}],
        "affinity": {"podAntiAffinity": {}},
        "topologySpreadConstraints": [{"maxSkew": 2, "topologyKey": "rack", "whenUnsatisfiable": "DoNotSchedule"}],
        "priorityClassName": "mine",
        "imagePullSecrets": [{"name": "registry"}],
        "hostNetwork": True,
    }
    metadata = {"podLabels": {"team": "a"}, "podAnnotations": {"note": "b"}}
    rendered = helm.template({**said, **metadata, "image": {"repository": "r/i", "digest": "sha256:" + "0" * 64}})
    template = rendered["Deployment"]["spec"]["template"]
    assert {key: template["spec"][key] for key in said} == said
    assert template["spec"]["dnsPolicy"] == "ClusterFirstWithHostNet"
    assert template["metadata"]["annotations"]["note"] == "b"
    assert template["metadata"]["labels"]["team"] == "a"
    assert rendered.container["image"] == "r/i@sha256:" + "0" * 64


def test_on_the_hosts_network_a_replica_leaves_before_its_successor_takes_the_port(helm: Helm) -> None:
    strategy = helm.template({"hostNetwork": True})["Deployment"]["spec"]["strategy"]["rollingUpdate"]
    assert strategy == {"maxUnavailable": 1, "maxSurge": 0}


def test_an_account_of_the_users_is_bound_and_not_made(helm: Helm) -> None:
    rendered = helm.template({"serviceAccount": {"create": False, "name": "mine"}})
    assert not rendered.of("ServiceAccount")
    assert rendered["Deployment"]["spec"]["template"]["spec"]["serviceAccountName"] == "mine"
    for kind in ("RoleBinding", "ClusterRoleBinding"):
        assert rendered[kind]["subjects"] == [{"kind": "ServiceAccount", "name": "mine", "namespace": "placement"}]


def test_a_release_of_the_longest_name_has_names_that_kubernetes_takes(helm: Helm) -> None:
    rendered = helm.template(release="r" * 53, namespace="n" * 63)  # Helm's and Kubernetes' limits
    assert all(len(each["metadata"]["name"]) <= 63 for each in (*rendered.objects, *rendered.hooks, *rendered.tests))


def test_every_namespaced_object_names_its_namespace(rendered: Rendered) -> None:
    cluster_wide = {
        "ClusterRole",
        "ClusterRoleBinding",
        "CustomResourceDefinition",
        "MutatingWebhookConfiguration",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
        "ValidatingWebhookConfiguration",
    }
    for each in rendered.objects:
        assert each["metadata"].get("namespace") == (None if each["kind"] in cluster_wide else "placement")


def test_on_openshift_the_ids_can_be_left_to_the_cluster(helm: Helm) -> None:
    ids = {"runAsUser": None, "runAsGroup": None, "fsGroup": None}
    rendered = helm.template({"podSecurityContext": ids})
    assert rendered["Deployment"]["spec"]["template"]["spec"]["securityContext"] == {
        "runAsNonRoot": True,
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def test_the_chart_is_of_the_programs_version() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["appVersion"] == chart["version"] == VERSION


def test_helm_lint_has_no_complaint(helm: Helm) -> None:
    assert "0 chart(s) failed" in helm.run("lint", "--strict", str(CHART))


@pytest.mark.parametrize("reads", [True, False])
def test_the_right_to_read_reservations_of_koordinator_comes_with_the_setting(helm: Helm, *, reads: bool) -> None:
    rendered = helm.template({"settings": {"advanced": {"koordinatorReservations": reads}}})
    (role,) = (each for each in rendered.of("ClusterRole") if each["metadata"]["name"] == "tw-topology-webhook")
    granted = [rule["verbs"] for rule in role["rules"] if rule["apiGroups"] == ["scheduling.koordinator.sh"]]
    assert granted == ([["list", "watch"]] if reads else [])


@pytest.mark.parametrize("answers", [True, False])
def test_the_rights_on_kueues_objects_come_with_the_admission_check(helm: Helm, *, answers: bool) -> None:
    rendered = helm.template({"settings": {"advanced": {"kueueAdmissionCheck": answers}}})
    (role,) = (each for each in rendered.of("ClusterRole") if each["metadata"]["name"] == "tw-topology-webhook")
    granted = [
        rule["verbs"]
        for rule in role["rules"]
        if "workloads" in rule["resources"] or "workloads/status" in rule["resources"]
    ]
    assert granted == ([["list", "watch"], ["patch"]] if answers else [])


@pytest.mark.parametrize(("reads", "mode"), [(True, "Enforce"), (True, "Observe"), (False, "Enforce")])
def test_the_rights_to_devices_and_claims_and_their_guard_come_with_the_setting(
    helm: Helm, *, reads: bool, mode: str
) -> None:
    rendered = helm.template({"settings": {"advanced": {"dynamicResources": reads}, "mode": mode}})
    (role,) = (each for each in rendered.of("ClusterRole") if each["metadata"]["name"] == "tw-topology-webhook")
    granted = {
        resource: rule["verbs"]
        for rule in role["rules"]
        if rule["apiGroups"] == ["resource.k8s.io"]
        for resource in rule["resources"]
    }
    kinds = ("deviceclasses", "devicetaintrules", "resourceclaims", "resourceclaimtemplates", "resourceslices")
    allocates = {
        "resourceclaims": ["get", "list", "watch", "patch"],
        "resourceclaims/status": ["patch"],
        "resourceclaims/binding": ["patch"],
    }
    writes = reads and mode == "Enforce"
    assert granted == ({kind: ["list", "watch"] for kind in kinds} if reads else {}) | (allocates if writes else {})
    assert ("guard.resourceclaims" in rendered.calls) == writes


@pytest.mark.parametrize("class_name", ["", "best-effort-atomic-scale-up.autoscaling.x-k8s.io"])
def test_the_rights_on_provisioning_requests_come_with_their_class(helm: Helm, class_name: str) -> None:
    rendered = helm.template({"settings": {"autoscaler": "ClusterAutoscaler", "provisioningClass": class_name}})
    (role,) = (each for each in rendered.of("ClusterRole") if each["metadata"]["name"] == "tw-topology-webhook")
    granted = {
        resource: rule["verbs"]
        for rule in role["rules"]
        for resource in rule["resources"]
        if resource in {"provisioningrequests", "podtemplates"}
    }
    requests, templates = ["list", "watch", "create", "delete"], ["get", "create", "delete"]
    assert granted == ({"provisioningrequests": requests, "podtemplates": templates} if class_name else {})


def test_a_provisioning_class_without_cluster_autoscaler_is_refused(helm: Helm) -> None:
    for class_name in ("check-capacity.autoscaling.x-k8s.io", "another.example.com"):
        with pytest.raises(RefusedError, match="provisioningClass"):
            helm.template({"settings": {"autoscaler": "Karpenter", "provisioningClass": class_name}})
