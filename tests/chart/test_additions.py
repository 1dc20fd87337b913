"""What users add to the chart's objects: labels, flags, volumes, a certificate, and the rights of other users."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.chart.helm import CHART, Helm, RefusedError, Rendered
from tests.chart.release import CONFIGURATION, settings_of

PEM = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"
CONFIGURATIONS = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")


def pod_of(rendered: Rendered) -> dict[str, Any]:
    return dict(rendered["Deployment"]["spec"]["template"]["spec"])


def test_without_an_image_the_chart_says_what_to_do(helm: Helm) -> None:
    with pytest.raises(
        RefusedError, match=r"image\.repository is empty: the chart of a checkout has no image\. Build one"
    ):
        helm.template({"image": {}})


def test_every_object_has_the_common_labels_but_no_selector_does(helm: Helm) -> None:
    everything = {
        "networkPolicy": {"enabled": True},
        "tls": {"mode": "CertManager", "clientCA": {"pem": PEM}},
        "commonLabels": {"team": "platform"},
    }
    rendered = helm.template(everything)
    for each in rendered.objects:
        assert each["metadata"]["labels"]["team"] == "platform", each["kind"]
    selected = rendered["Deployment"]["spec"]["selector"]["matchLabels"]
    assert "team" not in selected
    for service in rendered.of("Service"):
        assert "team" not in service["spec"]["selector"]


def test_the_charts_own_labels_win_over_those_of_pods_and_these_over_the_common_ones(helm: Helm) -> None:
    own = "app.kubernetes.io/name"
    rendered = helm.template({"commonLabels": {"a": "1", "b": "1", own: "x"}, "podLabels": {"b": "2", own: "z"}})
    labels = rendered["Deployment"]["spec"]["template"]["metadata"]["labels"]
    assert {name: labels[name] for name in ("a", "b", own)} == {"a": "1", "b": "2", own: "topology-webhook"}


def test_the_service_matters_to_the_whole_cluster(rendered: Rendered) -> None:
    assert pod_of(rendered)["priorityClassName"] == "system-cluster-critical"


def test_further_flags_volumes_and_mounts_are_in_the_pods(helm: Helm) -> None:
    volume = {"name": "proxy-ca", "configMap": {"name": "proxy-ca"}}
    mount = {"name": "proxy-ca", "mountPath": "/etc/proxy", "readOnly": True}
    rendered = helm.template(
        {"extraArgs": ["--log-level=debug"], "extraVolumes": [volume], "extraVolumeMounts": [mount]}
    )
    assert rendered.container["args"] == ["serve", f"--config={CONFIGURATION}", "--log-level=debug"]
    assert (rendered.volumes[1:], rendered.container["volumeMounts"][1:]) == ([volume], [mount])


def test_further_objects_belong_to_the_release_and_may_name_it(helm: Helm) -> None:
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "{{ .Release.Name }}-critical"},
        "spec": {"hard": {"pods": "10"}},
    }
    text = 'apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ include "topology-webhook.fullname" . }}-notes\n'
    rendered = helm.template({"extraObjects": [quota, text]})
    assert rendered["ResourceQuota"] == quota | {"metadata": {"name": "tw-critical"}}
    assert [each["metadata"]["name"] for each in rendered.config_maps] == ["tw-topology-webhook-notes"]


def test_a_platform_team_sets_probes_history_and_security_of_the_containers(helm: Helm) -> None:
    values = {
        "readinessProbe": {"failureThreshold": 6},
        "livenessProbe": {"timeoutSeconds": 9},
        "revisionHistoryLimit": 0,
        "containerSecurityContext": {"seLinuxOptions": {"level": "s0"}},
        "deploymentAnnotations": {"reloader": "true"},
    }
    rendered = helm.template(values)
    deployment, container = rendered["Deployment"], rendered.container
    assert deployment["metadata"]["annotations"] == {"reloader": "true"}
    assert deployment["spec"]["revisionHistoryLimit"] == 0
    assert container["readinessProbe"]["failureThreshold"] == 6
    assert container["readinessProbe"]["periodSeconds"] == 5
    assert container["livenessProbe"]["timeoutSeconds"] == 9
    (job,) = [each for each in rendered.hooks if each["kind"] == "Job"]
    (test,) = [each for each in rendered.tests if each["kind"] == "Pod"]
    for each in (container, job["spec"]["template"]["spec"]["containers"][0], test["spec"]["containers"][0]):
        assert each["securityContext"]["seLinuxOptions"] == {"level": "s0"}
        assert each["securityContext"]["readOnlyRootFilesystem"] is True


def test_a_certificate_of_the_users_is_mounted_and_its_ca_called_by(
    helm: Helm, monkeypatch: pytest.MonkeyPatch
) -> None:
    rendered = helm.template({"tls": {"mode": "ExistingSecret", "existingSecret": {"name": "mine", "caBundle": PEM}}})
    _, volume = rendered.volumes
    _, mount = rendered.container["volumeMounts"]
    assert volume["secret"]["secretName"] == "mine"
    settings = settings_of(rendered, monkeypatch)
    assert settings.tls_files == (Path(mount["mountPath"], "tls.crt"), Path(mount["mountPath"], "tls.key"))
    assert {call["clientConfig"]["caBundle"] for call in rendered.calls.values()} == {
        "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCk1JSUIKLS0tLS1FTkQgQ0VSVElGSUNBVEUtLS0tLQo="
    }
    assert not rendered.of("Certificate")
    names = {secret["metadata"]["name"] for secret in rendered.of("Secret")}
    assert names == {f"{settings.name}-hint-key"}


def test_the_ca_of_a_certificate_of_the_users_can_be_left_to_a_tool(helm: Helm) -> None:
    annotation = {"cert-manager.io/inject-ca-from-secret": "placement/mine"}
    tls = {"mode": "ExistingSecret", "existingSecret": {"name": "mine"}}
    rendered = helm.template({"tls": tls, "webhook": {"annotations": annotation}})
    assert not any("caBundle" in call["clientConfig"] for call in rendered.calls.values())
    assert [rendered[kind]["metadata"]["annotations"] for kind in CONFIGURATIONS] == [annotation, annotation]


def test_a_certificate_of_the_users_needs_its_secret(helm: Helm) -> None:
    with pytest.raises(RefusedError, match=r"tls\.mode ExistingSecret needs tls\.existingSecret\.name"):
        helm.template({"tls": {"mode": "ExistingSecret"}})


@pytest.mark.parametrize(("given", "bindings"), [({}, 5), ({"bindTimeoutSeconds": 2}, 2)])
def test_bindings_have_a_timeout_of_their_own(helm: Helm, given: dict[str, int], bindings: int) -> None:
    calls = helm.template({"webhook": given}).calls
    timeouts = {name: call["timeoutSeconds"] for name, call in calls.items()}
    assert timeouts == {name: bindings if name == "guard.bindings" else 5 for name in calls}


def test_users_of_view_read_the_crds_and_users_of_edit_write_topologies(helm: Helm) -> None:
    roles = {role["metadata"]["name"]: role for role in helm.template().of("ClusterRole")}
    view, edit = roles["tw-topology-webhook-view"], roles["tw-topology-webhook-edit"]
    prefix = "rbac.authorization.k8s.io/aggregate-to-"
    added = {
        name: {label.removeprefix(prefix) for label in role["metadata"]["labels"] if label.startswith(prefix)}
        for name, role in (("view", view), ("edit", edit))
    }
    assert added == {"view": {"view", "edit", "admin"}, "edit": {"edit", "admin"}}
    crds = {tuple(file.stem.split("_")) for file in (CHART / "files" / "crds").iterdir()}
    assert {(rule["apiGroups"][0], rule["resources"][0]) for rule in view["rules"]} == crds
    assert all(rule["verbs"] == ["get", "list", "watch"] for rule in view["rules"])
    (writes,) = edit["rules"]
    assert (writes["apiGroups"], writes["resources"]) == (["kai.scheduler"], ["topologies"])


def test_the_rights_of_users_can_be_left_out(helm: Helm) -> None:
    (role,) = helm.template({"aggregatedRoles": {"enabled": False}}).of("ClusterRole")
    assert role["metadata"]["name"] == "tw-topology-webhook"


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"extraArgs": ["log-level=debug"]}, "at '/extraArgs/0'"),
        ({"extraVolumes": [{"name": "tls"}]}, "at '/extraVolumes/0/name'"),
        ({"extraVolumeMounts": [{"name": "a"}]}, "missing property 'mountPath'"),
        ({"extraVolumeMounts": [{"name": "a", "mountPath": "etc"}]}, "at '/extraVolumeMounts/0/mountPath'"),
        ({"commonLabels": {"team": "a b"}}, "at '/commonLabels/team'"),
        ({"extraObjects": [{"kind": "ConfigMap"}]}, "at '/extraObjects/0'"),
        ({"livenessProbe": {"path": "/"}}, "at '/livenessProbe': additional properties 'path' not allowed"),
        ({"imagePullSecrets": ["registry"]}, "at '/imagePullSecrets/0'"),
        ({"image": {"repository": "a b"}}, "at '/image/repository'"),
        ({"webhook": {"bindTimeoutSeconds": 31}}, "at '/webhook/bindTimeoutSeconds': maximum: got 31, want 30"),
        ({"settings": {"advanced": {"bindAddress": "all"}}}, "at '/settings/advanced/bindAddress'"),
        ({"tls": {"existingSecret": {"caBundle": "ca.crt"}}}, "at '/tls/existingSecret/caBundle'"),
    ],
)
def test_a_wrong_addition_is_refused_with_its_place(helm: Helm, values: dict[str, Any], message: str) -> None:
    with pytest.raises(RefusedError) as raised:
        helm.template(values)
    assert message in str(raised.value)


def test_registry_and_secrets_of_a_parent_chart_are_in_every_pod(helm: Helm) -> None:
    rendered = helm.template(
        {
            "image": {"registry": "registry.example", "repository": "team/topology-webhook", "tag": "1"},
            "imagePullSecrets": [{"name": "own"}, {"name": "shared"}],
            "global": {"imagePullSecrets": ["shared", {"name": "parent"}], "storageClass": "not ours"},
        }
    )
    for pod in every_pod(rendered):
        assert pod["containers"][0]["image"] == "registry.example/team/topology-webhook:1"
        assert [secret["name"] for secret in pod["imagePullSecrets"]] == ["shared", "parent", "own"]
    mirrored = helm.template(
        {
            "image": {"registry": "registry.example", "repository": "team/topology-webhook", "tag": "1"},
            "global": {"imageRegistry": "mirror.example:5000"},
        }
    )
    images = {pod["containers"][0]["image"] for pod in every_pod(mirrored)}
    assert images == {"mirror.example:5000/team/topology-webhook:1"}


def every_pod(rendered: Rendered) -> list[dict[str, Any]]:
    """The specs of the Deployment's pods, of the Job of an uninstall and of the test."""
    (job,) = [each for each in rendered.hooks if each["kind"] == "Job"]
    (test,) = [each for each in rendered.tests if each["kind"] == "Pod"]
    return [pod_of(rendered), job["spec"]["template"]["spec"], test["spec"]]


