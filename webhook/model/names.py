"""Every annotation, label, attribute and gate name that this service reads or writes, in one place."""

from typing import Final

# Koordinator: what a user writes on a pod, and the status that its scheduler writes.
NUMA_TOPOLOGY_SPEC: Final = "scheduling.koordinator.sh/numa-topology-spec"
RESOURCE_SPEC: Final = "scheduling.koordinator.sh/resource-spec"
RESOURCE_STATUS: Final = "scheduling.koordinator.sh/resource-status"
KOORDINATOR_NODE_POLICY_LABEL: Final = "node.koordinator.sh/numa-topology-policy"

# How koordlet marks the NodeResourceTopology objects it writes: the label when it creates one, the annotation always.
# Source: koordinator pkg/koordlet/statesinformer/impl/states_noderesourcetopology.go.
MANAGED_BY_LABEL: Final = "app.kubernetes.io/managed-by"
MANAGED_BY_KOORDINATOR: Final = "Koordinator"
KOORDLET_CPU_TOPOLOGY: Final = "node.koordinator.sh/cpu-topology"
# What koordlet writes beside it: the CPUs that pods have, and those that none may have.
# Source: koordinator apis/extension (numa_aware.go, node_reservation.go, system_qos.go).
KOORDLET_CPU_ALLOCS: Final = "node.koordinator.sh/pod-cpu-allocs"
KOORDLET_KUBELET_CPU_POLICY: Final = "kubelet.koordinator.sh/cpu-manager-policy"
KOORDLET_SYSTEM_QOS: Final = "node.koordinator.sh/system-qos-resource"
# On a node: what it reserves, how its CPUs are bound, and by how much its amounts are raised.
KOORDINATOR_NODE_RESERVATION: Final = "node.koordinator.sh/reservation"
KOORDINATOR_NODE_BIND_LABEL: Final = "node.koordinator.sh/cpu-bind-policy"
KOORDINATOR_AMPLIFICATION: Final = "node.koordinator.sh/resource-amplification-ratio"
# On a pod: its class of service and of priority, and the Reservation that it must use.
KOORDINATOR_QOS_LABEL: Final = "koordinator.sh/qosClass"
KOORDINATOR_PRIORITY_CLASS_LABEL: Final = "koordinator.sh/priority-class"
RESERVATION_AFFINITY: Final = "scheduling.koordinator.sh/reservation-affinity"

# What only other schedulers and operators read: a warning says so (webhook.admission.annotation_warnings).
EXACT_MATCH_RESERVATION: Final = "scheduling.koordinator.sh/exact-match-reservation"
KOORDINATOR_DEVICE_HINT: Final = "scheduling.koordinator.sh/device-allocate-hint"
KOORDINATOR_DEVICE_JOINT: Final = "scheduling.koordinator.sh/device-joint-allocate"
KOORDINATOR_GPU_PARTITION: Final = "scheduling.koordinator.sh/gpu-partition-spec"
# A domain with several names.
KOORDINATOR_GANG: Final = "gang.scheduling.koordinator.sh/"
KOORDINATOR_POD_GROUP_LABEL: Final = "pod-group.scheduling.sigs.k8s.io"
COSCHEDULING_POD_GROUP_LABEL: Final = "scheduling.x-k8s.io/pod-group"
VOLCANO_GROUP: Final = "scheduling.k8s.io/group-name"
VOLCANO_NUMA_POLICY: Final = "volcano.sh/numa-topology-policy"
GPU_FRACTION: Final = "gpu-fraction"
GPU_MEMORY: Final = "gpu-memory"
JOBSET_EXCLUSIVE: Final = "alpha.jobset.sigs.k8s.io/exclusive-topology"
LWS_EXCLUSIVE: Final = "leaderworkerset.sigs.k8s.io/exclusive-topology"
LWS_SUBGROUP_EXCLUSIVE: Final = "leaderworkerset.sigs.k8s.io/subgroup-exclusive-topology"

