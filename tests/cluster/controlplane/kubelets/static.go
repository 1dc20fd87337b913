package kubelets

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kubetypes "k8s.io/kubernetes/pkg/kubelet/types"
)

// A kubelet itself is told at once (inotify); a test waits for the journal.
const manifestPeriod = 100 * time.Millisecond

// A staticPod runs from a file of the manifests' folder.
type staticPod struct {
	pod *corev1.Pod
	// mirrored: its mirror pod was asked for; used in `work` only.
	mirrored bool
	// mirror is the UID of its mirror pod; empty until that is created. Used in `writes` only.
	mirror types.UID
}

// readManifests follows the folder of the machine until the program ends: a file that comes starts a static pod, a file
// that goes ends it.
//
// Its mirror pod is created when the NodeResourceTopology next shows the machine, not at once as by a kubelet: until
// then nothing in the API server shows the pod.
//
// Source: pkg/kubelet/config (applyDefaults), pkg/kubelet/pod (mirror_client.go).
func (k *kubelet) readManifests(folder string) {
	ticks := time.NewTicker(manifestPeriod)
	defer ticks.Stop()
	for {
		select {
		case <-k.ctx.Done():
			return
		case <-ticks.C:
			files, _ := filepath.Glob(filepath.Join(folder, "*.json"))
			k.work.add(func() { k.syncStatic(files) })
		}
	}
}

func (k *kubelet) syncStatic(files []string) {
	there := map[string]bool{}
	for _, file := range files {
		there[file] = true
		if k.static[file] == nil {
			k.startStatic(file)
		}
	}
	for file, static := range k.static {
		if !there[file] {
			delete(k.static, file)
			k.end(static.pod)
			k.writes.add(func() { k.api.deleteMirror(k.ctx, static) })
		}
	}
}

func (k *kubelet) startStatic(file string) {
	text, err := os.ReadFile(file)
	pod := &corev1.Pod{}
	if err == nil {
		err = json.Unmarshal(text, pod)
	}
	if err != nil {
		return // it is being written
	}
	node := k.admission.machine.Name
	pod.Name = strings.Join([]string{pod.Name, node}, "-")
	pod.UID = types.UID(pod.Namespace + "/" + pod.Name)
	pod.Spec.NodeName = node
	fields := podFields(node, pod)
	k.static[file] = &staticPod{pod: pod}
	if result := k.admission.Admit(pod); !result.Admit {
		fields["what"], fields["message"] = "static pod "+pod.Name, result.Reason+": "+result.Message
		k.journal.Write("error", fields)
		return
	}
	k.journal.Write("static", fields)
	k.changed()
}

// mirrorStatic creates the mirror pods that are missing.
func (k *kubelet) mirrorStatic() {
	for _, static := range k.static {
		if !static.mirrored {
			static.mirrored = true
			k.writes.add(func() { k.api.createMirror(k.ctx, static) })
		}
	}
}

func isMirror(pod *corev1.Pod) bool {
	_, mirror := pod.Annotations[kubetypes.ConfigMirrorAnnotationKey]
	return mirror
}

func (a *api) createMirror(ctx context.Context, static *staticPod) {
	mirror := static.pod.DeepCopy()
	mirror.UID = ""
	mirror.Annotations = map[string]string{
		kubetypes.ConfigMirrorAnnotationKey: string(static.pod.UID), kubetypes.ConfigSourceAnnotationKey: kubetypes.FileSource,
	}
	a.retry("mirror "+mirror.Name, func() error {
		created, err := a.core.CoreV1().Pods(mirror.Namespace).Create(ctx, mirror, metav1.CreateOptions{})
		if err == nil {
			static.mirror = created.UID
		}
		return err
	})
	if static.mirror == "" {
		return
	}
	a.setStatus(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: mirror.Name, Namespace: mirror.Namespace, UID: static.mirror,
	}}, running(mirror, time.Now()))
}

func (a *api) deleteMirror(ctx context.Context, static *staticPod) {
	if static.mirror != "" {
		a.confirmDeletion(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Name: static.pod.Name, Namespace: static.pod.Namespace, UID: static.mirror,
		}})
	}
}
