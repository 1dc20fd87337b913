package noderuntime

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"topology-webhook.dev/tests/cluster/controlplane/kubelets"
)

const (
	killed  = 137 // 128 + SIGKILL, as shells count
	pathEnd = "images"
)

// containerRuntime keeps the sandboxes and containers of a machine in memory, so that they outlive the kubelet. A
// container runs from its start until it is stopped, or for the time that an annotation of its pod names.
//
// The unimplemented methods are those that a kubelet needs for exec, logs, checkpoints and events alone.
type containerRuntime struct {
	cri.UnimplementedRuntimeServiceServer
	cri.UnimplementedImageServiceServer
	node       string
	journal    *kubelets.Journal
	mutex      sync.Mutex
	number     int
	sandboxes  map[string]*cri.PodSandboxStatus
	containers map[string]*container
}

type container struct {
	sandbox *cri.PodSandboxStatus
	status  *cri.ContainerStatus
	ending  *time.Timer
}

// serveRuntime listens in the machine's folder and serves until the program ends.
func serveRuntime(m machine, journal *kubelets.Journal) error {
	// The kubelet asks how full the file system of this folder is.
	if err := os.MkdirAll(filepath.Join(m.Name, pathEnd), 0o755); err != nil {
		return err
	}
	listener, err := net.Listen("unix", filepath.Join(m.Name, runtimeSocket))
	if err != nil {
		return err
	}
	runtime := &containerRuntime{
		node: m.Name, journal: journal,
		sandboxes: map[string]*cri.PodSandboxStatus{}, containers: map[string]*container{},
	}
	server := grpc.NewServer()
	cri.RegisterRuntimeServiceServer(server, runtime)
	cri.RegisterImageServiceServer(server, runtime)
	go func() { _ = server.Serve(listener) }()
	return nil
}

// newID: the mutex is held.
func (r *containerRuntime) newID() string {
	r.number++
	return fmt.Sprintf("%s-%d", r.node, r.number)
}

func (r *containerRuntime) Version(context.Context, *cri.VersionRequest) (*cri.VersionResponse, error) {
	return &cri.VersionResponse{
		Version: "0.1.0", RuntimeName: "node-runtime", RuntimeVersion: "1.0.0", RuntimeApiVersion: "v1",
	}, nil
}

func (r *containerRuntime) Status(context.Context, *cri.StatusRequest) (*cri.StatusResponse, error) {
	return &cri.StatusResponse{Status: &cri.RuntimeStatus{Conditions: []*cri.RuntimeCondition{
		{Type: cri.RuntimeReady, Status: true}, {Type: cri.NetworkReady, Status: true},
	}}}, nil
}

func (r *containerRuntime) RuntimeConfig(context.Context, *cri.RuntimeConfigRequest) (*cri.RuntimeConfigResponse, error) {
	return &cri.RuntimeConfigResponse{
		Linux: &cri.LinuxRuntimeConfiguration{CgroupDriver: cri.CgroupDriver_CGROUPFS},
	}, nil
}

func (r *containerRuntime) UpdateRuntimeConfig(context.Context, *cri.UpdateRuntimeConfigRequest) (*cri.UpdateRuntimeConfigResponse, error) {
	return &cri.UpdateRuntimeConfigResponse{}, nil
}

func (r *containerRuntime) RunPodSandbox(_ context.Context, request *cri.RunPodSandboxRequest) (*cri.RunPodSandboxResponse, error) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	config, id := request.Config, r.newID()
	r.sandboxes[id] = &cri.PodSandboxStatus{
		Id: id, Metadata: config.Metadata, State: cri.PodSandboxState_SANDBOX_READY, CreatedAt: time.Now().UnixNano(),
		// Nothing listens there; a status needs an address to be ready.
		Network: &cri.PodSandboxNetworkStatus{Ip: fmt.Sprintf("10.244.%d.%d", r.number/250%250, r.number%250+1)},
		Linux: &cri.LinuxPodSandboxStatus{Namespaces: &cri.Namespace{
			Options: config.GetLinux().GetSecurityContext().GetNamespaceOptions(),
		}},
		Labels: config.Labels, Annotations: config.Annotations, RuntimeHandler: request.RuntimeHandler,
	}
	return &cri.RunPodSandboxResponse{PodSandboxId: id}, nil
}

