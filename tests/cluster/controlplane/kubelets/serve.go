package kubelets

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/tools/cache"
)

// Nodes registered at the same time: enough to keep the API server busy.
const registrations = 16

type options struct {
	kubeconfig string
	machines   string
	state      string
	manifests  string
	publisher  Publisher
	lag        time.Duration
	seed       int64
}

// serve plays the kubelets until SIGTERM.
//
// 1. Every machine of the file publishes its NodeResourceTopology and registers its Node; then {"event": "ready"}.
// 2. One watch of all bound pods hands each to its node's kubelet.
// 3. On SIGTERM a summary is written. Nodes stay, as those of kubelets that stop.
func serve(flags *flag.FlagSet, arguments []string) error {
	options, err := parse(flags, arguments)
	if err != nil {
		return err
	}
	machines, err := readMachines(options.machines)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	journal := NewJournal(os.Stdout)
	api, err := newAPI(options.kubeconfig, journal)
	if err != nil {
		return err
	}
	fleet, err := start(ctx, api, machines, options)
	if err != nil {
		return err
	}
	synced := watch(ctx, api, fleet)
	if !cache.WaitForCacheSync(ctx.Done(), synced) {
		return ctx.Err()
	}
	journal.Write("ready", object{"nodes": len(fleet)})
	<-ctx.Done()
	journal.Summary()
	return nil
}

func parse(flags *flag.FlagSet, arguments []string) (*options, error) {
	options := &options{}
	publisher := flags.String("publisher", string(RTE), "whose form the NodeResourceTopology has: rte, nfd or koordlet; none: do not publish any")
	lag := flags.Float64("lag", 0, "seconds from a change to the NodeResourceTopology that shows it, on average")
	flags.StringVar(&options.kubeconfig, "kubeconfig", "", "how to reach the API server")
	flags.StringVar(&options.machines, "machines", "", "file with a JSON list of machines")
	flags.StringVar(&options.state, "state", "", "folder in which each machine has one with its kubelet's files and sockets")
	flags.StringVar(&options.manifests, "manifests", "", "folder in which each machine has one with its static pods, as JSON")
	flags.Int64Var(&options.seed, "seed", 0, "of what is random: each lag, NFD's order of zones")
	if err := flags.Parse(arguments); err != nil {
		return nil, err
	}
	var err error
	options.publisher, err = ParsePublisher(*publisher)
	options.lag = time.Duration(*lag * float64(time.Second))
	return options, err
}

func readMachines(file string) ([]Machine, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var machines []Machine
	if err := json.Unmarshal(text, &machines); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return machines, nil
}

// start registers every machine.
func start(ctx context.Context, api *api, machines []Machine, options *options) (map[string]*kubelet, error) {
	fleet := map[string]*kubelet{}
	var mutex sync.Mutex
	var failed error
	var wait sync.WaitGroup
	slots := make(chan struct{}, registrations)
	for number, machine := range machines {
		wait.Add(1)
		slots <- struct{}{}
		go func() {
			defer func() { <-slots; wait.Done() }()
			kubelet, err := newKubelet(ctx, api, machine, options, options.seed+int64(number))
			mutex.Lock()
			defer mutex.Unlock()
			if err != nil {
				failed = fmt.Errorf("%s: %w", machine.Name, err)
			}
			fleet[machine.Name] = kubelet
		}()
	}
	wait.Wait()
	return fleet, failed
}

// watch hands every bound pod to the kubelet of its node, in the order the API server tells of them.
func watch(ctx context.Context, api *api, fleet map[string]*kubelet) cache.InformerSynced {
	bound := cache.NewListWatchFromClient(
		api.core.CoreV1().RESTClient(), "pods", metav1.NamespaceAll,
		fields.OneTermNotEqualSelector("spec.nodeName", ""))
	to := func(pod *corev1.Pod, what func(*kubelet, *corev1.Pod)) {
		if kubelet, ours := fleet[pod.Spec.NodeName]; ours {
			kubelet.work.add(func() { what(kubelet, pod) })
		}
	}
	_, controller := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: bound,
		ObjectType:    &corev1.Pod{},
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc:    func(added any) { to(added.(*corev1.Pod), (*kubelet).sync) },
			UpdateFunc: func(_, now any) { to(now.(*corev1.Pod), (*kubelet).sync) },
			DeleteFunc: func(gone any) {
				if unknown, missed := gone.(cache.DeletedFinalStateUnknown); missed {
					gone = unknown.Obj
				}
				to(gone.(*corev1.Pod), (*kubelet).forget)
			},
		},
	})
	go controller.RunWithContext(ctx)
	return controller.HasSynced
}
