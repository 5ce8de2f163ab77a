"""The scheduler: places pods and gangs on the topology that the agents publish."""
