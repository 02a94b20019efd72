"""The config of a transformer encoder."""

from dataclasses import dataclass
from typing import List, Mapping, Optional


@dataclass(frozen=True)
class TransformerConfig:
    """Sizes of a transformer (Vaswani et al. 2017; Peters et al. 2018b, sec. 2.2). Number of layers and width are those
    of the biLM: `n_layers` and `projection_width`.

    feedforward_width (int): Width of the hidden layer of the feed-forward networks.
    n_heads (int): Attention heads; a divisor of `projection_width`.
    max_positions (int): Maximum length of a sequence in tokens, BOS and EOS included.
    """

    feedforward_width: int = 2048
    n_heads: int = 8
    max_positions: int = 5000


def transformer_problems(
    config: Optional[TransformerConfig], width: int, lstm_settings: Mapping[str, bool]
) -> List[str]:
    """config (Optional[TransformerConfig]): The block of a biLM with this encoder.
    width (int): P.
    lstm_settings (Mapping[str, bool]): Settings that only the LSTM has, and whether they have their default.
    RETURNS (List[str]): All problems.
    """
    problems = [
        f"{name} should be left out, since it is a setting of encoder 'lstm'"
        for name, is_default in lstm_settings.items()
        if not is_default
    ]
    if width < 2 or width % 2:
        problems.append(f"projection_width is {width}, should be an even number of 2 or more")
    if config is None:
        return [*problems, "transformer is null, should be a block with the sizes of encoder 'transformer'"]
    if config.feedforward_width < 1:
        problems.append(f"transformer.feedforward_width is {config.feedforward_width}, should be 1 or more")
    if config.n_heads < 1 or width % config.n_heads:
        problems.append(f"transformer.n_heads is {config.n_heads}, should divide projection_width ({width})")
    if config.max_positions < 3:
        problems.append(f"transformer.max_positions is {config.max_positions}, should be 3 or more")
    return problems
