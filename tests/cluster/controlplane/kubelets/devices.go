package kubelets

import (
	"fmt"
	"maps"
	"slices"
	"sort"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	resourcehelper "k8s.io/component-helpers/resource"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager/bitmask"
)

// deviceManager gives out devices by the rules of the kubelet's device manager, without plugins behind it: that one can
// only be had with a gRPC server and checkpoints on disk. Where the kubelet takes any of several equal devices, this one
// takes the first by id.
//
// Source: pkg/kubelet/cm/devicemanager, topology_hints.go and manager.go.
type deviceManager struct {
	affinity topologymanager.Store
	numa     []int
	// all holds the NUMA nodes of each device by resource and id; it never changes.
	all       map[string]map[string][]int
	allocated map[string]sets.Set[string]
	// containers holds the devices of each container: pod UID -> container -> resource -> ids.
	containers map[string]map[string]map[string]sets.Set[string]
	// recorded holds which devices a kubelet took, likewise: they come first among equal ones.
	recorded map[string]map[string]map[string][]string
	// reusable holds what ended init containers of the pod being admitted leave to its later containers.
	reusable map[string]sets.Set[string]
	admitted string // the UID of that pod
}

func newDeviceManager(devices map[string]map[string][]int, numa []int, affinity topologymanager.Store) *deviceManager {
	manager := &deviceManager{
		affinity:   affinity,
		numa:       numa,
		all:        devices,
		allocated:  map[string]sets.Set[string]{},
		containers: map[string]map[string]map[string]sets.Set[string]{},
	}
	for resource := range devices {
		manager.allocated[resource] = sets.New[string]()
	}
	return manager
}

// restart is a new start of the kubelet, from its checkpoint.
func (m *deviceManager) restart(affinity topologymanager.Store) {
	m.affinity, m.admitted = affinity, ""
}

func (m *deviceManager) GetTopologyHints(pod *corev1.Pod, container *corev1.Container) hints {
	m.begin(pod)
	return m.hints(container.Resources.Limits, m.containers[m.admitted][container.Name], m.reusable)
}

func (m *deviceManager) GetPodTopologyHints(pod *corev1.Pod) hints {
	m.begin(pod)
	limits := resourcehelper.PodLimits(pod, resourcehelper.PodResourcesOptions{ExcludeOverhead: true})
	held := map[string]sets.Set[string]{}
	for _, resources := range m.containers[m.admitted] {
		for resource, devices := range resources {
			held[resource] = devices.Union(held[resource])
		}
	}
	return m.hints(limits, held, nil)
}

// AllocatePod does nothing: the device manager knows no pod-level resources.
func (m *deviceManager) AllocatePod(*corev1.Pod) error { return nil }

func (m *deviceManager) Allocate(pod *corev1.Pod, container *corev1.Container) error {
	m.begin(pod)
	if _, held := m.containers[m.admitted][container.Name]; held { // the kubelet starts again
		return nil
	}
	given := map[string]sets.Set[string]{}
	if m.containers[m.admitted] == nil {
		m.containers[m.admitted] = map[string]map[string]sets.Set[string]{}
	}
	m.containers[m.admitted][container.Name] = given
	for _, resource := range m.requested(container.Resources.Limits) {
		limit := container.Resources.Limits[corev1.ResourceName(resource)]
		devices, err := m.choose(resource, int(limit.Value()), container.Name)
		if err != nil {
			return err
		}
		given[resource] = devices
	}
	for resource, devices := range given {
		if ranToEnd(pod, container) {
			m.reusable[resource] = m.reusable[resource].Union(devices)
		} else {
			m.reusable[resource] = m.reusable[resource].Difference(devices)
		}
	}
	return nil
}

// release frees the devices of a pod that ended or was rejected half-way.
func (m *deviceManager) release(pod string) {
	for _, resources := range m.containers[pod] {
		for resource, devices := range resources {
			m.allocated[resource] = m.allocated[resource].Difference(devices)
		}
	}
	delete(m.containers, pod)
}

// begin forgets what init containers of another pod left.
func (m *deviceManager) begin(pod *corev1.Pod) {
	if m.admitted != string(pod.UID) {
		m.admitted = string(pod.UID)
		m.reusable = map[string]sets.Set[string]{}
	}
}

// requested lists the device resources among the limits, sorted.
func (m *deviceManager) requested(limits corev1.ResourceList) []string {
	var resources []string
	for name := range limits {
		if _, known := m.all[string(name)]; known {
			resources = append(resources, string(name))
		}
	}
	sort.Strings(resources)
	return resources
}

