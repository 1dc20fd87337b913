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

type hints = map[string][]topologymanager.TopologyHint

// cpuManager is the static CPU manager policy on state in memory, as a hint provider.
type cpuManager struct {
	policy cpumanager.Policy
	state  cpustate.State
}

func (m *cpuManager) GetTopologyHints(pod *corev1.Pod, container *corev1.Container) hints {
	return m.policy.GetTopologyHints(klog.Background(), m.state, pod, container)
}

func (m *cpuManager) GetPodTopologyHints(pod *corev1.Pod) hints {
	return m.policy.GetPodTopologyHints(klog.Background(), m.state, pod)
}

func (m *cpuManager) AllocatePod(pod *corev1.Pod) error {
	return m.policy.AllocatePod(klog.Background(), m.state, pod)
}

func (m *cpuManager) Allocate(pod *corev1.Pod, container *corev1.Container) error {
	return m.policy.Allocate(klog.Background(), m.state, pod, container)
}

func (m *cpuManager) release(pod, container string) error {
	return m.policy.RemoveContainer(klog.Background(), m.state, pod, container)
}

// memoryManager is the Static memory manager policy on state in memory, as a hint provider.
type memoryManager struct {
	policy memorymanager.Policy
	state  memorystate.State
}

func (m *memoryManager) GetTopologyHints(pod *corev1.Pod, container *corev1.Container) hints {
	return m.policy.GetTopologyHints(klog.Background(), m.state, pod, container)
}

func (m *memoryManager) GetPodTopologyHints(pod *corev1.Pod) hints {
	return m.policy.GetPodTopologyHints(klog.Background(), m.state, pod)
}

func (m *memoryManager) AllocatePod(pod *corev1.Pod) error {
	return m.policy.AllocatePod(klog.Background(), m.state, pod)
}

func (m *memoryManager) Allocate(pod *corev1.Pod, container *corev1.Container) error {
	return m.policy.Allocate(klog.Background(), m.state, pod, container)
}

func (m *memoryManager) release(pod, container string) {
	m.policy.RemoveContainer(klog.Background(), m.state, pod, container)
}