def test_all_objects_can_be_in_a_namespace_of_their_own(helm: Helm) -> None:
    everything = {
        "namespaceOverride": "elsewhere",
        "networkPolicy": {"enabled": True},
        "serviceMonitor": {"enabled": True},
        "prometheusRule": {"enabled": True},
        "dashboard": {"enabled": True},
        "tls": {"mode": "CertManager", "clientCA": {"pem": PEM}},
    }
    rendered = helm.template(everything, namespace="of-the-release")
    for each in (*rendered.objects, *rendered.hooks, *rendered.tests):
        assert each["metadata"].get("namespace") in {None, "elsewhere", "default"}  # `default` is tests.namespace
        # Not in a rule, subject, name of a user or variable either.
        assert "of-the-release" not in yaml.safe_dump(each)


def test_the_service_has_the_families_of_addresses(helm: Helm) -> None:
    said = {"ipFamilyPolicy": "PreferDualStack", "ipFamilies": ["IPv6", "IPv4"]}
    specs = [service["spec"] for service in helm.template({"service": said}).of("Service")]
    assert [{key: spec[key] for key in said} for spec in specs] == [said]


def test_the_token_can_be_kept_from_pods_and_from_others_that_use_the_account(helm: Helm, rendered: Rendered) -> None:
    assert pod_of(rendered)["automountServiceAccountToken"] is True
    kept = {"automountServiceAccountToken": False, "serviceAccount": {"automountServiceAccountToken": False}}
    rendered = helm.template(kept)
    assert pod_of(rendered)["automountServiceAccountToken"] is False
    assert rendered["ServiceAccount"]["automountServiceAccountToken"] is False


@pytest.mark.parametrize("strategy", [{"type": "Recreate"}, {"rollingUpdate": {"maxSurge": "50%"}}])
def test_another_update_strategy_replaces_the_charts(helm: Helm, strategy: dict[str, Any]) -> None:
    assert helm.template({"strategy": strategy})["Deployment"]["spec"]["strategy"] == strategy


@pytest.mark.parametrize("amount", [0, 1, "50%"])
def test_a_budget_by_the_replicas_that_stay_replaces_the_other(helm: Helm, amount: object) -> None:
    spec = helm.template({"podDisruptionBudget": {"minAvailable": amount}})["PodDisruptionBudget"]["spec"]
    assert spec["minAvailable"] == amount
    assert "maxUnavailable" not in spec


def test_dns_of_every_pod_can_be_configured(helm: Helm) -> None:
    said = {"dnsPolicy": "None", "dnsConfig": {"nameservers": ["10.0.0.10"]}}
    for pod in every_pod(helm.template({**said, "hostNetwork": True})):
        assert {key: pod[key] for key in said} == said
