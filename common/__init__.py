"""What agent, webhook and scheduler share: the vocabulary, the codecs and the Kubernetes client."""
