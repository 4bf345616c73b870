"""Experiments: what the paper shows, computed again."""
