package noderuntime

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	resource "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	"k8s.io/dynamic-resource-allocation/resourceslice"

	"topology-webhook.dev/tests/cluster/controlplane/kubelets"
)

// A kubelet creates its Node within seconds; a ResourceSlice has it as its owner.
const nodePeriod = 200 * time.Millisecond

// Each machine has two watches, and each claim is read when it is prepared: the client must not throttle them.
const driverQueriesPerSecond = 1000

// driver is the kubelet plugin of a DRA driver on one machine. Its devices have nothing behind them.
//
// It refuses to prepare a claim with a device that another prepared claim has, as the last line of defence.
type driver struct {
	node, name string
	journal    *kubelets.Journal
	// holders are the prepared claims by device. The helper calls one method at a time.
	holders map[string]types.UID
}

// newClient is a client of the API server for all drivers.
func newClient(kubeconfig string) (kubernetes.Interface, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	config.QPS, config.Burst = driverQueriesPerSecond, driverQueriesPerSecond
	return kubernetes.NewForConfig(config)
}

// serveDriver registers with the machine's kubelet, each time that it starts, and publishes the devices once the
// machine has a Node. A kubelet that starts deletes the ResourceSlices of its Node, and they are published again.
func serveDriver(
	ctx context.Context, m machine, name string, raw json.RawMessage, client kubernetes.Interface,
	journal *kubelets.Journal,
) error {
	var devices []resource.Device
	if err := json.Unmarshal(raw, &devices); err != nil {
		return fmt.Errorf("devices of %s on %s: %w", name, m.Name, err)
	}
	registry, own := filepath.Join(m.Name, "plugins_registry"), filepath.Join(m.Name, "plugins", name)
	for _, folder := range []string{registry, own} {
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return err
		}
	}
	serving := &driver{node: m.Name, name: name, journal: journal, holders: map[string]types.UID{}}
	helper, err := kubeletplugin.Start(ctx, serving,
		kubeletplugin.DriverName(name),
		kubeletplugin.NodeName(m.Name),
		kubeletplugin.KubeClient(client),
		kubeletplugin.RegistrarDirectoryPath(registry),
		// The kubelet is told the path on its machine; here the folder has another one.
		kubeletplugin.PluginDataDirectoryPath(filepath.Join(kubeletplugin.KubeletPluginsDir, name)),
		kubeletplugin.PluginListener(func(_ context.Context, path string) (net.Listener, error) {
			socket := filepath.Join(own, filepath.Base(path))
			_ = os.Remove(socket) // of a program that was killed
			return net.Listen("unix", socket)
		}),
	)
	if err != nil {
		return err
	}
	go func() {
		for {
			if _, err := client.CoreV1().Nodes().Get(ctx, m.Name, metav1.GetOptions{}); err == nil {
				break
			}
			select {
			case <-ctx.Done():
				return
			case <-time.After(nodePeriod):
			}
		}
		pool := resourceslice.Pool{Slices: []resourceslice.Slice{{Devices: devices}}}
		serving.HandleError(ctx, helper.PublishResources(ctx, resourceslice.DriverResources{
			Pools: map[string]resourceslice.Pool{m.Name: pool},
		}), "publish")
	}()
	return nil
}

// PrepareResourceClaims notes which devices a pod gets.
func (d *driver) PrepareResourceClaims(
	_ context.Context, claims []*resource.ResourceClaim,
) (map[types.UID]kubeletplugin.PrepareResult, error) {
	results := map[types.UID]kubeletplugin.PrepareResult{}
	for _, claim := range claims {
		results[claim.UID] = d.prepare(claim)
	}
	return results, nil
}

func (d *driver) prepare(claim *resource.ResourceClaim) kubeletplugin.PrepareResult {
	var prepared []kubeletplugin.Device
	names := []string{}
	for _, each := range claim.Status.Allocation.Devices.Results {
		if each.Driver != d.name {
			continue
		}
		if holder, held := d.holders[each.Device]; held && holder != claim.UID {
			err := fmt.Errorf("device %s is prepared for claim %s already", each.Device, holder)
			d.journal.Write("error", map[string]any{"what": "prepare " + claim.Name, "message": err.Error()})
			return kubeletplugin.PrepareResult{Err: err}
		}
		prepared = append(prepared, kubeletplugin.Device{
			Requests: []string{each.Request}, PoolName: each.Pool, DeviceName: each.Device,
		})
		names = append(names, each.Device)
	}
	for _, each := range names {
		d.holders[each] = claim.UID
	}
	pods := []types.UID{}
	for _, each := range claim.Status.ReservedFor {
		pods = append(pods, each.UID)
	}
	d.journal.Write("prepared", map[string]any{
		"node": d.node, "driver": d.name, "claim": claim.Namespace + "/" + claim.Name, "uid": claim.UID,
		"pods": pods, "devices": names,
	})
	return kubeletplugin.PrepareResult{Devices: prepared}
}

// UnprepareResourceClaims notes that a pod has ended.
func (d *driver) UnprepareResourceClaims(
	_ context.Context, claims []kubeletplugin.NamespacedObject,
) (map[types.UID]error, error) {
	results := map[types.UID]error{}
	for _, claim := range claims {
		results[claim.UID] = nil
		for device, holder := range d.holders {
			if holder == claim.UID {
				delete(d.holders, device)
			}
		}
		d.journal.Write("unprepared", map[string]any{
			"node": d.node, "driver": d.name, "claim": claim.Namespace + "/" + claim.Name, "uid": claim.UID,
		})
	}
	return results, nil
}

// HandleError notes what went wrong in the background.
func (d *driver) HandleError(_ context.Context, err error, what string) {
	if err != nil {
		d.journal.Write("error", map[string]any{"what": d.name + " on " + d.node + ": " + what, "message": err.Error()})
	}
}
