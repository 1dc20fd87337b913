package kubelets

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	memorystate "k8s.io/kubernetes/pkg/kubelet/cm/memorymanager/state"
)

// Given is what a container of an admitted pod got.
type Given struct {
	Name string `json:"name"`
	// Affinity holds the NUMA ids of the merged hint; null: none.
	Affinity  []int `json:"affinity"`
	Preferred bool  `json:"preferred"`
	// CPUs counts exclusive CPUs by NUMA id.
	CPUs map[int]int `json:"cpusPerNuma,omitempty"`
	// CPUList names them, as a list such as "0-3,8".
	CPUList string              `json:"cpuList,omitempty"`
	Memory  []memorystate.Block `json:"memory,omitempty"`
	// Devices counts them by the NUMA ids they are near to: "0", "0,1" or "none".
	Devices map[string]map[string]int `json:"devices,omitempty"`
}

// Given lists what each container of an admitted pod holds, init containers first.
func (a *Admission) Given(pod *corev1.Pod) []Given {
	var all []Given
	for _, container := range containers(pod) {
		hint := affinity(a.topology, string(pod.UID), container.Name)
		given := Given{Name: container.Name, Preferred: hint.Preferred}
		if hint.NUMANodeAffinity != nil {
			given.Affinity = hint.NUMANodeAffinity.GetBits()
		}
		if a.cpus != nil {
			if cpus, exclusive := a.cpus.state.GetCPUSet(string(pod.UID), container.Name); exclusive {
				given.CPUs, given.CPUList = map[int]int{}, cpus.String()
				for _, cpu := range cpus.UnsortedList() {
					given.CPUs[a.cpuTopology.CPUDetails[cpu].NUMANodeID]++
				}
			}
		}
		if a.memory != nil {
			given.Memory = a.memory.state.GetMemoryBlocks(string(pod.UID), container.Name)
		}
		for resource, devices := range a.devices.containers[string(pod.UID)][container.Name] {
			if given.Devices == nil {
				given.Devices = map[string]map[string]int{}
			}
			given.Devices[resource] = map[string]int{}
			for device := range devices {
				given.Devices[resource][nearTo(a.machine.Devices[resource][device])]++
			}
		}
		all = append(all, given)
	}
	return all
}

// holdsNUMA says whether a running container of the pod has exclusive CPUs, memory of NUMA nodes or devices near one.
//
// Source: resource-topology-exporter pkg/podres/filter/numalocality.
func (a *Admission) holdsNUMA(pod *corev1.Pod) bool {
	for _, container := range containers(pod) {
		if ranToEnd(pod, container) {
			continue
		}
		if a.cpus != nil {
			if _, exclusive := a.cpus.state.GetCPUSet(string(pod.UID), container.Name); exclusive {
				return true
			}
		}
		if a.memory != nil && len(a.memory.state.GetMemoryBlocks(string(pod.UID), container.Name)) > 0 {
			return true
		}
		for resource, devices := range a.devices.containers[string(pod.UID)][container.Name] {
			for device := range devices {
				if len(a.machine.Devices[resource][device]) > 0 {
					return true
				}
			}
		}
	}
	return false
}

func nearTo(nodes []int) string {
	if len(nodes) == 0 {
		return "none"
	}
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(nodes), " ", ","), "[]")
}
