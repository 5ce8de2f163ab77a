"""Publishing a topology: pure functions say what should be there, one applier makes it so."""
