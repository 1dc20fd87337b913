// Command controlplane is a whole Kubernetes control plane in one file: the name it is called by (argv[0], as busybox
// does it) or its first argument picks the component.
//
// One file, because linking dominates a warm build and the components share most of their packages: they are compiled
// and linked once instead of eleven times. The simulated kubelets, the node runtime and the overhead bench's two programs
// are ours; the rest is upstream's.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"

	_ "time/tzdata" // CronJob time zones, as the upstream binaries have them

	_ "k8s.io/client-go/plugin/pkg/client/auth"           // exec and OIDC credentials for kubectl and helm
	_ "k8s.io/component-base/logs/json/register"          // --logging-format=json
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // rest_client_* metrics
	_ "k8s.io/component-base/metrics/prometheus/version"  // kubernetes_build_info

	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"

	"topology-webhook.dev/tests/cluster/controlplane/kubelets"
	"topology-webhook.dev/tests/cluster/controlplane/noderuntime"
	"topology-webhook.dev/tests/cluster/controlplane/overhead"
)

// components maps a program's name to its main, which is called with os.Args[0] being that name.
var components = map[string]func(){
	"etcd":                    func() { etcdmain.Main(os.Args) },
	"helm":                    helm,
	"kube-apiserver":          func() { os.Exit(cli.Run(apiserver.NewAPIServerCommand())) },
	"kube-controller-manager": func() { os.Exit(cli.Run(controllermanager.NewControllerManagerCommand())) },
	"kube-scheduler":          func() { os.Exit(cli.Run(scheduler.NewSchedulerCommand())) },
	"kubectl":                 kubectl,
	"kubelet":                 func() { os.Exit(cli.Run(kubelet.NewKubeletCommand(context.Background()))) },
	"kubelets":                kubelets.Main,
	"node-runtime":            noderuntime.Main,
	"noop-webhook":            overhead.Webhook,
	"pod-load":                overhead.Load,
}

func main() {
	name := filepath.Base(os.Args[0])
	if _, ok := components[name]; !ok && len(os.Args) > 1 {
		os.Args = os.Args[1:]
		name = os.Args[0]
	}
	run, ok := components[name]
	if !ok {
		fmt.Fprintf(os.Stderr, "usage: controlplane COMPONENT [ARGUMENT...]\ncomponents: %s\n", strings.Join(names(), ", "))
		os.Exit(2)
	}
	run()
}

func names() []string {
	var all []string
	for name := range components {
		all = append(all, name)
	}
	sort.Strings(all)
	return all
}
