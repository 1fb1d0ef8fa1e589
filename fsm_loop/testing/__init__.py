"""What tests of a loop are made of: fakes that pass for the real thing, and a clock that nobody waits for."""
