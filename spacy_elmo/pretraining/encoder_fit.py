"""Whether the settings of a training fit the encoder of the biLM."""

from ..bilm.config import BiLMConfig
from ..bilm.transformer import transformer_of
from ..errors import Errors
from .config import PretrainConfig


def check_encoder_fit(config: PretrainConfig, bilm: BiLMConfig) -> None:
    """An encoder without state sees only one sentence, so a sentence has to fit into a chunk of a lane.

    config (PretrainConfig): The settings.
    bilm (BiLMConfig): Config of the biLM.
    RAISES (ValueError): EL342 with all problems.
    """
    if bilm.has_state:
        return
    longest, most = config.max_sentence_tokens, transformer_of(bilm).max_positions
    problems = []
    if not config.reset_blocks:
        problems.append("reset_blocks is false, should be true")
    if longest + 1 > config.unroll_steps:
        wanted = f"at most unroll_steps - 1 ({config.unroll_steps - 1})"
        problems.append(f"max_sentence_tokens is {longest}, should be {wanted}, since BOS and EOS are tokens too")
    if longest + 2 > most:
        wanted = f"at most transformer.max_positions - 2 ({most - 2})"
        problems.append(f"max_sentence_tokens is {longest}, should be {wanted}")
    if problems:
        raise ValueError(Errors.EL342.format(problems="; ".join(problems)))