func (r *containerRuntime) StopPodSandbox(_ context.Context, request *cri.StopPodSandboxRequest) (*cri.StopPodSandboxResponse, error) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if sandbox, there := r.sandboxes[request.PodSandboxId]; there {
		sandbox.State = cri.PodSandboxState_SANDBOX_NOTREADY
		for _, each := range r.containers {
			if each.sandbox == sandbox {
				each.end(killed)
			}
		}
	}
	return &cri.StopPodSandboxResponse{}, nil
}

func (r *containerRuntime) RemovePodSandbox(_ context.Context, request *cri.RemovePodSandboxRequest) (*cri.RemovePodSandboxResponse, error) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	delete(r.sandboxes, request.PodSandboxId)
	for id, each := range r.containers {
		if each.sandbox.Id == request.PodSandboxId {
			delete(r.containers, id)
		}
	}
	return &cri.RemovePodSandboxResponse{}, nil
}

func (r *containerRuntime) PodSandboxStatus(_ context.Context, request *cri.PodSandboxStatusRequest) (*cri.PodSandboxStatusResponse, error) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	sandbox, there := r.sandboxes[request.PodSandboxId]
	if !there {
		return nil, status.Errorf(codes.NotFound, "no sandbox %s", request.PodSandboxId)
	}
	// A copy: the answer is written to the wire without the mutex.
	return &cri.PodSandboxStatusResponse{Status: &cri.PodSandboxStatus{
		Id: sandbox.Id, Metadata: sandbox.Metadata, State: sandbox.State, CreatedAt: sandbox.CreatedAt,
		Network: sandbox.Network, Linux: sandbox.Linux, Labels: sandbox.Labels, Annotations: sandbox.Annotations,
		RuntimeHandler: sandbox.RuntimeHandler,
	}}, nil
}

func (r *containerRuntime) ListPodSandbox(_ context.Context, request *cri.ListPodSandboxRequest) (*cri.ListPodSandboxResponse, error) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	filter, answer := request.GetFilter(), &cri.ListPodSandboxResponse{}
	for id, each := range r.sandboxes {
		if state := filter.GetState(); filter.GetId() != "" && filter.GetId() != id ||
			state != nil && state.State != each.State || !matches(each.Labels, filter.GetLabelSelector()) {
			continue
		}
		answer.Items = append(answer.Items, &cri.PodSandbox{
			Id: id, Metadata: each.Metadata, State: each.State, CreatedAt: each.CreatedAt,
			Labels: each.Labels, Annotations: each.Annotations, RuntimeHandler: each.RuntimeHandler,
		})
	}
	return answer, nil
}

func (r *containerRuntime) CreateContainer(_ context.Context, request *cri.CreateContainerRequest) (*cri.CreateContainerResponse, error) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	sandbox, there := r.sandboxes[request.PodSandboxId]
	if !there {
		return nil, status.Errorf(codes.NotFound, "no sandbox %s", request.PodSandboxId)
	}
	config, id := request.Config, r.newID()
	resources := config.GetLinux().GetResources()
	r.containers[id] = &container{sandbox: sandbox, status: &cri.ContainerStatus{
		Id: id, Metadata: config.Metadata, State: cri.ContainerState_CONTAINER_CREATED, CreatedAt: time.Now().UnixNano(),
		Image: config.Image, ImageRef: config.GetImage().GetImage(), ImageId: config.GetImage().GetImage(),
		Labels: config.Labels, Annotations: config.Annotations, Mounts: config.Mounts,
		Resources: &cri.ContainerResources{Linux: resources},
		LogPath:   filepath.Join(request.GetSandboxConfig().GetLogDirectory(), config.LogPath),
	}}
	pod, name := sandbox.Metadata, config.GetMetadata().GetName()
	fields := given(r.node, pod.Uid, name)
	fields["node"], fields["pod"], fields["uid"] = r.node, pod.Namespace+"/"+pod.Name, pod.Uid
	fields["container"], fields["cpusetMems"] = name, resources.GetCpusetMems()
	fields["devices"] = devicesOf(config.Envs)
	r.journal.Write("created", fields)
	return &cri.CreateContainerResponse{ContainerId: id}, nil
}

