package noderuntime

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"

	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// devicesPrefix begins the environment variables by which a device plugin tells the runtime which devices it gave.
const devicesPrefix = "DEVICES_OF_"

// given is what the kubelet's managers gave a container alone, by the checkpoints that they write before it is created:
// its exclusive CPUs, as a list such as "0-3,8", and its blocks of memory. What it has no share of is left out.
func given(node, pod, container string) map[string]any {
	found := map[string]any{}
	for name, file := range map[string]string{"cpus": "cpu_manager_state", "memory": "memory_manager_state"} {
		var checkpoint struct {
			Entries map[string]map[string]any `json:"entries"`
		}
		text, err := os.ReadFile(filepath.Join(node, file))
		if err != nil || json.Unmarshal(text, &checkpoint) != nil {
			continue // the policy none writes none
		}
		if share, there := checkpoint.Entries[pod][container]; there {
			found[name] = share
		}
	}
	return found
}

// devicesOf are the ids of a container's devices by resource.
func devicesOf(environment []*cri.KeyValue) map[string][]string {
	found := map[string][]string{}
	for _, each := range environment {
		if resource, ours := strings.CutPrefix(each.Key, devicesPrefix); ours {
			found[resource] = strings.Split(string(each.Value), ",")
		}
	}
	return found
}
