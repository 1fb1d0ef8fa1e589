"""The pure heart: no clock, no chance, no waiting, no log. What happens is decided here."""
