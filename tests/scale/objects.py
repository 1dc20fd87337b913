"""The objects of the synthetic cluster as JSON, of the size and with the fields that real clusters have."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from tests.fingerprints import pod_fingerprint
from tests.scale.fleet import POD_CPUS, POD_MEMORY_GIB, ZONE_CPUS, ZONE_MEMORY_GIB, EqualMachines, FixedPod, node_name
from tests.scale.templates import ObjectTemplate
from webhook.model.names import NUMA_ALLOCATION, NUMA_TOPOLOGY_SPEC, PLACED, PLACEMENT, RESOURCE_STATUS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

SINGLE: Final = '{"numaTopologyPolicy":"SingleNUMANode"}'
NICS: Final = 4
"""A device that no pod requests."""
CREATED: Final = "2025-01-01T00:00:00Z"
TOPOLOGY: Final = {
    "apiVersion": "kai.scheduler/v1alpha1",
    "kind": "Topology",
    "metadata": {"name": "network", "resourceVersion": "1"},
    "spec": {"levels": [{"nodeLabel": "example.com/block"}, {"nodeLabel": "example.com/rack"}]},
}


def _managed(manager: str, operation: str, time: str, fields: dict[str, Any], **more: str) -> dict[str, Any]:
    return {
        "manager": manager,
        "operation": operation,
        "apiVersion": "v1",
        "time": time,
        "fieldsType": "FieldsV1",
        "fieldsV1": fields,
        **more,
    }


def _fields(*names: str) -> dict[str, Any]:
    return {f"f:{name}": {} for name in names}


def _condition(kind: str, status: str, reason: str) -> dict[str, str]:
    return {
        "type": kind,
        "status": status,
        "lastHeartbeatTime": "@TIME@",
        "lastTransitionTime": CREATED,
        "reason": reason,
        "message": f"kubelet reports {reason}",
    }


def node_template(fleet: EqualMachines) -> ObjectTemplate:
    """A node. @NAME@, @UID@, @VERSION@, @RACK@, @BLOCK@, @TIME@ of the heartbeat."""
    amounts = {
        "cpu": str(ZONE_CPUS * fleet.zones),
        "ephemeral-storage": "1845813536Ki",
        "hugepages-1Gi": "0",
        "hugepages-2Mi": "0",
        "memory": f"{ZONE_MEMORY_GIB * fleet.zones}Gi",
        "example.com/nic": str(NICS * fleet.zones),
        "nvidia.com/gpu": str(fleet.zones),
        "pods": "110",
    }
    # A kubelet reports the 50 largest images.
    images = [
        {"names": [f"registry.example.com/team/image-{number}@sha256:{number:064x}"], "sizeBytes": 10**9 - number}
        for number in range(50)
    ]
    return ObjectTemplate(
        {
            "kind": "Node",
            "apiVersion": "v1",
            "metadata": {
                "name": "@NAME@",
                "uid": "@UID@",
                "resourceVersion": "@VERSION@",
                "creationTimestamp": CREATED,
                "labels": {
                    "beta.kubernetes.io/arch": "amd64",
                    "beta.kubernetes.io/os": "linux",
                    "example.com/block": "block-@BLOCK@",
                    "example.com/rack": "rack-@RACK@",
                    "kubernetes.io/arch": "amd64",
                    "kubernetes.io/hostname": "@NAME@",
                    "kubernetes.io/os": "linux",
                    "node.kubernetes.io/instance-type": "gpu-8",
                    "topology.kubernetes.io/region": "eu-1",
                    "topology.kubernetes.io/zone": "eu-1-a",
                },
                "annotations": {"node.alpha.kubernetes.io/ttl": "300", "csi.volume.kubernetes.io/nodeid": "@UID@"},
                "managedFields": [
                    _managed("kubelet", "Update", CREATED, {"f:metadata": {"f:labels": _fields("a", "b", "c")}}),
                    _managed("kubelet", "Update", "@TIME@", {"f:status": _fields(*amounts)}, subresource="status"),
                ],
            },
            "spec": {"podCIDR": "10.0.0.0/24", "podCIDRs": ["10.0.0.0/24"], "providerID": "cloud://@UID@"},
            "status": {
                "capacity": amounts,
                "allocatable": amounts,
                "conditions": [
                    _condition("MemoryPressure", "False", "KubeletHasSufficientMemory"),
                    _condition("DiskPressure", "False", "KubeletHasNoDiskPressure"),
                    _condition("PIDPressure", "False", "KubeletHasSufficientPID"),
                    _condition("Ready", "True", "KubeletReady"),
                ],
                "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}, {"type": "Hostname", "address": "@NAME@"}],
                "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
                "nodeInfo": {"kernelVersion": "6.8.0", "kubeletVersion": "v1.36.0", "systemUUID": "@UID@"},
                "images": images,
            },
        }
    )


def _resource(name: str, capacity: str, available: str) -> dict[str, str]:
    return {"allocatable": capacity, "available": available, "capacity": capacity, "name": name}


class TopologyTexts:
    """NodeResourceTopologies, as an exporter publishes them that subtracts exclusive allocations."""

    def __init__(self, fleet: EqualMachines) -> None:
        self._zones = fleet.zones
        zone_fields = {"f:attributes": {}, "f:metadata": {"f:annotations": _fields(".", "update")}, "f:zones": {}}
        self._template = ObjectTemplate(
            {
                "apiVersion": "topology.node.k8s.io/v1alpha2",
                "attributes": [
                    {"name": "topologyManagerPolicy", "value": "single-numa-node"},
                    {"name": "topologyManagerScope", "value": "container"},
                    {"name": "nodeTopologyPodsFingerprint", "value": "@FINGERPRINT@"},
                ],
                "kind": "NodeResourceTopology",
                "metadata": {
                    "annotations": {"k8stopoawareschedwg/rte-update": "periodic @TIME@"},
                    "creationTimestamp": CREATED,
                    "generation": 1,
                    "managedFields": [_managed("resource-topology-exporter", "Update", "@TIME@", zone_fields)],
                    "name": "@NAME@",
                    "resourceVersion": "@VERSION@",
                    "uid": "@UID@",
                },
                "zones": "@ZONES@",
            },
            sort_keys=True,
        )

    def text(
        self, node: int, version: int, time: str, pods: Sequence[tuple[str, str]], used: Sequence[int], nics: int
    ) -> str:
        """The NRT. pods: (namespace, name) of those it reports; used: exclusive pods by NUMA node; nics: free ones."""
        zones = ",".join(_zone(numa_id, self._zones, used[numa_id], nics) for numa_id in range(self._zones))
        text = self._template.fill(
            NAME=node_name(node),
            UID=f"nrt-{node}",
            VERSION=str(version),
            TIME=time,
            FINGERPRINT=pod_fingerprint(pods),
            ZONES="@",
        )
        head, _, tail = text.partition('"@"')
        return f"{head}[{zones}]{tail}"


@lru_cache(maxsize=4096)
def _zone(numa_id: int, zones: int, used: int, nics: int) -> str:
    cpus, memory = ZONE_CPUS - used * POD_CPUS, ZONE_MEMORY_GIB - used * POD_MEMORY_GIB
    zone = {
        "attributes": [{"name": "socket", "value": str(numa_id // 4)}],
        "costs": [{"name": f"node-{to}", "value": 10 if to == numa_id else 21} for to in range(zones)],
        "name": f"node-{numa_id}",
        "resources": [
            _resource("cpu", str(ZONE_CPUS), str(cpus)),
            _resource("memory", str(ZONE_MEMORY_GIB << 30), str(memory << 30)),
            _resource("example.com/nic", str(NICS), str(nics)),
            _resource("nvidia.com/gpu", "1", "1"),
        ],
        "type": "Node",
    }
    return json.dumps(zone, separators=(",", ":"))


def _numa(numa_id: str) -> list[dict[str, Any]]:
    return [{"node": numa_id, "resources": {"cpu": str(POD_CPUS), "memory": f"{POD_MEMORY_GIB}Gi"}}]


def new_pod(name: str, namespace: str, uid: str, owner: str) -> dict[str, Any]:
    """A Guaranteed pod for one NUMA node, as it comes to the webhooks at its creation."""
    raw = _pod(name, namespace, uid, owner, {NUMA_TOPOLOGY_SPEC: SINGLE})
    amounts = {"cpu": str(POD_CPUS), "memory": f"{POD_MEMORY_GIB}Gi"}
    raw["spec"]["containers"][0]["resources"] = {"limits": amounts, "requests": amounts}
    raw["status"] = {"phase": "Pending", "qosClass": "Guaranteed"}
    return raw


def replica_set(name: str, namespace: str) -> dict[str, Any]:
    """The owner of pods."""
    pod = new_pod("", namespace, "", "")
    template = {"metadata": {"annotations": pod["metadata"]["annotations"]}, "spec": pod["spec"]}
    metadata = {"name": name, "namespace": namespace, "uid": name, "creationTimestamp": CREATED}
    spec = {"replicas": 1000, "template": template}
    return {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": metadata, "spec": spec}


def _pod(name: str, namespace: str, uid: str, owner: str, annotations: dict[str, str]) -> dict[str, Any]:
    container = {
        "name": "main",
        "image": "registry.example.com/team/app:1.2.3",
        "args": ["--listen=:8080", "--log-level=info"],
        "ports": [{"containerPort": 8080, "protocol": "TCP"}],
        "env": [{"name": f"SETTING_{number}", "value": f"value-{number}"} for number in range(8)],
        "resources": {"requests": {"cpu": "250m", "memory": "256Mi"}},
        "volumeMounts": [
            {
                "name": "kube-api-access",
                "readOnly": True,
                "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount",
            }
        ],
        "livenessProbe": {"httpGet": {"path": "/healthz", "port": 8080, "scheme": "HTTP"}, "periodSeconds": 10},
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "imagePullPolicy": "IfNotPresent",
    }
    of_metadata = {"f:labels": _fields(".", "app", "pod-template-hash"), "f:ownerReferences": _fields(".", f"k:{uid}")}
    of_spec = {
        "f:containers": {'k:{"name":"main"}': _fields(*container)},
        **_fields("dnsPolicy", "restartPolicy", "schedulerName", "securityContext"),
    }
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {
            "name": name,
            "generateName": "web-",
            "namespace": namespace,
            "uid": uid,
            "resourceVersion": "@VERSION@",
            "creationTimestamp": CREATED,
            "labels": {"app": "web", "pod-template-hash": "5d5f6b7c9"},
            "annotations": annotations,
            "ownerReferences": [
                {
                    "apiVersion": "apps/v1",
                    "kind": "ReplicaSet",
                    "name": owner,
                    "uid": owner,
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
            "managedFields": [
                _managed("kube-controller-manager", "Update", CREATED, {"f:metadata": of_metadata, "f:spec": of_spec})
            ],
        },
        "spec": {
            "volumes": [
                {
                    "name": "kube-api-access",
                    "projected": {
                        "sources": [
                            {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
                            {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
                        ],
                        "defaultMode": 420,
                    },
                }
            ],
            "containers": [container],
            "restartPolicy": "Always",
            "terminationGracePeriodSeconds": 30,
            "dnsPolicy": "ClusterFirst",
            "serviceAccountName": "default",
            "serviceAccount": "default",
            "securityContext": {},
            "schedulerName": "default-scheduler",
            "tolerations": [
                {"key": f"node.kubernetes.io/{taint}", "operator": "Exists", "effect": "NoExecute"}
                for taint in ("not-ready", "unreachable")
            ],
            "priority": 0,
            "enableServiceLinks": True,
            "preemptionPolicy": "PreemptLowerPriority",
        },
        "status": {},
    }


def running() -> dict[str, Any]:
    """The status of a running pod."""
    kinds = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
    return {
        "phase": "Running",
        "conditions": [
            {"type": kind, "status": "True", "lastProbeTime": None, "lastTransitionTime": CREATED} for kind in kinds
        ],
        "hostIP": "10.0.0.1",
        "podIP": "10.1.0.1",
        "podIPs": [{"ip": "10.1.0.1"}],
        "startTime": CREATED,
        "containerStatuses": [
            {
                "name": "main",
                "state": {"running": {"startedAt": CREATED}},
                "ready": True,
                "restartCount": 0,
                "image": "registry.example.com/team/app:1.2.3",
                "imageID": f"registry.example.com/team/app@sha256:{1:064x}",
                "containerID": f"containerd://{2:064x}",
            }
        ],
        "qosClass": "Burstable",
    }


class FixedPodTexts:
    """The pods that run from the beginning."""

    def __init__(self) -> None:
        plain = _pod("@NAME@", "@NAMESPACE@", "@UID@", "web-@OWNER@", {})
        plain["spec"]["nodeName"] = "@NODE@"
        plain["status"] = running()
        self._plain = ObjectTemplate(plain)
        exclusive = new_pod("@NAME@", "@NAMESPACE@", "@UID@", "web-@OWNER@")
        allocation = json.dumps({"node": "@NODE@", "numaNodeResources": _numa("@NUMA@")})
        exclusive["metadata"]["annotations"] |= {
            NUMA_ALLOCATION: allocation.replace('"@NUMA@"', "@NUMA@"),
            RESOURCE_STATUS: json.dumps({"numaNodeResources": _numa("@NUMA@")}).replace('"@NUMA@"', "@NUMA@"),
            PLACEMENT: "assigned to @NODE@, NUMA node @NUMA@",
        }
        exclusive["spec"]["nodeName"] = "@NODE@"
        exclusive["status"] = running() | {"qosClass": "Guaranteed"}
        placed = {"type": PLACED, "status": "True", "reason": "Assigned", "message": "assigned to @NODE@"}
        exclusive["status"]["conditions"].append(placed)
        self._exclusive = ObjectTemplate(exclusive)

    def text(self, pod: FixedPod) -> str:
        """The object of the pod."""
        values = {
            "NAME": pod.name,
            "NAMESPACE": pod.namespace,
            "UID": f"00000000-0000-4000-8000-{pod.number:012x}",
            "OWNER": str(pod.number % 997),
            "VERSION": "1",
            "NODE": node_name(pod.node),
        }
        if pod.numa_id is None:
            return self._plain.fill(**values)
        return self._exclusive.fill(NUMA=str(pod.numa_id), **values)


def listing(items: Iterable[str], version: int, follows: str) -> bytes:
    """The answer to a LIST."""
    continues = f',"continue":"{follows}"' if follows else ""
    text = ",".join(items)
    return f'{{"kind":"List","metadata":{{"resourceVersion":"{version}"{continues}}},"items":[{text}]}}'.encode()
