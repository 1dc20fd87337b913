package kubelets

import (
	"context"
	"encoding/json"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

const (
	// One process speaks for a thousand kubelets, so the client must not throttle as one kubelet's would.
	queriesPerSecond = 5000
	attempts         = 5
	pause            = 200 * time.Millisecond
)

var topologies = schema.GroupVersionResource{
	Group: "topology.node.k8s.io", Version: "v1alpha2", Resource: "noderesourcetopologies",
}

// api is what kubelets and exporters write to the API server.
type api struct {
	core    kubernetes.Interface
	dynamic dynamic.Interface
	journal *Journal
}

func newAPI(kubeconfig string, journal *Journal) (*api, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	config.UserAgent = "kubelets"
	config.QPS, config.Burst = queriesPerSecond, queriesPerSecond
	core, err := kubernetes.NewForConfig(protobuf(config))
	if err != nil {
		return nil, err
	}
	custom, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	return &api{core: core, dynamic: custom, journal: journal}, nil
}

func protobuf(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.ContentType = "application/vnd.kubernetes.protobuf"
	return config
}

// register creates the Node, or takes over the one that a kubelet of that name left.
func (a *api) register(ctx context.Context, node *corev1.Node) error {
	nodes := a.core.CoreV1().Nodes()
	_, err := nodes.Create(ctx, node, metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	patch, err := json.Marshal(object{"metadata": object{"labels": node.Labels}, "status": node.Status})
	if err != nil {
		return err
	}
	_, err = nodes.Patch(ctx, node.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "", "status")
	return err
}

// publish writes a NodeResourceTopology.
func (a *api) publish(ctx context.Context, topology object) {
	name := topology["metadata"].(object)["name"].(string)
	a.retry("publish "+name, func() error {
		patch, err := json.Marshal(topology)
		if err != nil {
			return err
		}
		client := a.dynamic.Resource(topologies)
		_, err = client.Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{})
		if apierrors.IsNotFound(err) {
			_, err = client.Create(ctx, &unstructured.Unstructured{Object: topology}, metav1.CreateOptions{})
		}
		return err
	})
}

// setStatus patches a pod's status; a pod that is gone, or another of its name, is none of ours.
//
// Source: pkg/util/pod, PatchPodStatus: a strategic merge patch that names the UID.
func (a *api) setStatus(ctx context.Context, pod *corev1.Pod, status corev1.PodStatus) {
	a.retry("status of "+pod.Name, func() error {
		patch, err := json.Marshal(object{"metadata": object{"uid": pod.UID}, "status": status})
		if err != nil {
			return err
		}
		_, err = a.core.CoreV1().Pods(pod.Namespace).Patch(
			ctx, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
		return err
	})
}

// confirmDeletion ends a pod that was asked to end.
func (a *api) confirmDeletion(ctx context.Context, pod *corev1.Pod) {
	now := int64(0)
	options := metav1.DeleteOptions{GracePeriodSeconds: &now, Preconditions: metav1.NewUIDPreconditions(string(pod.UID))}
	a.retry("deletion of "+pod.Name, func() error {
		return a.core.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, options)
	})
}

// warn records the Event that a rejection leaves.
func (a *api) warn(ctx context.Context, node string, pod *corev1.Pod, reason, message string) {
	now := metav1.Now()
	event := &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{GenerateName: pod.Name + ".", Namespace: pod.Namespace},
		InvolvedObject: corev1.ObjectReference{
			Kind: "Pod", APIVersion: "v1", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID,
		},
		Type: corev1.EventTypeWarning, Reason: reason, Message: message,
		Source:         corev1.EventSource{Component: "kubelet", Host: node},
		FirstTimestamp: now, LastTimestamp: now, Count: 1,
		ReportingController: "kubelet", ReportingInstance: node,
	}
	a.retry("event of "+pod.Name, func() error {
		_, err := a.core.CoreV1().Events(pod.Namespace).Create(ctx, event, metav1.CreateOptions{})
		return err
	})
}

// retry writes once more when the API server could not answer. What it refuses stays so: the pod is gone, or another
// has its name, or its namespace ends.
func (a *api) retry(what string, write func() error) {
	var err error
	for range attempts {
		err = write()
		if err == nil || apierrors.IsNotFound(err) || apierrors.IsConflict(err) || apierrors.IsForbidden(err) {
			return
		}
		time.Sleep(pause)
	}
	a.journal.Write("error", object{"what": what, "message": err.Error()})
}
