"""The admission webhook: validates pods and fills in gang and NUMA settings."""