func (r *containerRuntime) StartContainer(_ context.Context, request *cri.StartContainerRequest) (*cri.StartContainerResponse, error) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	each, there := r.containers[request.ContainerId]
	if !there {
		return nil, status.Errorf(codes.NotFound, "no container %s", request.ContainerId)
	}
	each.status.State, each.status.StartedAt = cri.ContainerState_CONTAINER_RUNNING, time.Now().UnixNano()
	if seconds, err := strconv.ParseFloat(each.runSeconds(), 64); err == nil {
		each.ending = time.AfterFunc(time.Duration(seconds*float64(time.Second)), func() {
			r.mutex.Lock()
			defer r.mutex.Unlock()
			each.end(0)
		})
	}
	return &cri.StartContainerResponse{}, nil
}

// runSeconds is how long the container runs. Ordinary init containers end at once; the kubelet tells which ones are by
// no field, so that their names begin with `init`.
func (c *container) runSeconds() string {
	if strings.HasPrefix(c.status.GetMetadata().GetName(), "init") {
		return "0"
	}
	return c.sandbox.Annotations[kubelets.RunSeconds]
}

// end: the runtime's mutex is held.
func (c *container) end(code int32) {
	if c.status.State == cri.ContainerState_CONTAINER_EXITED {
		return
	}
	if c.ending != nil {
		c.ending.Stop()
	}
	c.status.State, c.status.FinishedAt, c.status.ExitCode = cri.ContainerState_CONTAINER_EXITED, time.Now().UnixNano(), code
	c.status.Reason = "Completed"
	if code != 0 {
		c.status.Reason = "Error"
	}
}

func (r *containerRuntime) StopContainer(_ context.Context, request *cri.StopContainerRequest) (*cri.StopContainerResponse, error) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if each, there := r.containers[request.ContainerId]; there {
		each.end(killed)
	}
	return &cri.StopContainerResponse{}, nil
}

func (r *containerRuntime) RemoveContainer(_ context.Context, request *cri.RemoveContainerRequest) (*cri.RemoveContainerResponse, error) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if each, there := r.containers[request.ContainerId]; there {
		each.end(killed)
		delete(r.containers, request.ContainerId)
	}
	return &cri.RemoveContainerResponse{}, nil
}

func (r *containerRuntime) ListContainers(_ context.Context, request *cri.ListContainersRequest) (*cri.ListContainersResponse, error) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	filter, answer := request.GetFilter(), &cri.ListContainersResponse{}
	for id, each := range r.containers {
		if state := filter.GetState(); filter.GetId() != "" && filter.GetId() != id ||
			filter.GetPodSandboxId() != "" && filter.GetPodSandboxId() != each.sandbox.Id ||
			state != nil && state.State != each.status.State || !matches(each.status.Labels, filter.GetLabelSelector()) {
			continue
		}
		answer.Containers = append(answer.Containers, &cri.Container{
			Id: id, PodSandboxId: each.sandbox.Id, Metadata: each.status.Metadata, Image: each.status.Image,
			ImageRef: each.status.ImageRef, ImageId: each.status.ImageId, State: each.status.State,
			CreatedAt: each.status.CreatedAt, Labels: each.status.Labels, Annotations: each.status.Annotations,
		})
	}
	return answer, nil
}

func (r *containerRuntime) ContainerStatus(_ context.Context, request *cri.ContainerStatusRequest) (*cri.ContainerStatusResponse, error) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	each, there := r.containers[request.ContainerId]
	if !there {
		return nil, status.Errorf(codes.NotFound, "no container %s", request.ContainerId)
	}
	now := each.status // a copy: the answer is written to the wire without the mutex
	return &cri.ContainerStatusResponse{Status: &cri.ContainerStatus{
		Id: now.Id, Metadata: now.Metadata, State: now.State, CreatedAt: now.CreatedAt, StartedAt: now.StartedAt,
		FinishedAt: now.FinishedAt, ExitCode: now.ExitCode, Image: now.Image, ImageRef: now.ImageRef, ImageId: now.ImageId,
		Reason: now.Reason, Labels: now.Labels, Annotations: now.Annotations, Mounts: now.Mounts, LogPath: now.LogPath,
		Resources: now.Resources,
	}}, nil
}

