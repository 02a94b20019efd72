"""What the page shows of an index and of a stored use."""

from typing import Any, Dict, Optional

from ..analysis.neighbors import NeighborIndex, Use

CHOICES = ("any", "same", "other")
SHOWN = 25  # words on either side


def describe_index(index: Optional[NeighborIndex]) -> Optional[Dict[str, Any]]:
    """RETURNS (Optional[Dict[str, Any]]): Layer and sizes of an index, None without one."""
    if index is None:
        return None
    return {"layer": index.layer, "n_tokens": index.n_tokens, "n_documents": index.n_documents}


def describe_use(use: Use) -> Dict[str, Any]:
    """RETURNS (Dict[str, Any]): A use with the words around it, position counted among these."""
    start = max(0, use.position - SHOWN)
    words = use.words[start : use.position + SHOWN + 1]
    return {"words": words, "position": use.position - start, "document": use.document}
