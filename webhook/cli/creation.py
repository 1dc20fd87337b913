"""The request that the API server would send for the creation of an object."""

from collections.abc import Mapping
from typing import Any, Final

from webhook.cache.management import DEFAULT_NAMESPACE
from webhook.model.admission_review import AdmissionRequest, Operation, User

# Quoted in messages about fields that only the service may write.
_USER: Final = User("the user of this manifest", ())


def creation_of(raw: Mapping[str, Any], api_version: str, kind: str, namespace: str) -> AdmissionRequest:
    """The request to create an object of this kind."""
    group, _, version = api_version.rpartition("/")
    return AdmissionRequest(
        uid="",
        group=group,
        version=version,
        kind=kind,
        resource=f"{kind.lower()}s",
        sub_resource="",
        operation=Operation.CREATE,
        namespace=namespace or DEFAULT_NAMESPACE,
        name=str(raw["metadata"].get("name") or ""),
        object=raw,
        old_object={},
        user=_USER,
        dry_run=True,
    )
