"""The Job that runs before an uninstall: its order, its rights, and that no selector of the release selects its pod."""

from typing import Any

from typer.testing import CliRunner

from tests.chart.helm import HOOK, Helm, Rendered
from webhook.cli.app import app


def job(rendered: Rendered) -> Any:
    (found,) = (each for each in rendered.hooks if each["kind"] == "Job")
    return found


def test_account_role_and_binding_come_before_the_job_and_all_go_after_it(rendered: Rendered) -> None:
    weights = {each["kind"]: int(each["metadata"]["annotations"][f"{HOOK}-weight"]) for each in rendered.hooks}
    assert weights.keys() == {"ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Job"}
    assert max(weights, key=lambda kind: weights[kind]) == "Job"
    assert weights["ServiceAccount"] == weights["ClusterRole"] < weights["ClusterRoleBinding"] < weights["Job"]
    for each in rendered.hooks:
        assert each["metadata"]["annotations"][HOOK] == "pre-delete"
        assert each["metadata"]["annotations"][f"{HOOK}-delete-policy"] == "before-hook-creation,hook-succeeded"
        assert each["metadata"]["name"] == "tw-topology-webhook-uninstall"


def test_the_job_removes_the_releases_own_webhooks_within_its_time(helm: Helm) -> None:
    rendered = helm.template({"uninstall": {"timeoutSeconds": 100}})
    spec = job(rendered)["spec"]
    (container,) = spec["template"]["spec"]["containers"]
    name = rendered["MutatingWebhookConfiguration"]["metadata"]["name"]
    assert rendered["ValidatingWebhookConfiguration"]["metadata"]["name"] == name
    assert container["args"] == ["ungate", "--all", f"--remove-webhooks={name}", "--timeout=100"]
    assert spec["activeDeadlineSeconds"] == 130
    assert container["image"] == rendered.container["image"]
    (role,) = (each for each in rendered.hooks if each["kind"] == "ClusterRole")
    assert [rule["resourceNames"] for rule in role["rules"] if "resourceNames" in rule] == [[name]]


def test_by_default_the_job_ends_before_helm_stops_waiting(rendered: Rendered) -> None:
    assert job(rendered)["spec"]["activeDeadlineSeconds"] < 300


def test_the_jobs_command_is_one_of_the_program(rendered: Rendered) -> None:
    (container,) = job(rendered)["spec"]["template"]["spec"]["containers"]
    assert CliRunner().invoke(app, [*container["args"], "--help"]).exit_code == 0


def test_no_selector_of_the_release_selects_the_jobs_pod(helm: Helm) -> None:
    rendered = helm.template(
        {"networkPolicy": {"enabled": True, "webhookFrom": [{"ipBlock": {"cidr": "10.0.0.1/32"}}]}}
    )
    labels = job(rendered)["spec"]["template"]["metadata"]["labels"].items()
    selectors = [
        rendered["Deployment"]["spec"]["selector"]["matchLabels"],
        rendered["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"],
        rendered["NetworkPolicy"]["spec"]["podSelector"]["matchLabels"],
        *(service["spec"]["selector"] for service in rendered.of("Service")),
    ]
    assert not any(selector.items() <= labels for selector in selectors)


def test_the_jobs_pod_is_restricted_and_goes_where_the_values_say(helm: Helm) -> None:
    said: dict[str, Any] = {
        "nodeSelector": {"a": "b"},
        "tolerations": [{"key": "x", "operator": "Exists"}],
        "affinity": {"nodeAffinity": {}},
        "priorityClassName": "system-cluster-critical",
        "imagePullSecrets": [{"name": "registry"}],
    }
    rendered = helm.template(said)
    pod = job(rendered)["spec"]["template"]["spec"]
    assert {key: pod[key] for key in said} == said
    (container,) = pod["containers"]
    assert container["securityContext"] == rendered.container["securityContext"]
    assert pod["securityContext"] == rendered["Deployment"]["spec"]["template"]["spec"]["securityContext"]
    assert pod["restartPolicy"] == "Never"


def test_the_service_and_the_policies_let_the_job_remove_the_gate(rendered: Rendered) -> None:
    account = "system:serviceaccount:placement:tw-topology-webhook-uninstall"
    assert account in rendered.configuration["trustedUsers"]
    for policy in rendered.of("ValidatingAdmissionPolicy"):
        assert f'"{account}"' in policy["spec"]["matchConditions"][0]["expression"]


def test_without_the_job_its_account_is_trusted_nowhere(helm: Helm) -> None:
    rendered = helm.template({"uninstall": {"ungate": False}})
    assert rendered.hooks == ()
    assert rendered.configuration["trustedUsers"] == []
    assert not any("-uninstall" in str(each) for each in rendered.objects)