// hints are those for some limits. held: what the pod or container has already, when the kubelet starts again.
func (m *deviceManager) hints(limits corev1.ResourceList, held, reusable map[string]sets.Set[string]) hints {
	found := hints{}
	for _, resource := range m.requested(limits) {
		limit := limits[corev1.ResourceName(resource)]
		switch request := int(limit.Value()); {
		case !m.hasTopology(resource):
			found[resource] = nil
		case held[resource].Len() > 0 && held[resource].Len() != request:
			found[resource] = []topologymanager.TopologyHint{}
		case held[resource].Len() > 0:
			found[resource] = m.masks(resource, held[resource], nil, request)
		case m.free(resource).Union(reusable[resource]).Len() < request:
			found[resource] = []topologymanager.TopologyHint{}
		default:
			found[resource] = m.masks(resource, m.free(resource), reusable[resource], request)
		}
	}
	return found
}

// masks lists every set of NUMA nodes that has enough free devices near it and all reusable ones; preferred are those
// as narrow as any set that could hold the request if all devices were free.
func (m *deviceManager) masks(
	resource string, free, reusable sets.Set[string], request int,
) []topologymanager.TopologyHint {
	nodes := m.nodesOf(resource)
	narrowest := len(nodes)
	found := []topologymanager.TopologyHint{}
	bitmask.IterateBitMasks(nodes, func(mask bitmask.BitMask) {
		near := func(device string) bool { return mask.AnySet(m.all[resource][device]) }
		if count(slices.Collect(maps.Keys(m.all[resource])), near) >= request {
			narrowest = min(narrowest, mask.Count())
		}
		// Reusable devices without topology count in every mask; any other must be near.
		for device := range reusable {
			if len(m.all[resource][device]) > 0 && !near(device) {
				return
			}
		}
		reused := count(reusable.UnsortedList(), near)
		if reused+count(free.Difference(reusable).UnsortedList(), near) >= request {
			found = append(found, topologymanager.TopologyHint{NUMANodeAffinity: mask})
		}
	})
	for i := range found {
		found[i].Preferred = found[i].NUMANodeAffinity.Count() == narrowest
	}
	return found
}

// choose takes devices: reusable ones first, then those near the affinity, then others near some NUMA node, then those
// without topology.
func (m *deviceManager) choose(resource string, request int, container string) (sets.Set[string], error) {
	if len(m.all[resource]) == 0 {
		return nil, fmt.Errorf("no healthy devices present; cannot allocate unhealthy devices %s", resource)
	}
	taken := sets.New[string]()
	recorded := sets.New(m.recorded[m.admitted][container][resource]...)
	take := func(devices []string) {
		sort.SliceStable(devices, func(i, j int) bool { return recorded.Has(devices[i]) && !recorded.Has(devices[j]) })
		for _, device := range devices[:min(len(devices), request-taken.Len())] {
			taken.Insert(device)
			m.allocated[resource].Insert(device)
		}
	}
	take(sets.List(m.reusable[resource]))
	needed := request - taken.Len()
	if needed == 0 {
		return taken, nil
	}
	free := m.free(resource)
	if free.Len() < needed {
		return nil, fmt.Errorf("requested number of devices unavailable for %s. Requested: %d, Available: %d",
			resource, needed, free.Len())
	}
	mask := affinity(m.affinity, m.admitted, container).NUMANodeAffinity
	rank := func(device string) int {
		nodes := m.all[resource][device]
		switch {
		case mask == nil || !m.hasTopology(resource):
			return 0
		case len(nodes) == 0:
			return 2
		case mask.AnySet(nodes):
			return 0
		default:
			return 1
		}
	}
	ranked := [3][]string{}
	for _, device := range sets.List(free) {
		ranked[rank(device)] = append(ranked[rank(device)], device)
	}
	for _, equal := range ranked {
		take(equal)
	}
	return taken, nil
}

func (m *deviceManager) free(resource string) sets.Set[string] {
	return sets.KeySet(m.all[resource]).Difference(m.allocated[resource])
}

func (m *deviceManager) hasTopology(resource string) bool {
	return len(m.devicesNear(resource)) > 0
}

// nodesOf lists the NUMA nodes that some device of the resource is near to.
func (m *deviceManager) nodesOf(resource string) []int {
	known := sets.New(m.numa...)
	nodes := sets.New[int]()
	for _, near := range m.all[resource] {
		nodes.Insert(near...)
	}
	return sets.List(nodes.Intersection(known))
}

// devicesNear maps each NUMA node to the number of devices near it.
func (m *deviceManager) devicesNear(resource string) map[int]int {
	near := map[int]int{}
	for _, nodes := range m.all[resource] {
		for _, node := range nodes {
			near[node]++
		}
	}
	return near
}

// ranToEnd says whether the container is an init container that ends before the next one starts.
func ranToEnd(pod *corev1.Pod, container *corev1.Container) bool {
	for i := range pod.Spec.InitContainers {
		if init := &pod.Spec.InitContainers[i]; init.Name == container.Name {
			return !podutil.IsRestartableInitContainer(init)
		}
	}
	return false
}

func count(devices []string, matches func(string) bool) int {
	number := 0
	for _, device := range devices {
		if matches(device) {
			number++
		}
	}
	return number
}
