"""Models behind a wire: one file for each protocol, the rest is what they share; the door imports none of it."""