# Our own names.
OUR_DOMAIN: Final = "topology-webhook.dev/"
PLACEMENT: Final = "topology-webhook.dev/placement"
NUMA_ALLOCATION: Final = "topology-webhook.dev/numa"
NUMA_SIGNATURE: Final = "topology-webhook.dev/numa-signature"
MANAGED_FIELDS: Final = "topology-webhook.dev/steered"
# On a pod without annotations of its own: the mode that makes it managed.
MANAGED: Final = "topology-webhook.dev/managed"
# The defaults at the pod's creation for a NUMA policy or exclusiveness that it leaves open.
NUMA_DEFAULTS: Final = "topology-webhook.dev/numa-defaults"
# On a pod of a managed PodGroup of Kubernetes itself: its name, as in spec.schedulingGroup.
SCHEDULING_GROUP: Final = "topology-webhook.dev/scheduling-group"
PLACEMENT_GATE: Final = "topology-webhook.dev/placement"
# The type of a condition in a pod's status.
PLACED: Final = "topology-webhook.dev/Placed"
RANK: Final = "topology-webhook.dev/rank"
DOMAIN: Final = "topology-webhook.dev/domain"
# Prefix of the name of a level: a label with the pod's domain there.
DOMAIN_OF_LEVEL: Final = "topology-webhook.dev/domain-"
LOST_NODES: Final = "topology-webhook.dev/lost-nodes"
EPOCH: Final = "topology-webhook.dev/epoch"
# The shard in which a pod waits for a node.
SHARD: Final = "topology-webhook.dev/shard"
# On the leader's own pod.
# On a namespace: which of its pods are managed.
MANAGE_LABEL: Final = "topology-webhook.dev/manage"
# On a Node: options of its kubelet that no exporter publishes.
KUBELET_OPTIONS: Final = "topology-webhook.dev/kubelet-options"
# Written by users, or copied into pod templates for them.
INHERIT: Final = "topology-webhook.dev/inherit"
INJECT_ENV: Final = "topology-webhook.dev/inject-env"
# Whether the devices of a pod's claims must be on one PCIe root.
PCIE_ROOT: Final = "topology-webhook.dev/pcie-root"
# On the objects of a simulation: when an object is created, and how long each of its pods runs.
SIMULATE_AT: Final = "simulate.topology-webhook.dev/at"
SIMULATE_RUN_SECONDS: Final = "simulate.topology-webhook.dev/run-seconds"

# KAI-Scheduler: rack and zone constraints, on the workload, its pod template or the pod.
KAI_TOPOLOGY: Final = "kai.scheduler/topology"
KAI_REQUIRED_PLACEMENT: Final = "kai.scheduler/topology-required-placement"
KAI_PREFERRED_PLACEMENT: Final = "kai.scheduler/topology-preferred-placement"
KAI_SEGMENT_SIZE: Final = "kai.scheduler/segment-size"
KAI_SEGMENT_REQUIRED_PLACEMENT: Final = "kai.scheduler/segment-topology-required-placement"
KAI_SEGMENT_PREFERRED_PLACEMENT: Final = "kai.scheduler/segment-topology-preferred-placement"
KAI_BATCH_MIN_MEMBER: Final = "kai.scheduler/batch-min-member"
KAI_POD_INDEX_LABEL: Final = "kai.scheduler/pod-index-label"
KAI_QUEUE: Final = "kai.scheduler/queue"
KAI_PRIORITY_CLASS: Final = "priorityClassName"
POD_GROUP_NAME: Final = "pod-group-name"
# A label: the subgroup of a KAI-Scheduler PodGroup that a pod belongs to.
KAI_SUBGROUP: Final = "kai.scheduler/subgroup-name"
# On a running pod: the NUMA nodes on which KAI-Scheduler's exporter sees it.
KAI_OBSERVED_PLACEMENT: Final = "kai.scheduler/numa-placement-observed"
# How many pods of a gang must be placed together, for owners of any kind. Our own name.
MIN_MEMBER: Final = "topology-webhook.dev/min-member"
# How a gang chooses between domains: the values of the setting gangStrategy. Our own name.
STRATEGY: Final = "topology-webhook.dev/strategy"

