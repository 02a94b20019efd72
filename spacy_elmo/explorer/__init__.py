"""The local web page."""

from .opening import open_explorer
from .serving import address_of, open_socket, serve

__all__ = ["address_of", "open_explorer", "open_socket", "serve"]
