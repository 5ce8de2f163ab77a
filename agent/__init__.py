"""The node agent: discovers a machine's topology and publishes it."""
