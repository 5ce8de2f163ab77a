"""What a machine has besides room: which of its GPUs and NUMA nodes a pod gets. Pure."""
