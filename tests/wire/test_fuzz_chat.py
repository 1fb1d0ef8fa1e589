"""Chat Completions, mutated: whatever comes, a turn ends by a name, and runs no tool that was not asked for in whole."""

from __future__ import annotations

from tests.wire.fuzzed_turns import chunks_end_anywhere, cut_at_every_byte, whatever_comes
from tests.wire.streams import CHAT


def test_whatever_comes():
    """Whatever a server sends, the turn ends by a name and no tool runs that was not asked for in whole."""
    whatever_comes(CHAT)


def test_cut_at_every_byte():
    """A call in a reply that was cut runs exactly if the word that ends the reply was there in whole."""
    cut_at_every_byte(CHAT)


def test_chunks_end_anywhere():
    """Wherever the bytes of a good reply are parted, it says the same."""
    chunks_end_anywhere(CHAT)
