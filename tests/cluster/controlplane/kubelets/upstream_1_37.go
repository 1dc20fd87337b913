//go:build kubelet_1_37

package kubelets

import (
	"context"

	cadvisor "github.com/google/cadvisor/lib/model"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	podresourcesapi "k8s.io/kubelet/pkg/apis/podresources/v1"
	"k8s.io/kubernetes/pkg/kubelet/apis/podresources"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
)

// What is called differently in the kubelet's code of 1.37.

type (
	machineInfo   = cadvisor.MachineInfo
	machineNode   = cadvisor.Node
	machineCore   = cadvisor.Core
	machineCache  = cadvisor.Cache
	hugePagesInfo = cadvisor.HugePagesInfo
)

func newTopologyManager(nodes []machineNode, machine Machine) (topologymanager.Manager, error) {
	return topologymanager.NewManager(klog.Background(), nodes, machine.Policy, machine.Scope, machine.Options)
}

func addManager(topology topologymanager.Manager, one manager) {
	topology.AddHintProvider(klog.Background(), hintProvider{one})
}

func admit(handler lifecycle.PodAdmitHandler, attributes *lifecycle.PodAdmitAttributes) lifecycle.PodAdmitResult {
	return handler.Admit(context.Background(), attributes)
}

func affinity(store topologymanager.Store, pod, container string) topologymanager.TopologyHint {
	return store.GetAffinity(klog.Background(), pod, container)
}

func track(topology topologymanager.Manager, pod *corev1.Pod, container *corev1.Container) {
	topology.AddContainer(klog.Background(), pod, container, containerID(pod, container))
}

func untrack(topology topologymanager.Manager, pod *corev1.Pod, container *corev1.Container) {
	_ = topology.RemoveContainer(klog.Background(), containerID(pod, container))
}

func (m *cpuManager) GetTopologyHints(pod *corev1.Pod, container *corev1.Container) hints {
	return m.policy.GetTopologyHints(klog.Background(), m.state, pod, container, lifecycle.AddOperation)
}

func (m *cpuManager) GetPodTopologyHints(pod *corev1.Pod) hints {
	return m.policy.GetPodTopologyHints(klog.Background(), m.state, pod, lifecycle.AddOperation)
}

func (m *cpuManager) AllocatePod(pod *corev1.Pod) error {
	return m.policy.AllocatePod(klog.Background(), m.state, pod, lifecycle.AddOperation)
}

func (m *cpuManager) Allocate(pod *corev1.Pod, container *corev1.Container) error {
	return m.policy.Allocate(klog.Background(), m.state, pod, container, lifecycle.AddOperation)
}

func (m *memoryManager) GetTopologyHints(pod *corev1.Pod, container *corev1.Container) hints {
	return m.policy.GetTopologyHints(klog.Background(), m.state, pod, container, lifecycle.AddOperation)
}

func (m *memoryManager) GetPodTopologyHints(pod *corev1.Pod) hints {
	return m.policy.GetPodTopologyHints(klog.Background(), m.state, pod, lifecycle.AddOperation)
}

func (m *memoryManager) AllocatePod(pod *corev1.Pod) error {
	return m.policy.AllocatePod(klog.Background(), m.state, pod, lifecycle.AddOperation)
}

func (m *memoryManager) Allocate(pod *corev1.Pod, container *corev1.Container) error {
	return m.policy.Allocate(context.Background(), m.state, pod, container, lifecycle.AddOperation)
}

// hintProvider is a manager in the form of 1.37. Only pods that are added come here: no resize is played.
type hintProvider struct{ manager }

func (p hintProvider) GetTopologyHints(
	_ klog.Logger, pod *corev1.Pod, container *corev1.Container, _ lifecycle.Operation,
) hints {
	return p.manager.GetTopologyHints(pod, container)
}

func (p hintProvider) GetPodTopologyHints(_ klog.Logger, pod *corev1.Pod, _ lifecycle.Operation) hints {
	return p.manager.GetPodTopologyHints(pod)
}

func (p hintProvider) AllocatePod(_ klog.Logger, pod *corev1.Pod, _ lifecycle.Operation) error {
	return p.manager.AllocatePod(pod)
}

func (p hintProvider) Allocate(
	_ context.Context, pod *corev1.Pod, container *corev1.Container, _ lifecycle.Operation,
) error {
	return p.manager.Allocate(pod, container)
}

func providers(from *provider) podresources.PodResourcesProviders {
	to := apiProvider{from}
	return podresources.PodResourcesProviders{Pods: to, Devices: to, Cpus: to, Memory: to, DynamicResources: to}
}

// apiProvider is a provider in the form of 1.37. What a pod has as a whole stays empty: without the feature gate
// PodLevelResourceManagers nobody asks.
type apiProvider struct{ *provider }

func (p apiProvider) UpdateAllocatedDevices(klog.Logger) { p.provider.UpdateAllocatedDevices() }

func (p apiProvider) GetAllocatableDevices(klog.Logger) []*podresourcesapi.ContainerDevices {
	return p.provider.GetAllocatableDevices()
}

func (p apiProvider) GetCPUs(pod *corev1.Pod, container *corev1.Container) []int64 {
	return p.provider.GetCPUs(string(pod.UID), container.Name)
}

func (p apiProvider) GetPodCPUs(string) []int64 { return nil }

func (p apiProvider) GetMemory(
	_ klog.Logger, pod *corev1.Pod, container *corev1.Container,
) []*podresourcesapi.ContainerMemory {
	return p.provider.GetMemory(string(pod.UID), container.Name)
}

func (p apiProvider) GetPodMemory(klog.Logger, string) []*podresourcesapi.ContainerMemory { return nil }

func (p apiProvider) GetAllocatableMemory(klog.Logger) []*podresourcesapi.ContainerMemory {
	return p.provider.GetAllocatableMemory()
}

func (p apiProvider) GetDynamicResources(
	_ klog.Logger, pod *corev1.Pod, container *corev1.Container,
) []*podresourcesapi.DynamicResource {
	return p.provider.GetDynamicResources(pod, container)
}
