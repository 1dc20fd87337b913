"""What a user reads after `helm install`: the truth about the failure policies."""

import pytest

from tests.chart.helm import CHART, Helm


def notes(helm: Helm, **webhook: str) -> str:
    """The notes as one line of single spaces."""
    sets = ",".join(["image.repository=none", *(f"webhook.{name}={value}" for name, value in webhook.items())])
    shown = helm.run("install", "tw", str(CHART), "--namespace", "placement", "--dry-run=client", "--set", sets)
    return " ".join(shown.partition("NOTES:")[2].split())


@pytest.mark.parametrize(
    ("policy", "happens"),
    [
        ("Ignore", "Managed pods are created unchanged, without gate and placement."),
        (
            "Fail",
            "Managed pods (settings.manage: Annotated) are refused outside placement, kube-system. All other pods are",
        ),
    ],
)
def test_the_notes_say_what_happens_to_pods_while_no_replica_answers(helm: Helm, policy: str, happens: str) -> None:
    assert f"While no replica answers (webhook.failurePolicy: {policy}): {happens}" in notes(helm, failurePolicy=policy)


@pytest.mark.parametrize(
    ("policy", "happens"),
    [
        ("Ignore", "Every pod is bound without a check."),
        ("Fail", "No pod is bound outside placement, kube-system: neither managed pods nor any others,"),
    ],
)
def test_the_notes_say_what_happens_to_bindings_while_no_leader_answers(helm: Helm, policy: str, happens: str) -> None:
    sentence = f"While no leader answers for a binding (webhook.bindFailurePolicy: {policy}): {happens}"
    assert sentence in notes(helm, bindFailurePolicy=policy)
