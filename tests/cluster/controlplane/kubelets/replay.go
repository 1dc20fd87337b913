package kubelets

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math/rand"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubernetes/pkg/apis/core/v1/helper/qos"
)

// A sequence is a machine and the pods that come to it, one after the other.
type sequence struct {
	ID      string  `json:"id"`
	Machine Machine `json:"machine"`
	// Publisher is whose form nrtBefore has; empty: the managers' own state.
	Publisher Publisher    `json:"publisher"`
	Pods      []corev1.Pod `json:"pods"`
	// Remove names the pods that end before the key is admitted.
	Remove map[string][]string `json:"remove"`
	// Restart names the pods before whose admission, and after these ended, the kubelet starts again.
	Restart map[string]string `json:"restart"`
	// WholeKubelet: a kubelet played it, not its managers alone. So the node as a whole must have room, and what ended
	// init containers leave is free again.
	WholeKubelet bool `json:"wholeKubelet"`
	// DeviceIDs are what a kubelet took, where any of several devices will do: pod UID -> container -> resource -> ids.
	DeviceIDs map[string]map[string]map[string][]string `json:"deviceIDs"`
}

type verdicts struct {
	ID    string    `json:"id"`
	Pods  []verdict `json:"pods"`
	After object    `json:"nrtAfter"`
}

type verdict struct {
	Pod     string `json:"pod"`
	QoS     string `json:"qos"`
	Admit   bool   `json:"admit"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	Before  object `json:"nrtBefore"`
	// State is what the managers' checkpoints still show before the pod comes: CPUs and bytes of memory by pod UID.
	State      map[string]object `json:"stateBefore"`
	Containers []Given           `json:"containers,omitempty"`
	// Lost: the kubelet rejected the admitted pod when it started again.
	Lost string `json:"lost,omitempty"`
}

// Replay reads sequences, one JSON object a line, and writes a line of verdicts for each.
func Replay(input io.Reader, output io.Writer) error {
	lines := json.NewDecoder(bufio.NewReader(input))
	answers := bufio.NewWriter(output)
	encoder := json.NewEncoder(answers)
	for lines.More() {
		var one sequence
		if err := lines.Decode(&one); err != nil {
			return err
		}
		answer, err := one.replay()
		if err != nil {
			return fmt.Errorf("%s: %w", one.ID, err)
		}
		if err := encoder.Encode(answer); err != nil {
			return err
		}
	}
	return answers.Flush()
}

func (s *sequence) replay() (*verdicts, error) {
	var node *corev1.Node
	var err error
	if s.WholeKubelet {
		if node, err = newNode(s.Machine); err != nil {
			return nil, err
		}
	}
	admission, err := NewAdmission(s.Machine, node)
	if err != nil {
		return nil, err
	}
	admission.devices.recorded = s.DeviceIDs
	random := rand.New(rand.NewSource(0)) // orders the zones of some publisher
	uids := map[string]types.UID{}
	answer := &verdicts{ID: s.ID}
	for i := range s.Pods {
		pod := &s.Pods[i]
		uids[pod.Name] = pod.UID
		for _, gone := range s.Remove[pod.Name] {
			admission.Release(uids[gone])
		}
		if s.Restart[pod.Name] != "" {
			if err := s.restart(admission, i, answer); err != nil {
				return nil, err
			}
		}
		one := verdict{Pod: pod.Name, QoS: string(qos.GetPodQOS(pod)), State: admission.entries()}
		if s.Publisher == "" {
			one.Before = admission.subtracted()
		} else {
			one.Before = admission.Topology(s.Publisher, random)
		}
		result := admission.Admit(pod)
		one.Admit, one.Reason, one.Message = result.Admit, result.Reason, result.Message
		if result.Admit {
			one.Containers = admission.Given(pod)
			if s.WholeKubelet {
				admission.Started(pod)
			}
		}
		answer.Pods = append(answer.Pods, one)
	}
	answer.After = admission.subtracted()
	return answer, nil
}

// restart starts the kubelet again before pod i is admitted.
func (s *sequence) restart(admission *Admission, i int, answer *verdicts) error {
	var found []*corev1.Pod
	for earlier := range s.Pods[:i] {
		found = append(found, &s.Pods[earlier])
	}
	lost, err := admission.Restart(found)
	for earlier, pod := range found {
		if reason, rejected := lost[pod]; rejected {
			answer.Pods[earlier].Lost = reason
		}
	}
	return err
}

// entries are what the managers' checkpoints show of each pod.
func (a *Admission) entries() map[string]object {
	found := map[string]object{}
	add := func(pod, what string, amount uint64) {
		if found[pod] == nil {
			found[pod] = object{"cpus": uint64(0), "memory": uint64(0)}
		}
		found[pod][what] = found[pod][what].(uint64) + amount
	}
	if a.cpus != nil {
		for pod, containers := range a.cpus.state.GetCPUAssignments() {
			for _, cpus := range containers {
				add(pod, "cpus", uint64(cpus.Size()))
			}
		}
	}
	if a.memory != nil {
		for pod, containers := range a.memory.state.GetMemoryAssignments() {
			for _, blocks := range containers {
				for _, block := range blocks {
					add(pod, "memory", block.Size)
				}
			}
		}
	}
	return found
}

// subtracted is the bare NodeResourceTopology of what the managers would give out now.
func (a *Admission) subtracted() object {
	free := a.freeByState()
	return object{
		"apiVersion": apiVersion,
		"kind":       "NodeResourceTopology",
		"attributes": []any{
			object{"name": "topologyManagerScope", "value": a.machine.Scope},
			object{"name": "topologyManagerPolicy", "value": a.machine.Policy},
		},
		"zones": a.zones(&free),
	}
}
