// Command cert-manager is cert-manager's three programs in one file; the first argument picks one: `controller`,
// `cainjector` or `webhook`. They read KUBECONFIG and end with SIGTERM.
//
// Source: cert-manager's cmd/controller, cmd/cainjector and cmd/webhook. Left out: most flags, leader election, metrics, and
// the issuers that call a server elsewhere (ACME, Vault, Venafi), which are most of the code.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	logf "github.com/cert-manager/cert-manager/pkg/logs"
	utilfeature "github.com/cert-manager/cert-manager/pkg/util/feature"
)

var programs = map[string]func(ctx context.Context) error{
	"cainjector": cainjector,
	"controller": controllers,
	"webhook":    webhook,
}

func main() {
	name := strings.Join(os.Args[1:min(2, len(os.Args))], "")
	run, ok := programs[name]
	if !ok {
		fmt.Fprintln(os.Stderr, "usage: cert-manager controller|cainjector|webhook [FLAG...]")
		os.Exit(2)
	}
	flags.Parse(os.Args[2:])
	if err := utilfeature.DefaultMutableFeatureGate.Set(*gates); err != nil {
		fmt.Fprintln(os.Stderr, "--feature-gates:", err)
		os.Exit(2)
	}
	logf.InitLogs()
	ctrl.SetLogger(klog.Background())
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(logf.NewContext(ctx, logf.Log, name)); err != nil {
		fmt.Fprintf(os.Stderr, "cert-manager %s: %v\n", name, err)
		os.Exit(1)
	}
}

var flags = flag.NewFlagSet("cert-manager", flag.ExitOnError)

var (
	namespace = flags.String("namespace", "cert-manager", "of cert-manager itself")
	port      = flags.Int("port", 0, "of the webhook, on loopback")
	gates     = flags.String("feature-gates", "", "NAME=true or NAME=false, comma-separated")
)
