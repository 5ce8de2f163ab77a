"""The plugins, one file per concern."""
