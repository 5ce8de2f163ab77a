"""An in-process Kubernetes API server for `kubenexus demo` and for tests. Not for production."""
