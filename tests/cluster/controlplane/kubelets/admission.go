package kubelets

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/kubelet/cm/cpumanager"
	cpustate "k8s.io/kubernetes/pkg/kubelet/cm/cpumanager/state"
	cputopology "k8s.io/kubernetes/pkg/kubelet/cm/cpumanager/topology"
	"k8s.io/kubernetes/pkg/kubelet/cm/memorymanager"
	memorystate "k8s.io/kubernetes/pkg/kubelet/cm/memorymanager/state"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
	schedulerframework "k8s.io/kubernetes/pkg/scheduler/framework"
)

// Admission is what the kubelet of one machine decides with: its topology manager, the managers that give it hints, and
// the check that the node as a whole has room. It is not safe for concurrent use: a kubelet admits one pod at a time.
//
// Life of a pod here: Admit -> Started -> Release. What a pod held, admitted or not, stays in the managers' state until
// the next admission, as with the kubelet: there it is out of use at once, but the checkpoints still show it.
type Admission struct {
	machine  Machine
	topology topologymanager.Manager
	cpus     *cpuManager    // nil: the none policy
	memory   *memoryManager // nil: the None policy
	devices  *deviceManager
	// nodeHasRoom is the kubelet's check of what the scheduler checked already.
	nodeHasRoom lifecycle.PodAdmitHandler
	active      map[types.UID]*corev1.Pod
	cpuTopology *cputopology.CPUTopology
}

// NewAdmission starts the managers of a machine. `node` is the Node object as the kubelet knows it; nil leaves the
// node-level check out.
func NewAdmission(machine Machine, node *corev1.Node) (*Admission, error) {
	admission := &Admission{machine: machine, active: map[types.UID]*corev1.Pod{}}
	if node != nil {
		admission.nodeHasRoom = lifecycle.NewPredicateAdmitHandler(
			func(context.Context, bool) (*corev1.Node, error) { return node, nil },
			lifecycle.NewAdmissionFailureHandlerStub(),
			func(*schedulerframework.NodeInfo, *lifecycle.PodAdmitAttributes) error { return nil },
		)
	}
	return admission, admission.start()
}

// start makes the managers, on the state that they have left if they ran before.
func (a *Admission) start() error {
	machine := a.machine
	info, err := machine.info()
	if err != nil {
		return err
	}
	logger := klog.Background()
	manager, err := newTopologyManager(info.Topology, machine)
	if err != nil {
		return err
	}
	a.topology = manager
	if a.cpuTopology, err = cputopology.Discover(logger, info); err != nil {
		return err
	}
	// The order of the container manager: it decides which manager's error a pod is rejected with.
	numa := make([]int, len(machine.NUMA))
	for id := range numa {
		numa[id] = id
	}
	if a.devices == nil {
		a.devices = newDeviceManager(machine.Devices, numa, manager)
	} else {
		a.devices.restart(manager)
	}
	addManager(manager, a.devices)
	if machine.CPUPolicy == string(cpumanager.PolicyStatic) {
		reserved, err := machine.reserved()
		if err != nil {
			return fmt.Errorf("reservedCPUs: %w", err)
		}
		policy, err := cpumanager.NewStaticPolicy(
			logger, a.cpuTopology, reserved.Size(), reserved, manager, machine.CPUOptions)
		if err != nil {
			return err
		}
		state := cpustate.NewMemoryState(logger)
		if a.cpus != nil {
			state = a.cpus.state
		}
		a.cpus = &cpuManager{policy: policy, state: state}
		if err := policy.Start(logger, state); err != nil {
			return err
		}
		addManager(manager, a.cpus)
	}
	if machine.MemoryPolicy == string(memorymanager.PolicyTypeStatic) {
		reserved := map[int]map[corev1.ResourceName]uint64{0: {corev1.ResourceMemory: reservedMemoryBytes}}
		policy, err := memorymanager.NewPolicyStatic(logger, info, reserved, manager)
		if err != nil {
			return err
		}
		state := memorystate.NewMemoryState(logger)
		if a.memory != nil {
			state = a.memory.state
		}
		a.memory = &memoryManager{policy: policy, state: state}
		if err := policy.Start(logger, state); err != nil {
			return err
		}
		addManager(manager, a.memory)
	}
	return nil
}

