"""Thinc layers around the biLM, reading Docs."""
