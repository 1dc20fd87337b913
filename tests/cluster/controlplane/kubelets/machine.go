package kubelets

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/kubernetes/pkg/kubelet/cm/cpumanager"
	"k8s.io/utils/cpuset"
)

const (
	// A kubelet's own default of maxPods.
	defaultMaxPods = 110
	// The memory manager demands some reserved memory; one byte changes no decision.
	reservedMemoryBytes = 1
	kibibyte            = 1024
)

// Machine describes a node's hardware and the configuration of its kubelet.
type Machine struct {
	Name   string            `json:"name"`
	Labels map[string]string `json:"labels"`
	// Policy, Scope and Options are the Topology Manager's.
	Policy  string            `json:"policy"`
	Scope   string            `json:"scope"`
	Options map[string]string `json:"options"`
	// CPUPolicy is "static" or "none", MemoryPolicy "Static" or "None".
	CPUPolicy    string `json:"cpuPolicy"`
	MemoryPolicy string `json:"memoryPolicy"`
	// CPUOptions are the static CPU manager's: full-pcpus-only, ..
	CPUOptions map[string]string `json:"cpuOptions"`
	// ReservedCPUs is a CPU list such as "0-1,8".
	ReservedCPUs string `json:"reservedCPUs"`
	// NUMA holds the NUMA nodes by id; CPUs are numbered on from one to the next.
	NUMA []NUMANode `json:"numa"`
	// Distances are ACPI SLIT values: 10 is local.
	Distances [][]uint64 `json:"distances"`
	// Devices maps a resource to its devices' ids, and those to the NUMA nodes they are near to (none: no topology).
	Devices map[string]map[string][]int `json:"devices"`
	// MaxPods is 110 when it is not given.
	MaxPods int64 `json:"maxPods"`
}

// NUMANode is one NUMA node of a machine.
type NUMANode struct {
	// CPUs counts logical CPUs, reserved ones included.
	CPUs int `json:"cpus"`
	// ThreadsPerCore is 1 when it is not given. The threads of a core have consecutive numbers.
	ThreadsPerCore int `json:"threadsPerCore"`
	// Socket is the NUMA node's own when it is not given.
	Socket *int `json:"socket"`
	// L3CPUs counts the logical CPUs that share an L3 cache; 0: all of the NUMA node do.
	L3CPUs int `json:"l3CPUs"`
	// Memory is what pods can allocate, huge pages not included.
	Memory    resource.Quantity            `json:"memory"`
	Hugepages map[string]resource.Quantity `json:"hugepages"`
}

// reserved is the set of CPUs that no container gets exclusively.
func (m *Machine) reserved() (cpuset.CPUSet, error) {
	return cpuset.Parse(m.ReservedCPUs)
}

// startable is the error with which a kubelet of this configuration ends; nil if it starts. The admission code alone,
// as in recordings of it, demands less.
//
// Source: pkg/kubelet/cm/cpumanager, NewManager.
func (m *Machine) startable() error {
	reserved, err := m.reserved()
	if err == nil && m.CPUPolicy == string(cpumanager.PolicyStatic) && reserved.IsEmpty() {
		err = fmt.Errorf("%s: the static CPU manager demands a reserved CPU", m.Name)
	}
	return err
}

// info is the machine as cAdvisor would report it to the kubelet.
func (m *Machine) info() (*machineInfo, error) {
	info := &machineInfo{}
	sockets := map[int]bool{}
	sizes := m.hugepages()
	for id, numa := range m.NUMA {
		node := machineNode{Id: id, Memory: uint64(numa.Memory.Value())}
		if id < len(m.Distances) {
			node.Distances = m.Distances[id]
		}
		if id == 0 {
			node.Memory += reservedMemoryBytes
		}
		for _, name := range sizes {
			size, err := resource.ParseQuantity(name[len(corev1.ResourceHugePagesPrefix):])
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			amount := numa.Hugepages[name]
			// cAdvisor counts the huge pages as part of the NUMA node's memory.
			node.Memory += uint64(amount.Value())
			node.HugePages = append(node.HugePages, hugePagesInfo{
				PageSize: uint64(size.Value()) / kibibyte,
				NumPages: uint64(amount.Value() / size.Value()),
			})
		}
		socket := id
		if numa.Socket != nil {
			socket = *numa.Socket
		}
		sockets[socket] = true
		threads := max(numa.ThreadsPerCore, 1)
		for first := 0; first < numa.CPUs; first += threads {
			core := machineCore{Id: info.NumCores / threads, SocketID: socket}
			if numa.L3CPUs > 0 { // else it is a cache of the NUMA node, and of no core
				core.UncoreCaches = []machineCache{{Id: info.NumCores / numa.L3CPUs, Level: 3}}
			}
			for range min(threads, numa.CPUs-first) {
				core.Threads = append(core.Threads, info.NumCores)
				info.NumCores++
			}
			node.Cores = append(node.Cores, core)
		}
		info.Topology = append(info.Topology, node)
	}
	info.NumSockets = len(sockets)
	return info, nil
}

// hugepages lists the sizes of huge pages that the machine knows, sorted: every NUMA node has all of them, if only none.
func (m *Machine) hugepages() []string {
	sizes := sets.New[string]()
	for _, numa := range m.NUMA {
		sizes = sizes.Union(sets.KeySet(numa.Hugepages))
	}
	return sets.List(sizes)
}

// resources are what the kubelet writes into its Node's status.
func (m *Machine) resources() (capacity, allocatable corev1.ResourceList, err error) {
	reserved, err := m.reserved()
	if err != nil {
		return nil, nil, err
	}
	var cpus, memory int64
	hugepages := map[corev1.ResourceName]int64{}
	for _, numa := range m.NUMA {
		cpus += int64(numa.CPUs)
		memory += numa.Memory.Value()
		for name, amount := range numa.Hugepages {
			hugepages[corev1.ResourceName(name)] += amount.Value()
		}
	}
	pods := m.MaxPods
	if pods == 0 {
		pods = defaultMaxPods
	}
	decimal := func(amount int64) resource.Quantity { return *resource.NewQuantity(amount, resource.DecimalSI) }
	binary := func(amount int64) resource.Quantity { return *resource.NewQuantity(amount, resource.BinarySI) }
	allocatable = corev1.ResourceList{
		corev1.ResourceCPU:    decimal(cpus - int64(reserved.Size())),
		corev1.ResourceMemory: binary(memory),
		corev1.ResourcePods:   decimal(pods),
	}
	memory += reservedMemoryBytes
	for name, amount := range hugepages {
		allocatable[name] = binary(amount)
		memory += amount
	}
	for name, devices := range m.Devices {
		allocatable[corev1.ResourceName(name)] = decimal(int64(len(devices)))
	}
	capacity = allocatable.DeepCopy()
	capacity[corev1.ResourceCPU] = decimal(cpus)
	capacity[corev1.ResourceMemory] = binary(memory)
	return capacity, allocatable, nil
}
