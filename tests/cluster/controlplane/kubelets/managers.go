package kubelets

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/kubelet/cm/cpumanager"
	cpustate "k8s.io/kubernetes/pkg/kubelet/cm/cpumanager/state"
	"k8s.io/kubernetes/pkg/kubelet/cm/memorymanager"
	memorystate "k8s.io/kubernetes/pkg/kubelet/cm/memorymanager/state"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
)

// The kubelet's CPU and memory managers are a policy, its state, and the upkeep of that state on disk and in cgroups.
// Here policy and state are the kubelet's own; of the upkeep nothing is left but to release what ended (Admission).
//
// How the Topology Manager asks a manager, and a manager its policy, differs between versions: upstream_*.go.

type hints = map[string][]topologymanager.TopologyHint

// manager is what the Topology Manager asks when a pod is added, in the form of 1.36.
type manager interface {
	GetTopologyHints(pod *corev1.Pod, container *corev1.Container) hints
	GetPodTopologyHints(pod *corev1.Pod) hints
	AllocatePod(pod *corev1.Pod) error
	Allocate(pod *corev1.Pod, container *corev1.Container) error
}

// cpuManager is the static CPU manager policy on state in memory, as a hint provider.
type cpuManager struct {
	policy cpumanager.Policy
	state  cpustate.State
}

func (m *cpuManager) release(pod, container string) error {
	return m.policy.RemoveContainer(klog.Background(), m.state, pod, container)
}

// memoryManager is the Static memory manager policy on state in memory, as a hint provider.
type memoryManager struct {
	policy memorymanager.Policy
	state  memorystate.State
}

func (m *memoryManager) release(pod, container string) {
	m.policy.RemoveContainer(klog.Background(), m.state, pod, container)
}
