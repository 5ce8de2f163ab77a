"""Talking to Kubernetes: client, reflector, leader election and events."""
