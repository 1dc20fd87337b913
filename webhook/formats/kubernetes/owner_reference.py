"""Which owner references may be read: a tenant writes them, and we build a URL from them.

The API server only checks that the fields of an entry of `metadata.ownerReferences` are not empty. Real objects are
stricter:
- apiVersion: `version` or `group/version`; a group is a DNS subdomain, a version a DNS label.
- kind: letters, digits and `-`; in lower case it is a DNS label.
- name: a DNS subdomain, as the names of all objects that own pods are.

Source: kubernetes apimachinery pkg/apis/meta/v1/validation (ValidateOwnerReferences), pkg/util/validation;
apiextensions pkg/apis/apiextensions/validation (names of a CRD).
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from webhook.formats.kubernetes.membership import may_be_in_group
from webhook.formats.kubernetes.owner_chain import owner_above
from webhook.formats.kubernetes.pod import Owner
from webhook.model.errors import UserError

_PATH: Final = "metadata.ownerReferences"
_LABEL: Final = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")
_KIND: Final = re.compile(r"[A-Za-z]([-A-Za-z0-9]{0,61}[A-Za-z0-9])?")
_SUBDOMAIN: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LONGEST_SUBDOMAIN: Final = 253
# How many characters of a value a message quotes.
_SHOWN: Final = 80


def check_owners(raw: Mapping[str, Any]) -> None:
    """Check the owner whose annotations a pod object takes, if there is one. Raises UserError.

    The API server itself rejects empty fields, after its webhooks.
    """
    if not may_be_in_group(raw["metadata"].get("annotations") or {}):
        return
    if (owner := owner_above(raw)) is not None:
        check_owner(
            replace(
                owner,
                api_version=owner.api_version or "v1",
                kind=owner.kind or "Pod",
                name=owner.name or "name",
                uid=owner.uid or "uid",
            )
        )


def check_owner(owner: Owner) -> None:
    """Check that the reference can be that of a real object. Raises UserError."""
    group, slash, version = owner.api_version.rpartition("/")
    if not _LABEL.fullmatch(version) or (slash and not _is_subdomain(group)):
        raise _fault("apiVersion", owner.api_version, 'a version such as "v1", or a group and one such as "batch/v1"')
    if not _KIND.fullmatch(owner.kind):
        raise _fault("kind", owner.kind, 'letters, digits and "-", at most 63')
    if not _is_subdomain(owner.name):
        raise _fault("name", owner.name, 'a DNS subdomain: lower case letters, digits, "-" and ".", at most 253')
    if not owner.uid:
        raise _fault("uid", owner.uid, "the UID of the object")


def _is_subdomain(text: str) -> bool:
    return len(text) <= _LONGEST_SUBDOMAIN and _SUBDOMAIN.fullmatch(text) is not None


def _fault(field: str, value: str, allowed: str) -> UserError:
    shown = repr(value if len(value) <= _SHOWN else f"{value[:_SHOWN]}...")
    return UserError(f"{_PATH}.{field}", f"{shown} names no object that can own pods. Allowed: {allowed}.")
