from tests.fingerprints import pod_fingerprint
from tests.unit.model import golden


def test_every_golden_list_of_pods_has_its_fingerprint() -> None:
    cases = list(golden.cases("podfingerprint"))
    assert len(cases) == 200
    wrong = [
        case["id"]
        for case in cases
        if pod_fingerprint((pod["namespace"], pod["name"]) for pod in case["pods"]) != case["expect"]["fingerprint"]
    ]
    assert wrong == []


def test_the_order_of_the_pods_does_not_matter() -> None:
    pods = [("default", "a"), ("default", "b"), ("kube-system", "a")]
    assert pod_fingerprint(pods) == pod_fingerprint(reversed(pods))
    assert pod_fingerprint(pods) != pod_fingerprint(pods[:2])
