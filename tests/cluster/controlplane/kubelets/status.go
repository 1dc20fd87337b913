package kubelets

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubernetes/pkg/apis/core/v1/helper/qos"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
)

const (
	containerRuntime = "containerd://"
	hostIP           = "127.0.0.1"
	podIP            = "127.0.0.2" // nothing listens there; a status needs an address to be ready
)

// running is the status of a pod whose containers run, and whose init containers have ended.
func running(pod *corev1.Pod, now time.Time) corev1.PodStatus {
	start := metav1.NewTime(now)
	status := corev1.PodStatus{
		Phase:     corev1.PodRunning,
		StartTime: &start,
		HostIP:    hostIP,
		HostIPs:   []corev1.HostIP{{IP: hostIP}},
		PodIP:     podIP,
		PodIPs:    []corev1.PodIP{{IP: podIP}},
		QOSClass:  qos.GetPodQOS(pod),
	}
	for _, condition := range []corev1.PodConditionType{
		corev1.PodReadyToStartContainers, corev1.PodInitialized, corev1.PodReady, corev1.ContainersReady,
	} {
		status.Conditions = append(status.Conditions, corev1.PodCondition{
			Type: condition, Status: corev1.ConditionTrue, LastTransitionTime: start,
		})
	}
	for i := range pod.Spec.InitContainers {
		container := &pod.Spec.InitContainers[i]
		one := containerStatus(pod, container)
		if ranToEnd(pod, container) {
			one.State.Terminated = completed(one.ContainerID, start, start)
		} else {
			one.State.Running = &corev1.ContainerStateRunning{StartedAt: start}
		}
		status.InitContainerStatuses = append(status.InitContainerStatuses, one)
	}
	for i := range pod.Spec.Containers {
		one := containerStatus(pod, &pod.Spec.Containers[i])
		one.State.Running = &corev1.ContainerStateRunning{StartedAt: start}
		status.ContainerStatuses = append(status.ContainerStatuses, one)
	}
	return status
}

// succeeded is the status of a pod whose containers have ended by themselves.
func succeeded(pod *corev1.Pod, started, now time.Time) corev1.PodStatus {
	status := running(pod, started)
	end := metav1.NewTime(now)
	status.Phase = corev1.PodSucceeded
	for i := range status.Conditions {
		condition := &status.Conditions[i]
		if condition.Type == corev1.PodReady || condition.Type == corev1.ContainersReady {
			condition.Status, condition.Reason, condition.LastTransitionTime = corev1.ConditionFalse, "PodCompleted", end
		}
	}
	for _, list := range [][]corev1.ContainerStatus{status.InitContainerStatuses, status.ContainerStatuses} {
		for i := range list {
			list[i].Ready, list[i].Started = false, new(bool)
			list[i].State = corev1.ContainerState{
				Terminated: completed(list[i].ContainerID, metav1.NewTime(started), end),
			}
		}
	}
	return status
}

// rejected is the status of a pod that was not admitted.
//
// Source: pkg/kubelet/kubelet.go, rejectPod.
func rejected(pod *corev1.Pod, result lifecycle.PodAdmitResult) corev1.PodStatus {
	return corev1.PodStatus{
		QOSClass: qos.GetPodQOS(pod),
		Phase:    corev1.PodFailed,
		Reason:   result.Reason,
		Message:  "Pod was rejected: " + result.Message,
	}
}

func containerStatus(pod *corev1.Pod, container *corev1.Container) corev1.ContainerStatus {
	started := true
	return corev1.ContainerStatus{
		Name:        container.Name,
		Image:       container.Image,
		ImageID:     container.Image,
		ContainerID: containerRuntime + containerID(pod, container),
		Ready:       true,
		Started:     &started,
	}
}

func completed(id string, start, end metav1.Time) *corev1.ContainerStateTerminated {
	return &corev1.ContainerStateTerminated{Reason: "Completed", StartedAt: start, FinishedAt: end, ContainerID: id}
}
