"""The engine: decides where pods go. Pure: no clock, no I/O, no threads, no chance."""
