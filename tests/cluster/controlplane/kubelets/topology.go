package kubelets

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand"
	"slices"
	"sort"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/cpuset"
)

// Publisher is whose form a NodeResourceTopology has.
type Publisher string

const (
	// RTE is resource-topology-exporter's: exclusive allocations subtracted, with fingerprint and its method.
	RTE Publisher = "rte"
	// NFD is node-feature-discovery's: subtracted, fingerprint over all pods if there are any, zones in random order.
	NFD Publisher = "nfd"
	// Koordlet is Koordinator's: capacity only, nothing subtracted, no devices, no attributes; single CPUs in annotations.
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
	var zones []any
	if publisher == Koordlet {
		zones = a.zones(nil)
	} else {
		free := a.freeByList(publisher)
		zones = a.zones(&free)
	}
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
		metadata["annotations"] = a.koordletAnnotations()
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

// zones are the NUMA nodes, ascending. free: what of them is free; nil leaves out what pods hold, and devices.
func (a *Admission) zones(free *free) []any {
	var zones []any
	for id := range a.machine.NUMA {
		resources := a.zoneResources(id, free)
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
func (a *Admission) zoneResources(id int, free *free) []zoneResource {
	all := a.cpuTopology.CPUDetails.CPUsInNUMANodes(id)
	if free == nil {
		resources := append(a.zoneTotals(id), zoneResource{name: "cpu", capacity: uint64(all.Size())})
		for i := range resources {
			resources[i].allocatable, resources[i].available = resources[i].capacity, resources[i].capacity
		}
		return resources
	}
	var resources []zoneResource
	if a.cpus != nil { // reserved CPUs count in the capacity only
		resources = append(resources, zoneResource{
			"cpu", uint64(all.Size()), uint64(a.allocatable().cpus.Intersection(all).Size()),
			uint64(free.cpus.Intersection(all).Size()),
		})
	}
	if a.memory != nil {
		for name, table := range a.memory.state.GetMachineState()[id].MemoryMap {
			resources = append(resources, zoneResource{
				string(name), table.TotalMemSize, table.Allocatable, free.memory[id][name],
			})
		}
	}
	for name, devices := range a.machine.Devices {
		near := func(device string) bool { return slices.Contains(devices[device], id) }
		if all := count(slices.Collect(maps.Keys(devices)), near); all > 0 {
			left := count(free.devices[name].UnsortedList(), near)
			resources = append(resources, zoneResource{name, uint64(all), uint64(all), uint64(left)})
		}
	}
	if len(resources) == 0 {
		return []zoneResource{{"cpu", uint64(all.Size()), 0, 0}}
	}
	return resources
}

// zoneTotals is memory and each size of huge pages; the capacity of memory includes the huge pages.
func (a *Admission) zoneTotals(id int) []zoneResource {
	numa := a.machine.NUMA[id]
	memory := zoneResource{name: "memory", capacity: uint64(numa.Memory.Value())}
	var resources []zoneResource
	for _, name := range a.machine.hugepages() {
		amount := numa.Hugepages[name]
		memory.capacity += uint64(amount.Value())
		resources = append(resources, zoneResource{name: name, capacity: uint64(amount.Value())})
	}
	return append(resources, memory)
}

// koordletAnnotations say which CPU belongs to which core, what the kubelet keeps of them, and what it gave to whom.
//
// Source: koordinator pkg/koordlet/statesinformer/impl, states_noderesourcetopology.go.
func (a *Admission) koordletAnnotations() object {
	details := []any{}
	for _, id := range a.cpuTopology.CPUDetails.CPUs().List() {
		cpu := a.cpuTopology.CPUDetails[id]
		details = append(details, object{"id": id, "core": cpu.CoreID, "socket": cpu.SocketID, "node": cpu.NUMANodeID})
	}
	policy := object{"policy": a.machine.CPUPolicy, "options": a.machine.CPUOptions}
	allocations := []object{}
	if a.cpus != nil {
		reserved, _ := a.machine.reserved() // NewAdmission read it already
		policy["reservedCPUs"] = reserved.String()
		for uid, containers := range a.cpus.state.GetCPUAssignments() {
			given := object{"uid": uid, "managedByKubelet": true}
			if pod := a.active[types.UID(uid)]; pod != nil {
				given["namespace"], given["name"] = pod.Namespace, pod.Name
			}
			cpus := cpuset.New()
			for _, each := range containers {
				cpus = cpus.Union(each)
			}
			given["cpuset"] = cpus.String()
			allocations = append(allocations, given)
		}
		slices.SortFunc(allocations, func(one, other object) int {
			return strings.Compare(one["uid"].(string), other["uid"].(string))
		})
	}
	annotations := object{}
	for name, value := range map[string]any{
		"node.koordinator.sh/cpu-topology":          object{"detail": details},
		"kubelet.koordinator.sh/cpu-manager-policy": policy,
		"node.koordinator.sh/pod-cpu-allocs":        allocations,
	} {
		text, _ := json.Marshal(value) // strings and numbers
		annotations[name] = string(text)
	}
	return annotations
}

// ParsePublisher reads a publisher's name.
func ParsePublisher(name string) (Publisher, error) {
	if publisher := Publisher(name); slices.Contains(Publishers, publisher) {
		return publisher, nil
	}
	return "", fmt.Errorf("publisher %q is none of %v", name, Publishers)
}
