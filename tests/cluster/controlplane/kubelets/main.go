// Package kubelets plays the kubelets of many machines: pods are admitted by the kubelet's own code, and "run" without
// anything behind them.
package kubelets

import (
	"flag"
	"fmt"
	"os"

	"github.com/go-logr/logr"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/klog/v2"
)

// A machine that names an option of an alpha stage has a kubelet with its gate.
const featureGates = "CPUManagerPolicyAlphaOptions=true"

// Main is the program: `kubelets replay`, or `kubelets` with flags.
func Main() {
	klog.SetLogger(logr.Discard()) // the managers log every hint
	err := utilfeature.DefaultMutableFeatureGate.Set(featureGates)
	if err != nil {
		fmt.Fprintln(os.Stderr, "kubelets:", err)
		os.Exit(1)
	}
	if len(os.Args) > 1 && os.Args[1] == "replay" {
		err = Replay(os.Stdin, os.Stdout)
	} else {
		err = serve(flag.NewFlagSet("kubelets", flag.ExitOnError), os.Args[1:])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "kubelets:", err)
		os.Exit(1)
	}
}
