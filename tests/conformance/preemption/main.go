// Command preemption asks kube-scheduler's own preemption which pods it would end for a pod, and where.
//
// It reads one cluster a line from stdin and prints one answer a line:
//
//	{"nodes": [{"name", "cpu", "pods"}], "pods": [{"name", "node", "cpu", "priority", "app", "start"}],
//	 "budgets": {app: disruptionsAllowed}, "pod": {"cpu", "priority"}}
//	{"node": "", "victims": [name], "violations": 0}
//
// An empty node means that no pods of lower priority help.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"os"
	"time"

	v1 "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	clientsetfake "k8s.io/client-go/kubernetes/fake"
	kubeschedulerconfigv1 "k8s.io/kube-scheduler/config/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	configv1 "k8s.io/kubernetes/pkg/scheduler/apis/config/v1"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	internalqueue "k8s.io/kubernetes/pkg/scheduler/backend/queue"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultbinder"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultpreemption"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/noderesources"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/queuesort"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
	tf "k8s.io/kubernetes/pkg/scheduler/testing/framework"
)

type node struct {
	Name string
	CPU  int64
	Pods int64
}

type pod struct {
	Name     string
	Node     string
	CPU      int64
	Priority int32
	App      string
	Start    int64
}

type cluster struct {
	Nodes   []node
	Pods    []pod
	Budgets map[string]int32
	Pod     pod
}

type answer struct {
	Node       string   `json:"node"`
	Victims    []string `json:"victims"`
	Violations int64    `json:"violations"`
}

func main() {
	metrics.Register()
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<24)
	out := json.NewEncoder(os.Stdout)
	for lines.Scan() {
		var asked cluster
		must(json.Unmarshal(lines.Bytes(), &asked))
		must(out.Encode(preempt(asked)))
	}
	must(lines.Err())
}

func preempt(asked cluster) answer {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	nodes := make([]*v1.Node, 0, len(asked.Nodes))
	for _, one := range asked.Nodes {
		room := v1.ResourceList{
			v1.ResourceCPU:  *resource.NewQuantity(one.CPU, resource.DecimalSI),
			v1.ResourcePods: *resource.NewQuantity(one.Pods, resource.DecimalSI),
		}
		nodes = append(nodes, &v1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: one.Name},
			Status:     v1.NodeStatus{Capacity: room, Allocatable: room},
		})
	}
	pods := make([]*v1.Pod, 0, len(asked.Pods))
	for _, one := range asked.Pods {
		pods = append(pods, object(one))
	}
	var budgets []*policy.PodDisruptionBudget
	for app, allowed := range asked.Budgets {
		budgets = append(budgets, &policy.PodDisruptionBudget{
			ObjectMeta: metav1.ObjectMeta{Name: app, Namespace: "default"},
			Spec:       policy.PodDisruptionBudgetSpec{Selector: metav1.SetAsLabelSelector(map[string]string{"app": app})},
			Status:     policy.PodDisruptionBudgetStatus{DisruptionsAllowed: allowed},
		})
	}
	asked.Pod.Name = "waits"
	preemptor := object(asked.Pod)

	client := clientsetfake.NewClientset()
	informerFactory := informers.NewSharedInformerFactory(client, 0)
	framework_, err := tf.NewFramework(
		ctx,
		[]tf.RegisterPluginFunc{
			tf.RegisterPluginAsExtensions(noderesources.Name, func(ctx context.Context, args runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
				return noderesources.NewFit(ctx, args, handle, feature.Features{})
			}, "Filter", "PreFilter"),
			tf.RegisterQueueSortPlugin(queuesort.Name, queuesort.New),
			tf.RegisterBindPlugin(defaultbinder.Name, defaultbinder.New),
		},
		"",
		frameworkruntime.WithPodNominator(internalqueue.NewSchedulingQueue(nil, informerFactory)),
		frameworkruntime.WithSnapshotSharedLister(internalcache.NewSnapshot(pods, nodes)),
		frameworkruntime.WithInformerFactory(informerFactory),
		frameworkruntime.WithClientSet(client),
	)
	must(err)
	infos, err := framework_.SnapshotSharedLister().NodeInfos().List()
	must(err)
	state := framework.NewCycleState()
	if _, status, _ := framework_.RunPreFilterPlugins(ctx, state, preemptor); !status.IsSuccess() {
		panic(status.AsError())
	}
	plugin, err := defaultpreemption.New(ctx, defaults(), framework_, feature.Features{})
	must(err)
	evaluator := plugin.Evaluator
	candidates, _, err := evaluator.DryRunPreemption(ctx, state, preemptor, infos, budgets, 0, int32(len(infos)))
	must(err)
	chosen := evaluator.SelectCandidate(ctx, candidates)
	if chosen == nil {
		return answer{Victims: []string{}}
	}
	found := answer{Node: chosen.Name(), Violations: chosen.Victims().NumPDBViolations}
	for _, victim := range chosen.Victims().Pods {
		found.Victims = append(found.Victims, victim.Name)
	}
	return found
}

func object(one pod) *v1.Pod {
	start := metav1.NewTime(time.Unix(1_893_456_000+one.Start, 0))
	labels := map[string]string{}
	if one.App != "" {
		labels["app"] = one.App
	}
	requests := v1.ResourceList{v1.ResourceCPU: *resource.NewQuantity(one.CPU, resource.DecimalSI)}
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: one.Name, Namespace: "default", UID: types.UID(one.Name), Labels: labels},
		Spec: v1.PodSpec{
			NodeName:   one.Node,
			Priority:   &one.Priority,
			Containers: []v1.Container{{Name: "main", Resources: v1.ResourceRequirements{Requests: requests}}},
		},
		Status: v1.PodStatus{StartTime: &start},
	}
}

func defaults() *config.DefaultPreemptionArgs {
	given := &kubeschedulerconfigv1.DefaultPreemptionArgs{}
	configv1.SetDefaults_DefaultPreemptionArgs(given)
	args := &config.DefaultPreemptionArgs{}
	must(configv1.Convert_v1_DefaultPreemptionArgs_To_config_DefaultPreemptionArgs(given, args, nil))
	return args
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
