package noderuntime

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	plugin "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"topology-webhook.dev/tests/cluster/controlplane/kubelets"
)

// A plugin itself is told at once (inotify). This looks for its socket, which a kubelet deletes when it starts.
const socketPeriod = 200 * time.Millisecond

// devicePlugin offers the devices of one resource of one machine.
type devicePlugin struct {
	plugin.UnimplementedDevicePluginServer
	resource string
	devices  []*plugin.Device
	ended    <-chan struct{}
}

// servePlugin registers with the machine's kubelet, and again each time that the kubelet starts.
func servePlugin(
	ctx context.Context, m machine, resource string, devices map[string][]int, journal *kubelets.Journal,
) {
	folder := filepath.Join(m.Name, "device-plugins")
	name := strings.ReplaceAll(resource, "/", "_") + ".sock"
	socket := filepath.Join(folder, name)
	offered := listed(devices)
	for ctx.Err() == nil {
		served, end := context.WithCancel(ctx)
		_ = os.Remove(socket)
		if listener, err := net.Listen("unix", socket); err == nil {
			server := grpc.NewServer()
			plugin.RegisterDevicePluginServer(server, &devicePlugin{
				resource: resource, devices: offered, ended: served.Done(),
			})
			go func() { _ = server.Serve(listener) }()
			if register(ctx, filepath.Join(folder, "kubelet.sock"), name, resource) == nil {
				journal.Write("registered", map[string]any{"node": m.Name, "resource": resource})
				for ctx.Err() == nil && exists(socket) {
					time.Sleep(socketPeriod)
				}
			}
			end() // before the server waits for its streams
			server.Stop()
		}
		end()
		time.Sleep(socketPeriod)
	}
}

// listed are the devices in the order of their ids.
func listed(devices map[string][]int) []*plugin.Device {
	var list []*plugin.Device
	for id, numa := range devices {
		device := &plugin.Device{ID: id, Health: plugin.Healthy}
		if len(numa) > 0 {
			device.Topology = &plugin.TopologyInfo{}
		}
		for _, each := range numa {
			device.Topology.Nodes = append(device.Topology.Nodes, &plugin.NUMANode{ID: int64(each)})
		}
		list = append(list, device)
	}
	slices.SortFunc(list, func(one, other *plugin.Device) int { return strings.Compare(one.ID, other.ID) })
	return list
}

func register(ctx context.Context, kubelet, endpoint, resource string) error {
	connection, err := grpc.NewClient("unix:"+kubelet, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer connection.Close()
	ctx, cancel := context.WithTimeout(ctx, 10*socketPeriod)
	defer cancel()
	_, err = plugin.NewRegistrationClient(connection).Register(ctx, &plugin.RegisterRequest{
		Version: plugin.Version, Endpoint: endpoint, ResourceName: resource, Options: &plugin.DevicePluginOptions{},
	})
	return err
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

func (p *devicePlugin) GetDevicePluginOptions(context.Context, *plugin.Empty) (*plugin.DevicePluginOptions, error) {
	return &plugin.DevicePluginOptions{}, nil
}

func (p *devicePlugin) ListAndWatch(_ *plugin.Empty, stream grpc.ServerStreamingServer[plugin.ListAndWatchResponse]) error {
	if err := stream.Send(&plugin.ListAndWatchResponse{Devices: p.devices}); err != nil {
		return err
	}
	select {
	case <-p.ended:
	case <-stream.Context().Done():
	}
	return nil
}

// Allocate tells the runtime, by an environment variable, which devices a container gets.
func (p *devicePlugin) Allocate(_ context.Context, request *plugin.AllocateRequest) (*plugin.AllocateResponse, error) {
	answer := &plugin.AllocateResponse{}
	for _, each := range request.ContainerRequests {
		answer.ContainerResponses = append(answer.ContainerResponses, &plugin.ContainerAllocateResponse{
			Envs: map[string]string{devicesPrefix + p.resource: strings.Join(each.DevicesIds, ",")},
		})
	}
	return answer, nil
}
