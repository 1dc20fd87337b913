package kubelets

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/cespare/xxhash/v2"
	corev1 "k8s.io/api/core/v1"
)

const fingerprintVersion = "pfp0v001"

// fingerprint identifies a set of pods: xxh64 over their sorted hashes, each xxh64(name) seeded by xxh64(namespace).
//
// Source: k8stopologyawareschedwg/podfingerprint.
func fingerprint(pods []*corev1.Pod) string {
	hashes := make([]uint64, 0, len(pods))
	for _, pod := range pods {
		hash := xxhash.NewWithSeed(xxhash.Sum64String(pod.Namespace))
		_, _ = hash.WriteString(pod.Name)
		hashes = append(hashes, hash.Sum64())
	}
	slices.Sort(hashes)
	var all []byte
	for _, hash := range hashes {
		all = binary.LittleEndian.AppendUint64(all, hash)
	}
	return fmt.Sprintf("%s%016x", fingerprintVersion, xxhash.Sum64(all))
}
