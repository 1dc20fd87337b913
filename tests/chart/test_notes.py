"""What a user reads after `helm install`: the truth about the failure policies."""

import pytest

from tests.chart.helm import CHART, Helm


def notes(helm: Helm, mode: str = "Enforce", **webhook: str) -> str:
    """The notes as one line of single spaces."""
    sets = ",".join(
        [
            "image.repository=none",
            f"settings.mode={mode}",
            *(f"webhook.{name}={value}" for name, value in webhook.items()),
        ]
    )
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


@pytest.mark.parametrize(
    ("mode", "says", "gated"),
    [
        ("Enforce", "It places pods when its replicas are ready:", "Pods that have the gate wait until a leader"),
        ("Observe", "Its mode is Observe: it reports what it would do", "The leader ungates pods that still wait."),
        ("Off", "Its mode is Off: it decides nothing.", "The leader ungates pods that still wait."),
    ],
)
def test_the_notes_name_the_mode_and_what_happens_to_waiting_pods(helm: Helm, mode: str, says: str, gated: str) -> None:
    strict = {"failurePolicy": "Fail", "bindFailurePolicy": "Fail"}
    text = notes(helm, mode, **strict)
    assert says in text
    assert gated in text
    assert ("kubectl get pod <name>" in text, "reason=BindingWouldBeRefused" in text) == (
        mode == "Enforce",
        mode == "Observe",
    )
    assert text.count("Fail applies in mode Enforce only.") == (0 if mode == "Enforce" else 2)
    assert ("Managed pods are created unchanged" in text) == (mode != "Enforce")
    assert ("Every pod is bound without a check." in text) == (mode != "Enforce")
