// A registry in memory, into which a dry run of a release pushes its chart.
module topology-webhook.dev/tests/release/registry

go 1.26.0

tool github.com/google/go-containerregistry/cmd/registry

require github.com/google/go-containerregistry v0.22.1 // indirect