// Restart is what a kubelet does when it starts again: it admits the pods that it finds, in this order, on the state of
// its checkpoints. It returns those that it rejects now, and why.
func (a *Admission) Restart(found []*corev1.Pod) (map[*corev1.Pod]string, error) {
	if err := a.start(); err != nil {
		return nil, err
	}
	lost := map[*corev1.Pod]string{}
	for _, pod := range found {
		if a.active[pod.UID] == nil {
			continue
		}
		delete(a.active, pod.UID)
		if result := a.admit(pod); !result.Admit {
			lost[pod] = result.Reason
		}
	}
	return lost, nil
}

// Admit decides on a pod, and gives it its CPUs, memory and devices if it is admitted.
func (a *Admission) Admit(pod *corev1.Pod) lifecycle.PodAdmitResult {
	a.removeStale()
	return a.admit(pod)
}

// admit decides on the state as it is.
func (a *Admission) admit(pod *corev1.Pod) lifecycle.PodAdmitResult {
	attributes := &lifecycle.PodAdmitAttributes{Pod: pod, Operation: lifecycle.AddOperation}
	result := admit(a.topology, attributes)
	if result.Admit && a.nodeHasRoom != nil {
		for _, other := range a.active {
			attributes.OtherPods = append(attributes.OtherPods, other)
		}
		result = admit(a.nodeHasRoom, attributes)
	}
	if result.Admit {
		a.active[pod.UID] = pod
		for _, container := range containers(pod) {
			track(a.topology, pod, container)
		}
	}
	return result
}

// Started gives back what the pod's ended init containers held alone.
//
// Source: pkg/kubelet/cm/memorymanager, AddContainer. The CPU manager keeps theirs until the pod ends.
func (a *Admission) Started(pod *corev1.Pod) {
	for _, container := range containers(pod) {
		if a.memory != nil && ranToEnd(pod, container) {
			a.memory.release(string(pod.UID), container.Name)
		}
	}
}

// Release ends an admitted pod; false if it was not running.
func (a *Admission) Release(uid types.UID) bool {
	pod, admitted := a.active[uid]
	if !admitted {
		return false
	}
	delete(a.active, uid)
	for _, container := range containers(pod) {
		untrack(a.topology, pod, container)
	}
	return true
}

// removeStale takes pods that ended or were rejected out of every manager's state.
//
// Source: pkg/kubelet/cm: removeStaleState of the CPU and memory managers, UpdateAllocatedDevices of the device manager,
// which each of them calls when it is asked for hints or an allocation.
func (a *Admission) removeStale() {
	a.removeStaleCPUs()
	if a.memory != nil {
		for pod, containers := range a.memory.state.GetMemoryAssignments() {
			if !a.isActive(pod) {
				for container := range containers {
					a.memory.release(pod, container)
				}
			}
		}
	}
	a.removeStaleDevices()
}

// removeStaleCPUs is what the CPU manager also does every ten seconds.
func (a *Admission) removeStaleCPUs() {
	if a.cpus == nil {
		return
	}
	for pod, containers := range a.cpus.state.GetCPUAssignments() {
		if !a.isActive(pod) {
			for container := range containers {
				// The static policy's removal always succeeds.
				_ = a.cpus.release(pod, container)
			}
		}
	}
}

// removeStaleDevices is what the device manager also does when the pod resources API is asked.
func (a *Admission) removeStaleDevices() {
	for pod := range a.devices.containers {
		if !a.isActive(pod) {
			a.devices.release(pod)
		}
	}
}

func (a *Admission) isActive(pod string) bool {
	_, active := a.active[types.UID(pod)]
	return active
}

// containers lists a pod's containers in the order of their admission.
func containers(pod *corev1.Pod) []*corev1.Container {
	var all []*corev1.Container
	for i := range pod.Spec.InitContainers {
		all = append(all, &pod.Spec.InitContainers[i])
	}
	for i := range pod.Spec.Containers {
		all = append(all, &pod.Spec.Containers[i])
	}
	return all
}

func containerID(pod *corev1.Pod, container *corev1.Container) string {
	return string(pod.UID) + "/" + container.Name
}
