"""A throw-away Kubernetes control plane for tests: etcd, kube-apiserver and, on demand, what stands beside it.

`binaries` finds the programs or builds them, `processes` starts and stops them, `cluster` knows how they fit together,
`cli` is the command `hack/control-plane`. Standard library only: it runs before the project's venv exists.
"""
