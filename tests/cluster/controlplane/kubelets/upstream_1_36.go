//go:build !kubelet_1_37

package kubelets

import (
	cadvisor "github.com/google/cadvisor/info/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/kubelet/apis/podresources"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
)

// What is called differently in the kubelet's code of 1.36.

type (
	machineInfo   = cadvisor.MachineInfo
	machineNode   = cadvisor.Node
	machineCore   = cadvisor.Core
	machineCache  = cadvisor.Cache
	hugePagesInfo = cadvisor.HugePagesInfo
)

func newTopologyManager(nodes []machineNode, machine Machine) (topologymanager.Manager, error) {
	return topologymanager.NewManager(nodes, machine.Policy, machine.Scope, machine.Options)
}

func addManager(topology topologymanager.Manager, one manager) {
	topology.AddHintProvider(klog.Background(), one)
}

func admit(handler lifecycle.PodAdmitHandler, attributes *lifecycle.PodAdmitAttributes) lifecycle.PodAdmitResult {
	return handler.Admit(attributes)
}

func affinity(store topologymanager.Store, pod, container string) topologymanager.TopologyHint {
	return store.GetAffinity(pod, container)
}

func track(topology topologymanager.Manager, pod *corev1.Pod, container *corev1.Container) {
	topology.AddContainer(pod, container, containerID(pod, container))
}

func untrack(topology topologymanager.Manager, pod *corev1.Pod, container *corev1.Container) {
	_ = topology.RemoveContainer(containerID(pod, container))
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

func providers(from *provider) podresources.PodResourcesProviders {
	return podresources.PodResourcesProviders{Pods: from, Devices: from, Cpus: from, Memory: from, DynamicResources: from}
}
