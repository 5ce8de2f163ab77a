"""Reading a machine: NUMA, PCI and GPUs, from a root folder that holds `sys` and `proc`."""
