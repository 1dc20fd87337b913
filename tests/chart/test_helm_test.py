"""The pod of `helm test`: its order, its rights, its command, and that no selector of the release selects it."""

from typing import Any

from typer.testing import CliRunner

from tests.chart.helm import HOOK, Helm, Rendered
from webhook.cli.app import app


def of_kind(rendered: Rendered, kind: str) -> list[Any]:
    return [each for each in rendered.tests if each["kind"] == kind]


def weight(raw: Any) -> int:
    return int(raw["metadata"]["annotations"][f"{HOOK}-weight"])


def test_accounts_and_roles_come_before_bindings_and_the_pod_comes_last(rendered: Rendered) -> None:
    first = [weight(each) for kind in ("ServiceAccount", "ClusterRole", "Role") for each in of_kind(rendered, kind)]
    bindings = [weight(each) for kind in ("ClusterRoleBinding", "RoleBinding") for each in of_kind(rendered, kind)]
    (pod,) = of_kind(rendered, "Pod")
    assert len(first) + len(bindings) + 1 == len(rendered.tests) == 8
    assert max(first) < min(bindings) <= max(bindings) < weight(pod)


def test_all_but_the_pod_go_whatever_the_result_is(rendered: Rendered) -> None:
    policies = {each["kind"]: each["metadata"]["annotations"][f"{HOOK}-delete-policy"] for each in rendered.tests}
    assert policies.pop("Pod") == "before-hook-creation"
    assert set(policies.values()) == {"before-hook-creation,hook-succeeded,hook-failed"}


def test_the_pod_examines_this_release(helm: Helm) -> None:
    rendered = helm.template({"tests": {"namespace": "training"}})
    (pod,) = of_kind(rendered, "Pod")
    (container,) = pod["spec"]["containers"]
    deployment = rendered["Deployment"]["metadata"]
    assert container["args"] == [
        "doctor",
        f"--namespace={deployment['namespace']}",
        f"--name={deployment['name']}",
        "--trial-namespace=training",
    ]
    assert container["image"] == rendered.container["image"]
    assert CliRunner().invoke(app, [*container["args"], "--help"]).exit_code == 0
    role = next(each for each in of_kind(rendered, "Role") if each["metadata"]["namespace"] == "training")
    assert role["rules"] == [{"apiGroups": [""], "resources": ["pods"], "verbs": ["create"]}]


def test_no_selector_of_the_release_selects_the_pod(rendered: Rendered) -> None:
    (pod,) = of_kind(rendered, "Pod")
    labels = pod["metadata"]["labels"].items()
    selectors = [
        rendered["Deployment"]["spec"]["selector"]["matchLabels"],
        rendered["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"],
        *(service["spec"]["selector"] for service in rendered.of("Service")),
    ]
    assert not any(selector.items() <= labels for selector in selectors)


def test_without_the_test_nothing_of_it_is_rendered(helm: Helm) -> None:
    assert helm.template({"tests": {"enabled": False}}).tests == ()
