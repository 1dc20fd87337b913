// Package noderuntime is what a real kubelet finds on its machine, for several machines in one process: a container
// runtime (CRI) in which nothing runs, a device plugin for each extended resource, and the kubelet plugins of drivers of
// Dynamic Resource Allocation (DRA).
//
//	node-runtime --machines FILE --kubeconfig FILE
//
// The first is a list of {"name", "devices": {resource: {device id: [NUMA id, ..]}}, "slices": {driver: devices as in a
// ResourceSlice}}. The second is for drivers, and of a user who may do what they do. In the working folder each machine has
// a folder of its name, which is its kubelet's /var/lib/kubelet: the paths of sockets end at 107 bytes, so they are
// relative. stdout is a journal of what the kubelets asked for, one JSON object a line.
package noderuntime

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"

	"topology-webhook.dev/tests/cluster/controlplane/kubelets"
)

const runtimeSocket = "cri.sock"

type machine struct {
	Name string `json:"name"`
	// Devices maps a resource to its devices' ids, and those to the NUMA nodes they are near to (none: no topology).
	Devices map[string]map[string][]int `json:"devices"`
	// Slices maps a driver to its devices, as a ResourceSlice lists them.
	Slices map[string]json.RawMessage `json:"slices"`
}

// Main runs until SIGTERM; os.Args are its name and arguments.
func Main() {
	flags := flag.NewFlagSet(os.Args[0], flag.ExitOnError)
	file := flags.String("machines", "", "file with a JSON list of machines")
	kubeconfig := flags.String("kubeconfig", "", "of the drivers")
	_ = flags.Parse(os.Args[1:])   // it exits
	klog.SetLogger(logr.Discard()) // the drivers log every call
	if err := serve(*file, *kubeconfig); err != nil {
		fmt.Fprintln(os.Stderr, "node-runtime:", err)
		os.Exit(1)
	}
}

func serve(file, kubeconfig string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var machines []machine
	if err := json.Unmarshal(text, &machines); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	journal := kubelets.NewJournal(os.Stdout)
	client, err := newClient(kubeconfig)
	if err != nil {
		return err
	}
	for _, each := range machines {
		if err := serveRuntime(each, journal); err != nil {
			return err
		}
		for resource, devices := range each.Devices {
			go servePlugin(ctx, each, resource, devices, journal)
		}
		for name, devices := range each.Slices {
			if err := serveDriver(ctx, each, name, devices, client, journal); err != nil {
				return err
			}
		}
	}
	journal.Write("ready", map[string]any{"machines": len(machines)})
	<-ctx.Done()
	return nil
}
