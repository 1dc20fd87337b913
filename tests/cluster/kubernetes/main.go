// Command kubernetes is the control plane of one Kubernetes version in one file: its name (argv[0]) picks the component.
//
// Every folder beside this file is a Go module that pins a version and links to this source. All else that the tests
// run, etcd, kubectl, helm and the simulated kubelets, comes from ../controlplane, whatever the version.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	_ "time/tzdata" // CronJob time zones, as the upstream binaries have them

	_ "k8s.io/component-base/logs/json/register"          // --logging-format=json
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // rest_client_* metrics
	_ "k8s.io/component-base/metrics/prometheus/version"  // kubernetes_build_info

	"k8s.io/component-base/cli"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
)

func main() {
	switch name := filepath.Base(os.Args[0]); name {
	case "kube-apiserver":
		os.Exit(cli.Run(apiserver.NewAPIServerCommand()))
	case "kube-controller-manager":
		os.Exit(cli.Run(controllermanager.NewControllerManagerCommand()))
	case "kube-scheduler":
		os.Exit(cli.Run(scheduler.NewSchedulerCommand()))
	default:
		fmt.Fprintf(os.Stderr, "%s is no component: call this by the name of one\n", name)
		os.Exit(2)
	}
}
