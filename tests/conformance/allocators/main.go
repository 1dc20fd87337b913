// Command allocator asks kube-scheduler's own device allocator which nodes can serve a pod's claims, and with which devices.
//
// It reads one case a line from stdin and prints one answer a line:
//
//	{"slices": [ResourceSlice], "classes": [DeviceClass], "rules": [DeviceTaintRule], "claims": [ResourceClaim],
//	 "pod": [name of a claim], "nodes": [Node]}
//	{name of a node: {"claims": [[{"request", "device", "admin", "consumed"}]]} or {"refused": why} or {"error": why}}
//
// The claims are all of the cluster's, those of the pod are named in their order. `claims` of an answer has an entry for
// each claim of the pod that is not allocated yet; a device is DRIVER/POOL/NAME. An error is fatal for the pod on every node.
//
// Or it reads a selector with devices of slices, and prints for each whether it selects it, or the error of its evaluation.
// What does not compile is "invalid", because no API server takes it:
//
//	{"expression": "", "devices": [{"driver", "device"}]}
//	["yes", "no" or "error: why"] or "invalid: why"
//
// Every folder beside this file is a Go module that pins a version of Kubernetes and links to this source.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
)

// enabled are the features of the allocator whose gates are on by default. A version skips those that it does not know.
const enabled = `{
	"AdminAccess": true, "ConsumableCapacity": true, "DeviceBindingAndStatus": true, "DeviceTaints": true,
	"FractionalCapacityRange": true, "PartitionableDevices": true, "PrioritizedList": true
}`

// patience is how long kube-scheduler lets one allocation take (DynamicResourcesArgs.filterTimeout).
const patience = 10 * time.Second

type question struct {
	Slices  []*resourceapi.ResourceSlice
	Classes []*resourceapi.DeviceClass
	Rules   []*taintRule
	Claims  []*resourceapi.ResourceClaim
	Pod     []string
	Nodes   []*v1.Node

	Expression string
	Devices    []struct {
		Driver string
		Device resourceapi.Device
	}
}

type answer struct {
	Claims  [][]given `json:"claims,omitempty"`
	Refused string    `json:"refused,omitempty"`
	Error   string    `json:"error,omitempty"`
}

type given struct {
	Request  string            `json:"request"`
	Device   string            `json:"device"`
	Admin    bool              `json:"admin,omitempty"`
	Consumed map[string]string `json:"consumed,omitempty"`
}

func main() {
	klog.SetOutput(os.Stderr)
	lines := bufio.NewReaderSize(os.Stdin, 1<<20)
	out := json.NewEncoder(os.Stdout)
	decoder := json.NewDecoder(lines)
	for decoder.More() {
		var asked question
		must(decoder.Decode(&asked))
		if asked.Expression != "" {
			must(out.Encode(selected(asked)))
		} else {
			must(out.Encode(answers(asked)))
		}
	}
}

var expressions = cel.NewCache(100, cel.Features{EnableConsumableCapacity: true})

func selected(asked question) any {
	compiled := expressions.GetOrCompile(asked.Expression)
	if compiled.Error != nil {
		return "invalid: " + compiled.Error.Error()
	}
	found := []string{}
	for _, one := range asked.Devices {
		matches, _, err := compiled.DeviceMatches(context.Background(), cel.Device{
			Driver:                   one.Driver,
			AllowMultipleAllocations: one.Device.AllowMultipleAllocations,
			Attributes:               one.Device.Attributes,
			Capacity:                 one.Device.Capacity,
		})
		switch {
		case err != nil:
			found = append(found, "error: "+err.Error())
		case matches:
			found = append(found, "yes")
		default:
			found = append(found, "no")
		}
	}
	return found
}

