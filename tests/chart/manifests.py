"""deploy/install.yaml: the chart's objects with its default values, for clusters without Helm.

`python -m tests.chart.manifests` (`make manifests`) writes it, and a test compares it with the chart.
"""

import re
from pathlib import Path
from typing import Final

from tests.chart.helm import Helm

FILE: Final = Path(__file__).parents[2] / "deploy" / "install.yaml"
RELEASE: Final = "topology-webhook"
_HEADER: Final = f"""\
# The chart charts/topology-webhook with default values, in the namespace {RELEASE}. `make manifests` writes it.
# No image is published yet. Build one from the Dockerfile, push it, and replace REGISTRY when you apply this file:
#   sed 's#REGISTRY/#registry.example/#' deploy/install.yaml | kubectl apply --server-side -f -
---
apiVersion: v1
kind: Namespace
metadata:
  name: {RELEASE}
"""
# They say that Helm manages an object, which is not true here.
_HELMS_LABELS: Final = re.compile(r"^ *(?:helm\.sh/chart|app\.kubernetes\.io/managed-by): .*\n", re.MULTILINE)


def install_manifest(helm: Helm) -> str:
    """The text of deploy/install.yaml."""
    chart = helm.run(
        *("template", RELEASE, str(FILE.parents[1] / "charts" / "topology-webhook")),
        *(
            "--namespace",
            RELEASE,
            "--include-crds",
            "--no-hooks",
            "--set",
            "image.repository=REGISTRY/topology-webhook",
        ),
    )
    return _HEADER + _HELMS_LABELS.sub("", chart)


if __name__ == "__main__":
    import tempfile

    from tests.cluster.assets import find_assets

    with tempfile.TemporaryDirectory() as home:
        FILE.write_text(install_manifest(Helm(find_assets(print)["helm"], Path(home))))
    print(f"wrote {FILE}")  # noqa: T201 # a command prints
