module moorage.dev/gitops/crds

go 1.26.0

require (
	github.com/fluxcd/kustomize-controller v1.9.5
	github.com/fluxcd/source-controller v1.9.4
)
