package kubelets

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"time"

	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	podresourcesapi "k8s.io/kubelet/pkg/apis/podresources/v1"
	"k8s.io/kubernetes/pkg/kubelet/apis/podresources"
	"k8s.io/kubernetes/pkg/kubelet/checkpointmanager"
	cpustate "k8s.io/kubernetes/pkg/kubelet/cm/cpumanager/state"
	memorystate "k8s.io/kubernetes/pkg/kubelet/cm/memorymanager/state"
)

// The kubelet's pod resources API (podresources/v1): its own server, with what the managers of a simulated machine hold.
// Exporters of NodeResourceTopologies read it, and watch the checkpoint of the CPU manager for changes.
//
// In the state folder of a machine: pod-resources/kubelet.sock, cpu_manager_state, memory_manager_state, device-plugins/.
//
// Source: pkg/kubelet/server, ListenAndServePodResources; pkg/kubelet/cm, containerManagerImpl.

const (
	cpuCheckpoint    = "cpu_manager_state"
	memoryCheckpoint = "memory_manager_state"
	// A kubelet's own default of cpuManagerReconcilePeriod.
	reconcilePeriod = 10 * time.Second
)

// servePodResources serves the pod resources API in a machine's state folder until the program ends.
func (k *kubelet) servePodResources(ctx context.Context, folder string) error {
	for _, below := range []string{"pod-resources", "device-plugins"} {
		if err := os.MkdirAll(filepath.Join(folder, below), 0o755); err != nil {
			return err
		}
	}
	k.state = folder
	k.writeCheckpoints()
	listener, err := net.Listen("unix", filepath.Join(folder, "pod-resources", "kubelet.sock"))
	if err != nil {
		return err
	}
	provider := &provider{k}
	server := grpc.NewServer()
	podresourcesapi.RegisterPodResourcesListerServer(server, podresources.NewV1PodResourcesServer(ctx, providers(provider)))
	go func() { _ = server.Serve(listener) }()
	go k.reconcile()
	return nil
}

// reconcile lets the CPU manager forget from time to time, until the program ends, what ended.
func (k *kubelet) reconcile() {
	ticks := time.NewTicker(reconcilePeriod)
	defer ticks.Stop()
	for {
		select {
		case <-k.ctx.Done():
			return
		case <-ticks.C:
			k.work.add(func() {
				k.admission.removeStaleCPUs()
				k.writeCheckpoints()
			})
		}
	}
}

// writeCheckpoints writes the files that the CPU and the memory manager write after each change of their state: which
// container has which CPUs, and which memory.
//
// Source: pkg/kubelet/cm/cpumanager/state and memorymanager/state, stateCheckpoint.storeState.
func (k *kubelet) writeCheckpoints() {
	if k.state == "" {
		return
	}
	for name, content := range map[string]checkpointmanager.Checkpoint{
		cpuCheckpoint: k.admission.cpuCheckpoint(), memoryCheckpoint: k.admission.memoryCheckpoint(),
	} {
		text, err := content.MarshalCheckpoint()
		if err == nil && k.files[name] != string(text) { // exporters are told of a change
			err = replaceFile(filepath.Join(k.state, name), text)
			k.files[name] = string(text)
		}
		if err != nil {
			k.journal.Write("error", object{"node": k.admission.machine.Name, "message": err.Error()})
		}
	}
}

// replaceFile writes a file that readers see as it was or as it is now, never in part.
//
// Source: pkg/kubelet/util/store/filestore.go, writeFile; without its fsync, as no machine here loses power.
func replaceFile(path string, text []byte) error {
	temporary := path + ".new"
	if err := os.WriteFile(temporary, text, 0o644); err != nil {
		return err
	}
	return os.Rename(temporary, path)
}

func (a *Admission) cpuCheckpoint() *cpustate.CPUManagerCheckpointV2 {
	content := &cpustate.CPUManagerCheckpointV2{PolicyName: a.machine.CPUPolicy}
	if a.cpus == nil {
		return content
	}
	content.DefaultCPUSet = a.cpus.state.GetDefaultCPUSet().String()
	content.Entries = map[string]map[string]string{}
	for pod, containers := range a.cpus.state.GetCPUAssignments() {
		content.Entries[pod] = map[string]string{}
		for container, cpus := range containers {
			content.Entries[pod][container] = cpus.String()
		}
	}
	return content
}

