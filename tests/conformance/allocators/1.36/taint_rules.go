package main

import (
	"context"

	resourceapi "k8s.io/api/resource/v1"
	resourcebeta "k8s.io/api/resource/v1beta2"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	"k8s.io/dynamic-resource-allocation/resourceslice/tracker"
)

type taintRule = resourcebeta.DeviceTaintRule

// withTaintRules are the slices as kube-scheduler's own tracker shows them to the allocator.
func withTaintRules(
	ctx context.Context, slices []*resourceapi.ResourceSlice, rules []*taintRule,
) ([]*resourceapi.ResourceSlice, error) {
	if len(rules) == 0 {
		return slices, nil
	}
	var objects []runtime.Object
	for _, slice := range slices {
		objects = append(objects, slice)
	}
	for _, rule := range rules {
		objects = append(objects, rule)
	}
	factory := informers.NewSharedInformerFactory(fake.NewClientset(objects...), 0)
	tracked, err := tracker.StartTracker(ctx, tracker.Options{
		EnableDeviceTaintRules:   true,
		EnableConsumableCapacity: true,
		SliceInformer:            factory.Resource().V1().ResourceSlices(),
		TaintInformer:            factory.Resource().V1beta2().DeviceTaintRules(),
		ClassInformer:            factory.Resource().V1().DeviceClasses(),
	})
	if err != nil {
		return nil, err
	}
	defer tracked.Stop()
	factory.StartWithContext(ctx)
	cache.WaitForCacheSync(ctx.Done(), tracked.HasSynced)
	return tracked.ListPatchedResourceSlices()
}
