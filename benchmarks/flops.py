"""The fewest floating-point operations per token, products only, one multiplication and addition counting two."""

import json
from pathlib import Path
from typing import List


def count_flops(weights: Path, sentences: List[List[str]]) -> float:
    """In steady state: words are known, the input product of the first layer is made once per distinct word.

    weights (Path): A folder with `options.json`.
    sentences (List[List[str]]): The text.
    RETURNS (float): Operations per token.
    """
    lstm = json.loads((weights / "options.json").read_text(encoding="utf8"))["lstm"]
    cell_width, width = lstm["dim"], lstm["projection_dim"]
    gates, projection = 2 * width * 4 * cell_width, 2 * cell_width * width
    n_tokens = sum(len(sentence) for sentence in sentences)
    n_distinct = len({word for sentence in sentences for word in sentence})
    n_layers = lstm["n_layers"]
    in_loop = n_layers * (gates + projection)
    inputs = (n_layers - 1) * gates + gates * n_distinct / n_tokens
    return 2 * (in_loop + inputs)
