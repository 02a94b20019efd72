"""The explorer: a local web page that shows what a biLM makes of a text. `serving.py` starts it."""
