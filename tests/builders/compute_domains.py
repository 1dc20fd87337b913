"""What NVIDIA's driver and its controller write for a ComputeDomain: device class, devices, and the claim template."""

from typing import Any, Final

from tests.builders.devices import claim_template, device, device_class, request, resource_slice

CLIQUE: Final = "nvidia.com/gpu.clique"
DRIVER: Final = "compute-domain.nvidia.com"
CHANNELS: Final = "compute-domain-default-channel.nvidia.com"
CHANNEL_CLASS: Final = device_class(
    CHANNELS,
    f"device.driver == '{DRIVER}' && device.attributes['{DRIVER}'].type == 'channel' "
    f"&& device.attributes['{DRIVER}'].id == 0",
)
CLAIM: Final = [{"name": "channel", "resourceClaimTemplateName": "channel"}]
"""The claim of a pod in the ComputeDomain with the template `channel`."""


def channel_slice(node: str) -> dict[str, Any]:
    """The devices of a node: the channel of one pod, and that of the ComputeDomain's daemon."""
    devices = [device(f"{kind}-0", attributes={"type": kind, "id": 0}) for kind in ("channel", "daemon")]
    return resource_slice(node, devices, driver=DRIVER)


def channel_template(name: str = "channel", namespace: str = "default") -> dict[str, Any]:
    """The ResourceClaimTemplate for the pods of a ComputeDomain."""
    found = claim_template(name, [request("channel", cls=CHANNELS)], namespace=namespace)
    parameters = {
        "apiVersion": "resource.nvidia.com/v1beta1",
        "kind": "ComputeDomainChannelConfig",
        "domainID": f"uid-of-{name}",
        "allocationMode": "Single",
    }
    config = {"requests": ["channel"], "opaque": {"driver": DRIVER, "parameters": parameters}}
    found["spec"]["spec"]["devices"]["config"] = [config]
    return found
