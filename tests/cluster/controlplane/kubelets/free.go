package kubelets

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/cpuset"
)

// free is what nobody holds of a machine, by one account of it.
type free struct {
	cpus    cpuset.CPUSet
	memory  map[int]map[corev1.ResourceName]uint64 // by NUMA id; memory and huge pages
	devices map[string]sets.Set[string]            // ids by resource
}

// freeByState is what the managers would give out now.
func (a *Admission) freeByState() free {
	a.removeStale()
	found := a.allocatable()
	if a.cpus != nil {
		found.cpus = found.cpus.Intersection(a.cpus.state.GetDefaultCPUSet())
	}
	if a.memory != nil {
		for id, numa := range a.memory.state.GetMachineState() {
			for name, table := range numa.MemoryMap {
				found.memory[id][name] = table.Free
			}
		}
	}
	for resource := range found.devices {
		found.devices[resource] = a.devices.free(resource)
	}
	return found
}

// freeByList is what an exporter takes for free: what the pod resources API lists as allocatable, less what it lists as
// held. It lists the containers of active pods without ordinary init containers, though those hold their CPUs and devices
// until the pod ends. Of a block of memory over several NUMA nodes nothing says how much is where: NFD fills them up in
// their order, RTE takes the whole size from each.
//
// Source: pkg/kubelet/apis/podresources (List); node-feature-discovery pkg/resourcemonitor (updateAvailable,
// updateMemoryAvailable); resource-topology-exporter pkg/resourcemonitor (NormalizeContainerDevices).
func (a *Admission) freeByList(publisher Publisher) free {
	a.removeStaleDevices()
	found := a.allocatable()
	pods := a.activePods(func(*corev1.Pod) bool { return true })
	slices.SortFunc(pods, func(one, other *corev1.Pod) int { return strings.Compare(string(one.UID), string(other.UID)) })
	for _, pod := range pods {
		for _, container := range containers(pod) {
			if ranToEnd(pod, container) {
				continue
			}
			if a.cpus != nil {
				cpus, _ := a.cpus.state.GetCPUSet(string(pod.UID), container.Name)
				found.cpus = found.cpus.Difference(cpus)
			}
			if a.memory != nil {
				for _, block := range a.memory.state.GetMemoryBlocks(string(pod.UID), container.Name) {
					size := block.Size
					for _, id := range block.NUMAAffinity {
						taken := min(size, found.memory[id][block.Type])
						found.memory[id][block.Type] -= taken
						if publisher == NFD {
							size -= taken
						}
					}
				}
			}
			for resource, devices := range a.devices.containers[string(pod.UID)][container.Name] {
				found.devices[resource] = found.devices[resource].Difference(devices)
			}
		}
	}
	return found
}

// allocatable is what is free while no pod is there.
func (a *Admission) allocatable() free {
	reserved, _ := a.machine.reserved() // NewAdmission read it already
	found := free{
		cpus:    a.cpuTopology.CPUDetails.CPUs().Difference(reserved),
		memory:  map[int]map[corev1.ResourceName]uint64{},
		devices: map[string]sets.Set[string]{},
	}
	if a.memory != nil {
		for id, numa := range a.memory.state.GetMachineState() {
			found.memory[id] = map[corev1.ResourceName]uint64{}
			for name, table := range numa.MemoryMap {
				found.memory[id][name] = table.Allocatable
			}
		}
	}
	for resource := range a.machine.Devices {
		found.devices[resource] = sets.KeySet(a.devices.all[resource])
	}
	return found
}
