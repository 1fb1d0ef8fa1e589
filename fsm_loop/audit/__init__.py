"""The trail of a turn: each decision, written down by whoever watches. One file, one place that it is written to."""
