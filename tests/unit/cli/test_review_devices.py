"""`review` of pods with devices of Dynamic Resource Allocation: from the cluster, and from the files themselves."""

from pathlib import Path
from typing import Any

from tests.builders.devices import claim, claim_template, device_class, gpus, request, resource_slice
from tests.builders.nodes import node, nrt
from tests.builders.pods import pod
from tests.unit.cli.cluster_files import written
from tests.unit.cli.conftest import Printed, run_review

GPU = "nvidia.com/gpu"


# plugin: a GPU near each NUMA node by a device plugin    dra: 2 GPUs near NUMA node 0 in its ResourceSlice
def review(folder: Path, *files: dict[str, Any], flags: tuple[str, ...] = (), more: tuple[Any, ...] = ()) -> Printed:
    (folder / "cluster").mkdir()
    (folder / "files").mkdir()
    cluster = written(
        folder / "cluster",
        node(name="plugin", devices={GPU: 2}),
        nrt(node="plugin", free=(16, 16), devices={GPU: (1, 1)}),
        node(name="dra"),
        nrt(node="dra", free=(16, 16)),
        resource_slice("dra", gpus(0, 0)),
        device_class(resource=GPU),
        *more,
    )
    return run_review("-f", written(folder / "files", *files), "-o", "json", *flags, cluster=cluster)


def answer(outcome: Printed) -> tuple[str, str]:
    found: dict[str, Any] = outcome.json[-1]
    return found["verdict"], found["message"]


def test_slices_of_the_snapshot_count_unless_the_setting_is_off(tmp_path: Path) -> None:
    asked = pod(devices={GPU: 2})
    verdict, text = answer(review(tmp_path, asked))
    assert (verdict, "best dra" in text) == ("allow", True)
    (tmp_path / "off").mkdir()
    assert answer(review(tmp_path / "off", asked, flags=("--dynamic-resources=false",)))[0] == "deny"


def test_a_template_in_the_files_counts_for_the_pods_after_it(tmp_path: Path) -> None:
    template = claim_template(requests=[request(count=2)])
    del template["metadata"]["namespace"]
    asked = pod(namespace="", resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "gpu"}])
    verdict, text = answer(review(tmp_path, template, asked))
    assert (verdict, "1 of 2 nodes fits" in text) == ("allow", True)
    (tmp_path / "taken").mkdir()
    taken = claim(node="dra", devices=["gpu-0"])
    verdict, text = answer(review(tmp_path / "taken", template, asked, more=(taken,)))
    assert verdict == "wait"
    assert "once other pods leave" in text