# Kueue: what a user writes on a pod template, and how Kueue marks what it manages.
# Source: kueue apis/kueue/v1beta2/topology_types.go, pkg/constants, pkg/controller/constants.
KUEUE_DOMAIN: Final = "kueue.x-k8s.io/"
KUEUE_REQUIRED: Final = "kueue.x-k8s.io/podset-required-topology"
KUEUE_PREFERRED: Final = "kueue.x-k8s.io/podset-preferred-topology"
KUEUE_UNCONSTRAINED: Final = "kueue.x-k8s.io/podset-unconstrained-topology"
KUEUE_SLICE_REQUIRED: Final = "kueue.x-k8s.io/podset-slice-required-topology"
KUEUE_SLICE_SIZE: Final = "kueue.x-k8s.io/podset-slice-size"
KUEUE_SLICE_CONSTRAINTS: Final = "kueue.x-k8s.io/podset-slice-required-topology-constraints"
KUEUE_POD_SET_GROUP: Final = "kueue.x-k8s.io/podset-group-name"
KUEUE_QUEUE: Final = "kueue.x-k8s.io/queue-name"
KUEUE_MANAGED: Final = "kueue.x-k8s.io/managed"
KUEUE_POD_SET: Final = "kueue.x-k8s.io/podset"
KUEUE_WORKLOAD: Final = "kueue.x-k8s.io/workload"

# Grove: how it marks the pods of a PodGang, and the topology whose levels a PodGang names.
# Source: grove operator/api/common (labels.go, constants/constants.go).
GROVE_POD_GANG: Final = "grove.io/podgang"
GROVE_POD_CLIQUE: Final = "grove.io/podclique"
GROVE_TOPOLOGY: Final = "grove.io/topology-name"

# Where controllers write a pod's rank in its workload.
JOB_COMPLETION_INDEX: Final = "batch.kubernetes.io/job-completion-index"
KUBEFLOW_REPLICA_INDEX: Final = "training.kubeflow.org/replica-index"
LWS_WORKER_INDEX: Final = "leaderworkerset.sigs.k8s.io/worker-index"
STATEFUL_SET_POD_INDEX: Final = "apps.kubernetes.io/pod-index"
GROVE_POD_INDEX: Final = "grove.io/podclique-pod-index"
RAY_NODE_TYPE: Final = "ray.io/node-type"
# Where they write which independently started gang of the workload a pod belongs to.
JOBSET_REPLICATED_JOB: Final = "jobset.sigs.k8s.io/replicatedjob-name"
LWS_GROUP_INDEX: Final = "leaderworkerset.sigs.k8s.io/group-index"

# Kubernetes.
HOSTNAME_LABEL: Final = "kubernetes.io/hostname"
MIRROR_POD: Final = "kubernetes.io/config.mirror"

# Attributes of a NodeResourceTopology.
# Source: scheduler-plugins pkg/noderesourcetopology/nodeconfig, k8stopologyawareschedwg/podfingerprint.
ATTRIBUTE_POLICY: Final = "topologyManagerPolicy"
ATTRIBUTE_SCOPE: Final = "topologyManagerScope"
ATTRIBUTE_MAX_NUMA_NODES: Final = "topologyManagerMaxNUMANodes"
ATTRIBUTE_PODS_FINGERPRINT: Final = "nodeTopologyPodsFingerprint"
ATTRIBUTE_PODS_FINGERPRINT_METHOD: Final = "nodeTopologyPodsFingerprintMethod"

# The kubelet's --topology-manager-policy-options in the flag's own form, such as prefer-closest-numa-nodes=true.
# No exporter publishes it yet.
ATTRIBUTE_POLICY_OPTIONS: Final = "topologyManagerPolicyOptions"
# Where exporters wrote the pod fingerprint before attributes existed (v1alpha1); some still do.
PODS_FINGERPRINT_ANNOTATION: Final = "topology.node.k8s.io/fingerprint"

# Custom resources: (group, plural).
NODE_RESOURCE_TOPOLOGIES: Final = ("topology.node.k8s.io", "noderesourcetopologies")
KAI_TOPOLOGIES: Final = ("kai.scheduler", "topologies")
KUEUE_TOPOLOGIES: Final = ("kueue.x-k8s.io", "topologies")
