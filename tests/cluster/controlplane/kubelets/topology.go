package kubelets

import (
	"fmt"
	"math/rand"
	"slices"
	"sort"
	"strconv"

	corev1 "k8s.io/api/core/v1"
)

// Publisher is whose form a NodeResourceTopology has.
type Publisher string

const (
	// RTE is resource-topology-exporter's: exclusive allocations subtracted, with fingerprint and its method.
	RTE Publisher = "rte"
	// NFD is node-feature-discovery's: subtracted, fingerprint over all pods if there are any, zones in random order.
	NFD Publisher = "nfd"
	// Koordlet is Koordinator's: capacity only, nothing subtracted, no devices, no attributes.
	Koordlet Publisher = "koordlet"
	// None leaves it to an exporter that reads the pod resources API.
	None Publisher = "none"
)

// Publishers are all of them.
var Publishers = []Publisher{RTE, NFD, Koordlet, None}

const (
	fingerprintAttribute  = "nodeTopologyPodsFingerprint"
	fingerprintAnnotation = "topology.node.k8s.io/fingerprint"
	// resource-topology-exporter's default: pods that hold NUMA resources.
	fingerprintMethod = "with-exclusive-resources"
	apiVersion        = "topology.node.k8s.io/v1alpha2"
)

type object = map[string]any

// Topology is the machine's NodeResourceTopology as a publisher would write it now. `random` orders NFD's zones.
func (a *Admission) Topology(publisher Publisher, random *rand.Rand) object {
	var attributes []any
	metadata := object{"name": a.machine.Name}
	attribute := func(name, value string) {
		attributes = append(attributes, object{"name": name, "value": value})
	}
	zones := a.zones(publisher == Koordlet)
	switch publisher {
	case RTE:
		print := fingerprint(a.activePods(a.holdsNUMA))
		attribute(fingerprintAttribute, print)
		attribute(fingerprintAttribute+"Method", fingerprintMethod)
		metadata["annotations"] = object{fingerprintAnnotation: print}
	case NFD:
		if pods := a.activePods(func(*corev1.Pod) bool { return true }); len(pods) > 0 {
			attribute(fingerprintAttribute, fingerprint(pods))
		}
		random.Shuffle(len(zones), func(i, j int) { zones[i], zones[j] = zones[j], zones[i] })
	case Koordlet:
		metadata["labels"] = object{"app.kubernetes.io/managed-by": "Koordinator"}
	}
	if publisher != Koordlet {
		attribute("topologyManagerScope", a.machine.Scope)
		attribute("topologyManagerPolicy", a.machine.Policy)
	}
	topology := object{
		"apiVersion": apiVersion,
		"kind":       "NodeResourceTopology",
		"metadata":   metadata,
		"zones":      zones,
	}
	if publisher != RTE { // which leaves the deprecated field empty
		topology["topologyPolicies"] = []any{a.deprecatedPolicy()}
	}
	if attributes != nil {
		topology["attributes"] = attributes
	}
	return topology
}

// activePods lists the admitted pods that match, in no order.
func (a *Admission) activePods(matches func(*corev1.Pod) bool) []*corev1.Pod {
	var pods []*corev1.Pod
	for _, pod := range a.active {
		if matches(pod) {
			pods = append(pods, pod)
		}
	}
	return pods
}

// deprecatedPolicy is policy and scope as one word: SingleNUMANodeContainerLevel.
func (a *Admission) deprecatedPolicy() string {
	words := map[string]string{
		"best-effort": "BestEffort", "restricted": "Restricted", "single-numa-node": "SingleNUMANode",
	}
	policy, aligns := words[a.machine.Policy]
	if !aligns {
		return "None"
	}
	if a.machine.Scope == "pod" {
		return policy + "PodLevel"
	}
	return policy + "ContainerLevel"
}