func answers(asked question) map[string]answer {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	slices, err := withTaintRules(ctx, asked.Slices, asked.Rules)
	must(err)
	var features structured.Features
	must(json.Unmarshal([]byte(enabled), &features))
	allocator, err := structured.NewAllocator(ctx, features, held(asked.Claims), classes(asked.Classes), slices, expressions)
	must(err)
	found := map[string]answer{}
	for _, node := range asked.Nodes {
		found[node.Name] = ask(ctx, allocator, asked, node)
	}
	return found
}

// ask follows DynamicResources.Filter: an allocated claim ties the pod to its nodes, the others are allocated together.
func ask(ctx context.Context, allocator structured.Allocator, asked question, node *v1.Node) answer {
	byName := map[string]*resourceapi.ResourceClaim{}
	for _, claim := range asked.Claims {
		byName[claim.Name] = claim
	}
	var open []*resourceapi.ResourceClaim
	for _, name := range asked.Pod {
		claim := byName[name]
		if claim.Status.Allocation == nil {
			open = append(open, claim)
			continue
		}
		if selector := claim.Status.Allocation.NodeSelector; selector != nil {
			parsed, err := nodeaffinity.NewNodeSelector(selector)
			must(err)
			if !parsed.Match(node) {
				return answer{Refused: "the allocation of " + name + " is for other nodes"}
			}
		}
	}
	if len(open) == 0 {
		return answer{Claims: [][]given{}}
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	results, err := allocator.Allocate(ctx, node, open)
	switch {
	case errors.Is(err, structured.ErrFailedAllocationOnNode):
		return answer{Refused: err.Error()}
	case err != nil:
		return answer{Error: err.Error()}
	case len(results) != len(open):
		return answer{Refused: "cannot allocate all claims"}
	}
	found := answer{}
	for _, result := range results {
		devices := []given{}
		for _, one := range result.Devices.Results {
			device := given{
				Request: one.Request,
				Device:  fmt.Sprintf("%s/%s/%s", one.Driver, one.Pool, one.Device),
				Admin:   ptr.Deref(one.AdminAccess, false),
			}
			for name, amount := range one.ConsumedCapacity {
				if device.Consumed == nil {
					device.Consumed = map[string]string{}
				}
				device.Consumed[string(name)] = amount.String()
			}
			devices = append(devices, device)
		}
		found.Claims = append(found.Claims, devices)
	}
	return found
}

// held is what the allocated claims hold, as kube-scheduler's dynamicresources plugin gathers it: devices with admin
// access not at all, shared ones by the capacity that they consume.
func held(claims []*resourceapi.ResourceClaim) structured.AllocatedState {
	state := structured.AllocatedState{
		AllocatedDevices:         sets.New[structured.DeviceID](),
		AllocatedSharedDeviceIDs: sets.New[structured.SharedDeviceID](),
		AggregatedCapacity:       structured.NewConsumedCapacityCollection(),
	}
	for _, claim := range claims {
		if claim.Status.Allocation == nil {
			continue
		}
		for _, result := range claim.Status.Allocation.Devices.Results {
			if ptr.Deref(result.AdminAccess, false) {
				continue
			}
			id := structured.MakeDeviceID(result.Driver, result.Pool, result.Device)
			if result.ShareID == nil {
				state.AllocatedDevices.Insert(id)
				continue
			}
			state.AllocatedSharedDeviceIDs.Insert(structured.MakeSharedDeviceID(id, result.ShareID))
			if result.ConsumedCapacity != nil {
				state.AggregatedCapacity.Insert(structured.NewDeviceConsumedCapacity(id, result.ConsumedCapacity))
			}
		}
	}
	return state
}

type classes []*resourceapi.DeviceClass

func (c classes) List() ([]*resourceapi.DeviceClass, error) { return c, nil }

func (c classes) Get(name string) (*resourceapi.DeviceClass, error) {
	for _, class := range c {
		if class.Name == name {
			return class, nil
		}
	}
	return nil, apierrors.NewNotFound(resourceapi.Resource("deviceclasses"), name)
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
