package kubelets

import (
	"encoding/json"
	"io"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Journal writes what happened, one JSON object a line: {"time": seconds since the epoch, "event": ...}.
type Journal struct {
	mutex   sync.Mutex
	encoder *json.Encoder
	counts  map[string]int
}

// NewJournal starts one.
func NewJournal(output io.Writer) *Journal {
	return &Journal{encoder: json.NewEncoder(output), counts: map[string]int{}}
}

// Write adds an event: ready, admitted, rejected, ended, error or summary.
func (j *Journal) Write(event string, fields object) {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	line := object{"time": float64(time.Now().UnixMicro()) / 1e6, "event": event}
	for name, value := range fields {
		line[name] = value
	}
	j.counts[event]++
	_ = j.encoder.Encode(line) // nobody is left to tell
}

// Summary adds how many events of each kind there were.
func (j *Journal) Summary() {
	j.mutex.Lock()
	counts := object{}
	for event, number := range j.counts {
		counts[event] = number
	}
	j.mutex.Unlock()
	j.Write("summary", counts)
}

func podFields(node string, pod *corev1.Pod) object {
	return object{"node": node, "pod": pod.Namespace + "/" + pod.Name, "uid": pod.UID}
}