// UpdateContainerResources changes what is given, as runtimes do: what is zero stays. The CPU manager sends the shared
// pool to the containers in it.
func (r *containerRuntime) UpdateContainerResources(_ context.Context, request *cri.UpdateContainerResourcesRequest) (*cri.UpdateContainerResourcesResponse, error) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	each, there := r.containers[request.ContainerId]
	if change := request.GetLinux(); there && change != nil {
		old := each.status.GetResources().GetLinux()
		each.status.Resources = &cri.ContainerResources{Linux: &cri.LinuxContainerResources{
			CpuPeriod:          either(change.CpuPeriod, old.GetCpuPeriod()),
			CpuQuota:           either(change.CpuQuota, old.GetCpuQuota()),
			CpuShares:          either(change.CpuShares, old.GetCpuShares()),
			MemoryLimitInBytes: either(change.MemoryLimitInBytes, old.GetMemoryLimitInBytes()),
			OomScoreAdj:        either(change.OomScoreAdj, old.GetOomScoreAdj()),
			CpusetCpus:         either(change.CpusetCpus, old.GetCpusetCpus()),
			CpusetMems:         either(change.CpusetMems, old.GetCpusetMems()),
			HugepageLimits:     old.GetHugepageLimits(),
		}}
	}
	return &cri.UpdateContainerResourcesResponse{}, nil
}

func (r *containerRuntime) UpdatePodSandboxResources(context.Context, *cri.UpdatePodSandboxResourcesRequest) (*cri.UpdatePodSandboxResourcesResponse, error) {
	return &cri.UpdatePodSandboxResourcesResponse{}, nil
}

func (r *containerRuntime) ListContainerStats(context.Context, *cri.ListContainerStatsRequest) (*cri.ListContainerStatsResponse, error) {
	return &cri.ListContainerStatsResponse{}, nil
}

func (r *containerRuntime) ListPodSandboxStats(context.Context, *cri.ListPodSandboxStatsRequest) (*cri.ListPodSandboxStatsResponse, error) {
	return &cri.ListPodSandboxStatsResponse{}, nil
}

func (r *containerRuntime) ListImages(context.Context, *cri.ListImagesRequest) (*cri.ListImagesResponse, error) {
	return &cri.ListImagesResponse{}, nil
}

// ImageStatus: every image is there already.
func (r *containerRuntime) ImageStatus(_ context.Context, request *cri.ImageStatusRequest) (*cri.ImageStatusResponse, error) {
	name := request.GetImage().GetImage()
	return &cri.ImageStatusResponse{Image: &cri.Image{Id: name, RepoTags: []string{name}, Size: 1}}, nil
}

func (r *containerRuntime) PullImage(_ context.Context, request *cri.PullImageRequest) (*cri.PullImageResponse, error) {
	return &cri.PullImageResponse{ImageRef: request.GetImage().GetImage()}, nil
}

func (r *containerRuntime) ImageFsInfo(context.Context, *cri.ImageFsInfoRequest) (*cri.ImageFsInfoResponse, error) {
	usage := []*cri.FilesystemUsage{{
		Timestamp: time.Now().UnixNano(),
		FsId:      &cri.FilesystemIdentifier{Mountpoint: filepath.Join("/var/lib/kubelet", pathEnd)},
		UsedBytes: &cri.UInt64Value{Value: 1}, InodesUsed: &cri.UInt64Value{Value: 1},
	}}
	return &cri.ImageFsInfoResponse{ImageFilesystems: usage, ContainerFilesystems: usage}, nil
}

func matches(labels, selector map[string]string) bool {
	for key, value := range selector {
		if labels[key] != value {
			return false
		}
	}
	return true
}

func either[T comparable](first, second T) T {
	var zero T
	if first != zero {
		return first
	}
	return second
}
