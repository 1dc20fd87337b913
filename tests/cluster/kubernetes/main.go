// Command kubernetes is the control plane of one Kubernetes version in one file: its name (argv[0]) picks the component.
//
// Every folder beside this file is a Go module that pins a version and links to this source. All else that the tests
// run, etcd, kubectl, helm, the simulated kubelets and what real ones find on a machine, comes from ../controlplane, whatever the version.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	_ "time/tzdata" // CronJob time zones, as the upstream binaries have them

	_ "k8s.io/component-base/logs/json/register"          // --logging-format=json
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // rest_client_* metrics
	_ "k8s.io/component-base/metrics/prometheus/version"  // kubernetes_build_info

	"k8s.io/component-base/cli"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

func main() {
	switch name := filepath.Base(os.Args[0]); name {
	case "kube-apiserver":
		os.Exit(cli.Run(apiserver.NewAPIServerCommand()))
	case "kube-controller-manager":
		os.Exit(cli.Run(controllermanager.NewControllerManagerCommand()))
	case "kube-scheduler":
		os.Exit(cli.Run(scheduler.NewSchedulerCommand()))
	case "kubelet":
		os.Exit(cli.Run(kubeletCommand(kubelet.NewKubeletCommand)))
	default:
		fmt.Fprintf(os.Stderr, "%s is no component: call this by the name of one\n", name)
		os.Exit(2)
	}
}

// kubeletCommand calls what makes the command: until 1.32 it takes no context.
func kubeletCommand(make any) *cobra.Command {
	if withoutContext, old := make.(func() *cobra.Command); old {
		return withoutContext()
	}
	return make.(func(context.Context) *cobra.Command)(context.Background())
}
