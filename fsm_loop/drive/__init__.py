"""Carries effects out through the ports, and feeds what comes of them back as events."""
