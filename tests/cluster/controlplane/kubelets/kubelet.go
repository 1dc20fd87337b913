package kubelets

import (
	"context"
	"math/rand"
	"path/filepath"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
)

// RunSeconds is the pod annotation that says after how many seconds its containers end by themselves.
const RunSeconds = "example.com/run-seconds"

// A kubelet runs the pods of one node, and stands in for the exporter beside it.
//
// All that decides happens in `work`, one thing after the other; what is written to the API server happens in `writes`,
// in the same order but without holding the next decision up, as with the kubelet's own status manager.
type kubelet struct {
	ctx       context.Context
	api       *api
	admission *Admission
	journal   *Journal
	random    *rand.Rand // used in `work` only
	publisher Publisher
	lag       time.Duration
	// state is the folder with the files of the kubelet; empty: none. files holds what was last written there.
	state  string
	files  map[string]string
	work   queue
	writes queue
	// seen holds the pods that were decided on and are still in the API server.
	seen map[types.UID]bool
	// ending holds those whose deletion was confirmed.
	ending map[types.UID]bool
	// static holds the static pods by file.
	static map[string]*staticPod
	// scanDue: the exporter will look soon, and will see every change until then.
	scanDue bool
}

func newKubelet(ctx context.Context, api *api, machine Machine, options *options, seed int64) (*kubelet, error) {
	if err := machine.startable(); err != nil {
		return nil, err
	}
	node, err := newNode(machine)
	if err != nil {
		return nil, err
	}
	admission, err := NewAdmission(machine, node)
	if err != nil {
		return nil, err
	}
	k := &kubelet{
		ctx: ctx, api: api, admission: admission, journal: api.journal, random: rand.New(rand.NewSource(seed)),
		publisher: options.publisher, lag: options.lag,
		files: map[string]string{}, seen: map[types.UID]bool{}, ending: map[types.UID]bool{}, static: map[string]*staticPod{},
	}
	if options.state != "" {
		if err := k.servePodResources(ctx, filepath.Join(options.state, machine.Name)); err != nil {
			return nil, err
		}
	}
	if k.publisher != None {
		api.publish(ctx, admission.Topology(k.publisher, k.random))
	}
	if err := api.register(ctx, node); err != nil {
		return nil, err
	}
	if options.manifests != "" {
		go k.readManifests(filepath.Join(options.manifests, machine.Name))
	}
	return k, nil
}

// newNode is the Node that the kubelet registers: ready, without taints.
func newNode(machine Machine) (*corev1.Node, error) {
	capacity, allocatable, err := machine.resources()
	if err != nil {
		return nil, err
	}
	labels := map[string]string{
		corev1.LabelHostname: machine.Name, corev1.LabelOSStable: "linux", corev1.LabelArchStable: "amd64",
	}
	for name, value := range machine.Labels {
		labels[name] = value
	}
	now := metav1.Now()
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: machine.Name, Labels: labels},
		Status: corev1.NodeStatus{
			Capacity:    capacity,
			Allocatable: allocatable,
			Conditions: []corev1.NodeCondition{{
				Type: corev1.NodeReady, Status: corev1.ConditionTrue,
				Reason: "KubeletReady", Message: "kubelet is posting ready status",
				LastHeartbeatTime: now, LastTransitionTime: now,
			}},
		},
	}, nil
}

// sync takes in a pod of this node as it is now.
func (k *kubelet) sync(pod *corev1.Pod) {
	switch {
	case isMirror(pod) && pod.DeletionTimestamp == nil: // the static pod runs already
	case pod.DeletionTimestamp != nil:
		k.end(pod)
		if !k.ending[pod.UID] {
			k.ending[pod.UID] = true
			k.writes.add(func() { k.api.confirmDeletion(k.ctx, pod) })
		}
	case podutil.IsPodPhaseTerminal(pod.Status.Phase):
		k.end(pod)
	case !k.seen[pod.UID]:
		k.admit(pod)
	}
	k.seen[pod.UID] = true
}

// forget takes in that a pod is gone.
func (k *kubelet) forget(pod *corev1.Pod) {
	k.end(pod)
	delete(k.seen, pod.UID)
	delete(k.ending, pod.UID)
}

func (k *kubelet) admit(pod *corev1.Pod) {
	node := k.admission.machine.Name
	fields := podFields(node, pod)
	free := k.admission.freeByState()
	result := k.admission.Admit(pod)
	k.writeCheckpoints()
	if !result.Admit {
		fields["reason"], fields["message"] = result.Reason, result.Message
		fields["zones"] = k.admission.zones(&free)
		k.journal.Write("rejected", fields)
		k.writes.add(func() {
			k.api.setStatus(k.ctx, pod, rejected(pod, result))
			k.api.warn(k.ctx, node, pod, result.Reason, result.Message)
		})
		return
	}
	fields["containers"] = k.admission.Given(pod)
	k.journal.Write("admitted", fields)
	k.admission.Started(pod)
	k.changed()
	start := time.Now()
	k.writes.add(func() { k.api.setStatus(k.ctx, pod, running(pod, start)) })
	if seconds, err := strconv.ParseFloat(pod.Annotations[RunSeconds], 64); err == nil {
		time.AfterFunc(time.Duration(seconds*float64(time.Second)), func() {
			k.work.add(func() { k.complete(pod, start) })
		})
	}
}

// complete ends a pod whose run time is over, unless it ended before.
func (k *kubelet) complete(pod *corev1.Pod, start time.Time) {
	if k.end(pod) {
		end := time.Now()
		k.writes.add(func() { k.api.setStatus(k.ctx, pod, succeeded(pod, start, end)) })
	}
}

// end releases what a pod holds; false if it holds nothing.
func (k *kubelet) end(pod *corev1.Pod) bool {
	if !k.admission.Release(pod.UID) {
		return false
	}
	k.journal.Write("ended", podFields(k.admission.machine.Name, pod))
	k.changed()
	return true
}

// changed has the exporter look after its lag, half as long to half as long again.
func (k *kubelet) changed() {
	k.writeCheckpoints()
	if k.scanDue || k.publisher == None {
		return
	}
	k.scanDue = true
	wait := time.Duration((0.5 + k.random.Float64()) * float64(k.lag))
	time.AfterFunc(wait, func() {
		k.work.add(func() {
			k.scanDue = false
			topology := k.admission.Topology(k.publisher, k.random)
			k.writes.add(func() { k.api.publish(k.ctx, topology) })
			k.mirrorStatic()
		})
	})
}