// zones are the NUMA nodes, ascending. `total` leaves out what pods hold, and devices.
func (a *Admission) zones(total bool) []any {
	var zones []any
	for id := range a.machine.NUMA {
		resources := a.zoneResources(id, total)
		sort.Slice(resources, func(i, j int) bool { return resources[i].name < resources[j].name })
		var list []any
		for _, one := range resources {
			list = append(list, object{
				"name":        one.name,
				"capacity":    strconv.FormatUint(one.capacity, 10),
				"allocatable": strconv.FormatUint(one.allocatable, 10),
				"available":   strconv.FormatUint(one.available, 10),
			})
		}
		zone := object{"name": fmt.Sprintf("node-%d", id), "type": "Node", "resources": list}
		if id < len(a.machine.Distances) {
			var costs []any
			for other, distance := range a.machine.Distances[id] {
				costs = append(costs, object{"name": fmt.Sprintf("node-%d", other), "value": int64(distance)})
			}
			zone["costs"] = costs
		}
		zones = append(zones, zone)
	}
	return zones
}

type zoneResource struct {
	name                             string
	capacity, allocatable, available uint64
}

// zoneResources are what an exporter lists of a NUMA node: what the kubelet's pod resources API calls allocatable there,
// and if that is nothing, the CPUs of the machine with 0 allocatable.
func (a *Admission) zoneResources(id int, total bool) []zoneResource {
	var resources []zoneResource
	if a.cpus != nil || total {
		resources = append(resources, a.zoneCPUs(id))
	}
	if a.memory != nil || total {
		resources = append(resources, a.zoneMemory(id)...)
	}
	if total {
		for i := range resources {
			resources[i].allocatable = resources[i].capacity
			resources[i].available = resources[i].capacity
		}
		return resources
	}
	for name := range a.machine.Devices {
		if near := a.devices.devicesNear(name)[id]; near > 0 {
			free := a.devices.freeNear(name)[id]
			resources = append(resources, zoneResource{name, uint64(near), uint64(near), uint64(free)})
		}
	}
	if len(resources) == 0 {
		cpus := a.cpuTopology.CPUDetails.CPUsInNUMANodes(id)
		return []zoneResource{{"cpu", uint64(cpus.Size()), 0, 0}}
	}
	return resources
}

// zoneCPUs counts reserved CPUs in the capacity only.
func (a *Admission) zoneCPUs(id int) zoneResource {
	all := a.cpuTopology.CPUDetails.CPUsInNUMANodes(id)
	reserved, _ := a.machine.reserved() // NewAdmission read it already
	allocatable := all.Difference(reserved)
	available := allocatable
	if a.cpus != nil {
		available = available.Intersection(a.cpus.state.GetDefaultCPUSet())
	}
	return zoneResource{"cpu", uint64(all.Size()), uint64(allocatable.Size()), uint64(available.Size())}
}

// zoneMemory is memory and each size of huge pages; the capacity of memory includes the huge pages.
func (a *Admission) zoneMemory(id int) []zoneResource {
	if a.memory != nil {
		var resources []zoneResource
		for name, table := range a.memory.state.GetMachineState()[id].MemoryMap {
			resources = append(resources, zoneResource{string(name), table.TotalMemSize, table.Allocatable, table.Free})
		}
		return resources
	}
	numa := a.machine.NUMA[id]
	allocatable := uint64(numa.Memory.Value())
	memory := zoneResource{"memory", allocatable, allocatable, allocatable}
	resources := []zoneResource{}
	for _, name := range a.machine.hugepages() {
		amount := numa.Hugepages[name]
		size := uint64(amount.Value())
		memory.capacity += size
		resources = append(resources, zoneResource{name, size, size, size})
	}
	return append(resources, memory)
}

// ParsePublisher reads a publisher's name.
func ParsePublisher(name string) (Publisher, error) {
	if publisher := Publisher(name); slices.Contains(Publishers, publisher) {
		return publisher, nil
	}
	return "", fmt.Errorf("publisher %q is none of %v", name, Publishers)
}
