// Package noderuntime is what a real kubelet finds on its machine, for several machines in one process: a container
// runtime (CRI) in which nothing runs, and a device plugin for each extended resource.
//
//	node-runtime --machines FILE
//
// FILE is a list of {"name", "devices": {resource: {device id: [NUMA id, ..]}}}. In the working folder each machine has
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

	"topology-webhook.dev/tests/cluster/controlplane/kubelets"
)

const runtimeSocket = "cri.sock"

type machine struct {
	Name string `json:"name"`
	// Devices maps a resource to its devices' ids, and those to the NUMA nodes they are near to (none: no topology).
	Devices map[string]map[string][]int `json:"devices"`
}

// Main runs until SIGTERM; os.Args are its name and arguments.
func Main() {
	flags := flag.NewFlagSet(os.Args[0], flag.ExitOnError)
	file := flags.String("machines", "", "file with a JSON list of machines")
	_ = flags.Parse(os.Args[1:]) // it exits
	if err := serve(*file); err != nil {
		fmt.Fprintln(os.Stderr, "node-runtime:", err)
		os.Exit(1)
	}
}

func serve(file string) error {
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
	for _, each := range machines {
		if err := serveRuntime(each, journal); err != nil {
			return err
		}
		for resource, devices := range each.Devices {
			go servePlugin(ctx, each, resource, devices, journal)
		}
	}
	journal.Write("ready", map[string]any{"machines": len(machines)})
	<-ctx.Done()
	return nil
}
