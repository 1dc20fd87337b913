"""The random devices and claims that kube-scheduler's allocator is asked about can be in a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cluster.api import ApiError
from tests.conformance.random_claims import draw_cases

if TYPE_CHECKING:
    from tests.cluster.control_plane import ControlPlane

_RESOURCE = "/apis/resource.k8s.io/v1"


@pytest.mark.long
def test_an_api_server_takes_every_slice_class_and_claim(control_plane: ControlPlane) -> None:
    control_plane.create_namespace("team")
    admin = {"metadata": {"labels": {"resource.kubernetes.io/admin-access": "true"}}}
    control_plane.api.patch("/api/v1/namespaces/team", admin)
    refused = []
    for case in draw_cases(seed=1, count=150):
        objects = {
            "resourceslices": case["slices"],
            "deviceclasses": case["classes"],
            "namespaces/team/resourceclaims": case["claims"],
        }
        for kind, some in objects.items():
            for one in some:
                try:
                    control_plane.api.create(f"{_RESOURCE}/{kind}?dryRun=All", one)
                except ApiError as error:
                    refused.append(f"{case['id']} {error}")
    control_plane.delete_namespace("team")
    assert refused == []
