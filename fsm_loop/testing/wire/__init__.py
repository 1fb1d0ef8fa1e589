"""The wire: cases of what real providers do when they go wrong, replayed over real HTTP, played, and judged."""
