"""Pages for a browser on this machine."""