func (a *Admission) memoryCheckpoint() *memorystate.MemoryManagerCheckpointV1 {
	content := &memorystate.MemoryManagerCheckpointV1{PolicyName: a.machine.MemoryPolicy}
	if a.memory != nil {
		content.MachineState = a.memory.state.GetMachineState()
		content.Entries = a.memory.state.GetMemoryAssignments()
	}
	return content
}

// provider answers the API's server, in the form of 1.36. A question waits for its turn in `work`: the managers are not safe otherwise.
type provider struct{ kubelet *kubelet }

func ask[T any](p *provider, read func(*Admission) T) T {
	answer := make(chan T, 1)
	p.kubelet.work.add(func() { answer <- read(p.kubelet.admission) })
	return <-answer
}

func (p *provider) GetActivePods() []*corev1.Pod {
	return ask(p, func(a *Admission) []*corev1.Pod { return a.activePods(func(*corev1.Pod) bool { return true }) })
}

func (p *provider) GetPods() []*corev1.Pod { return p.GetActivePods() }

func (p *provider) GetPodByName(namespace, name string) (*corev1.Pod, bool) {
	for _, pod := range p.GetActivePods() {
		if pod.Namespace == namespace && pod.Name == name {
			return pod, true
		}
	}
	return nil, false
}

func (p *provider) UpdateAllocatedDevices() {}

func (p *provider) GetDevices(podUID, containerName string) []*podresourcesapi.ContainerDevices {
	return ask(p, func(a *Admission) []*podresourcesapi.ContainerDevices {
		var found []*podresourcesapi.ContainerDevices
		for resource, devices := range a.devices.containers[podUID][containerName] {
			for device := range devices {
				found = append(found, one(resource, device, a.machine.Devices[resource][device]))
			}
		}
		return found
	})
}

func (p *provider) GetAllocatableDevices() []*podresourcesapi.ContainerDevices {
	var found []*podresourcesapi.ContainerDevices
	for resource, devices := range p.kubelet.admission.machine.Devices {
		for device, near := range devices {
			found = append(found, one(resource, device, near))
		}
	}
	return found
}

func (p *provider) GetCPUs(podUID, containerName string) []int64 {
	return ask(p, func(a *Admission) []int64 {
		if a.cpus == nil {
			return nil
		}
		cpus, _ := a.cpus.state.GetCPUSet(podUID, containerName)
		return numbers(cpus.List())
	})
}

func (p *provider) GetAllocatableCPUs() []int64 {
	return ask(p, func(a *Admission) []int64 {
		if a.cpus == nil {
			return nil // none can be given to a container alone
		}
		reserved, _ := a.machine.reserved() // NewAdmission read it already
		return numbers(a.cpuTopology.CPUDetails.CPUs().Difference(reserved).List())
	})
}

func (p *provider) GetMemory(podUID, containerName string) []*podresourcesapi.ContainerMemory {
	return ask(p, func(a *Admission) []*podresourcesapi.ContainerMemory {
		if a.memory == nil {
			return nil
		}
		return blocks(a.memory.state.GetMemoryBlocks(podUID, containerName))
	})
}

func (p *provider) GetAllocatableMemory() []*podresourcesapi.ContainerMemory {
	return ask(p, func(a *Admission) []*podresourcesapi.ContainerMemory {
		if a.memory == nil {
			return nil
		}
		return blocks(a.memory.policy.GetAllocatableMemory(a.memory.state))
	})
}

func (p *provider) GetDynamicResources(*corev1.Pod, *corev1.Container) []*podresourcesapi.DynamicResource {
	return nil
}

// one is a device with its NUMA nodes.
func one(resource, device string, near []int) *podresourcesapi.ContainerDevices {
	return &podresourcesapi.ContainerDevices{
		ResourceName: resource, DeviceIds: []string{device}, Topology: nodes(near),
	}
}

func blocks(all []memorystate.Block) []*podresourcesapi.ContainerMemory {
	var found []*podresourcesapi.ContainerMemory
	for _, block := range all {
		found = append(found, &podresourcesapi.ContainerMemory{
			MemoryType: string(block.Type), Size: block.Size, Topology: nodes(block.NUMAAffinity),
		})
	}
	return found
}

func nodes(ids []int) *podresourcesapi.TopologyInfo {
	topology := &podresourcesapi.TopologyInfo{}
	for _, id := range ids {
		topology.Nodes = append(topology.Nodes, &podresourcesapi.NUMANode{ID: int64(id)})
	}
	return topology
}

func numbers(ids []int) []int64 {
	found := make([]int64, len(ids))
	for i, id := range ids {
		found[i] = int64(id)
	}
	return found
}
