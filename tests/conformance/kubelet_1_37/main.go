// Command kubelet_1_37 is the simulated kubelet with the kubelet's own code of Kubernetes 1.37.
//
// It pins what ../../cluster/kubernetes/1.37 pins, and has the sources of ../../cluster/controlplane/kubelets.
package main

import "topology-webhook.dev/tests/cluster/kubernetes/v1.37/kubelets"

func main() {
	kubelets.Main()
}
