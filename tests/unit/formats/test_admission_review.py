import base64
import json

import pytest

from tests.unit.model.reviews import ANY, FIELDS, review, with_field
from webhook.admission.response import Allowed, Denied, Patched
from webhook.formats.kubernetes.admission_review import AdmissionRequest, Operation, User
from webhook.model.errors import Malfunction


def test_a_request_is_read_whole() -> None:
    pod = {"metadata": {"generateName": "a-"}, "spec": {"newField": 1}}
    request = AdmissionRequest.from_object(
        review(
            uid="u1",
            kind={"group": "", "version": "v1", "kind": "Pod"},
            resource={"group": "", "version": "v1", "resource": "pods"},
            subResource="binding",
            operation="CREATE",
            namespace="ml",
            object=pod,
            oldObject=None,
            userInfo={"username": "system:serviceaccount:ml:x", "groups": ["g"]},
            dryRun=True,
        )
    )
    assert (request.uid, request.kind, request.resource, request.sub_resource) == ("u1", "Pod", "pods", "binding")
    assert (request.operation, request.namespace, request.name) == (Operation.CREATE, "ml", "")
    assert (request.object, request.old_object) == (pod, {})
    assert (request.user, request.dry_run) == (User("system:serviceaccount:ml:x", ("g",)), True)


@pytest.mark.parametrize(
    "raw",
    [
        None,
        [],
        {},
        {"apiVersion": "admission.k8s.io/v1beta1", "kind": "AdmissionReview", "request": {"uid": "1"}},
        {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"},
        review(operation="CREATE"),
        review(uid="1"),
        review(uid="1", operation="PATCH"),
    ],
)
def test_what_is_no_admission_review_is_the_callers_malfunction(raw: object) -> None:
    with pytest.raises(Malfunction):
        AdmissionRequest.from_object(raw)


@pytest.mark.parametrize("path", FIELDS)
@pytest.mark.parametrize("json_type", ANY)
def test_a_field_of_the_wrong_type_is_named_and_one_of_the_right_type_is_read(path: str, json_type: str) -> None:
    raw = with_field(path, ANY[json_type])
    if json_type in FIELDS[path]:
        assert AdmissionRequest.from_object(raw).operation is Operation.UPDATE
        return
    with pytest.raises(Malfunction, match=f"request(.{path.removesuffix('.k')}|.* uid)"):
        AdmissionRequest.from_object(raw)


def test_a_text_of_megabytes_is_no_name() -> None:
    with pytest.raises(Malfunction, match=r"request\.namespace has 5000000 characters"):
        AdmissionRequest.from_object(with_field("namespace", "x" * 5_000_000))


def test_allowed_lets_the_object_pass_as_it_is() -> None:
    assert Allowed().to_object("u1") == {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "response": {"uid": "u1", "allowed": True},
    }


def test_patched_carries_its_operations_as_base64() -> None:
    patch = [{"op": "add", "path": "/metadata/annotations", "value": {}}]
    response = Patched(patch, ("look",)).to_object("u1")["response"]
    assert json.loads(base64.b64decode(response["patch"])) == patch
    assert (response["allowed"], response["patchType"], response["warnings"]) == (True, "JSONPatch", ["look"])


def test_an_empty_patch_is_no_patch() -> None:
    assert Patched([]).to_object("u1") == Allowed().to_object("u1")


def test_denied_says_why_to_programs_and_to_people() -> None:
    assert Denied("x is wrong.", "InvalidAnnotation").to_object("u1")["response"] == {
        "uid": "u1",
        "allowed": False,
        "status": {"code": 403, "reason": "InvalidAnnotation", "message": "x is wrong."},
    }


def test_warnings_travel_on_one_line() -> None:
    response = Allowed(("first\n  second",)).to_object("u1")["response"]
    assert response["warnings"] == ["first second"]
