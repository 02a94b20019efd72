"""ELMo at the input and at the output of a task's encoder: Peters et al. (2018), sec. 3.3 and 5.2.

[x; ELMo] -> dropout -> encoder -> [h; ELMo'], each ELMo with a layer mix of its own.
"""

from typing import List, Optional

from spacy.tokens import Doc
from thinc.api import Linear, Model, chain, concatenate, with_array
from thinc.types import Floats2d

from ..errors import Errors
from .bilstm import ANY_WIDTH
from .dropout import check_dropout, make_dropout
from .elmo_layers import ELMO_LAYERS, check_elmo

Sequences = List[Floats2d]
Tok2Vec = Model[List[Doc], Sequences]
READS_DOCS = ("extract_features", "tok2vec-listener", *ELMO_LAYERS)  # names of layers


def ElmoTaskEncoder(
    embed: Tok2Vec,
    encode: Model[Sequences, Sequences],
    elmo_input: Optional[Tok2Vec] = None,
    elmo_output: Optional[Tok2Vec] = None,
    dropout: Optional[float] = None,
) -> Tok2Vec:
    """Encode word features in their context, with ELMo beside the input, the output, or both.

    embed (Model[List[Doc], List[Floats2d]]): x, the task's own word features, such as `spacy.MultiHashEmbed.v2`.
    encode (Model[List[Floats2d], List[Floats2d]]): The encoder. `spacy-elmo.BiLSTMEncoder.v1` reads the joined vectors
        as they are; others, such as `spacy.MaxoutWindowEncoder.v2`, read a linear projection to their width.
    elmo_input (Optional[Model[List[Doc], List[Floats2d]]]): `spacy-elmo.ElmoListener.v1`, whose vectors are joined to
        the encoder's input; null for none.
    elmo_output (Optional[Model[List[Doc], List[Floats2d]]]): Another one, with a mix of its own, whose vectors are
        joined to the encoder's output; null for none.
    dropout (Optional[float]): Dropout of the joined input; null for that of [training].
    RETURNS (Model[List[Doc], List[Floats2d]]): A `tok2vec` layer.
    RAISES (ValueError): EL060 for settings that make no sense, without any ELMo.
    """
    problems = check_dropout(dropout) + _check_encoder(encode)
    if embed.attrs.get(ANY_WIDTH):
        problems.append(f"embed is the encoder '{embed.name}', should embed words, such as spacy.MultiHashEmbed.v2")
    for name, layer in (("elmo_input", elmo_input), ("elmo_output", elmo_output)):
        problems += [] if layer is None else check_elmo(name, layer)
    if problems:
        raise ValueError(Errors.EL060.format(block="task encoder", problems="; ".join(problems)))
    if elmo_input is None and elmo_output is None:
        raise ValueError(
            "The task encoder places no ELMo: elmo_input and elmo_output are both null. Give it a block with "
            '@architectures = "spacy-elmo.ElmoListener.v1" at one or both; without ELMo, use `spacy.Tok2Vec.v2`.'
        )
    joined = embed if elmo_input is None else concatenate(embed, elmo_input)  # [x; ELMo]
    projection = [] if encode.attrs.get(ANY_WIDTH) else [_project(encode)]
    hidden: Tok2Vec = chain(joined, make_dropout(dropout), *projection, encode)  # h
    encoder: Tok2Vec = hidden if elmo_output is None else concatenate(hidden, elmo_output)  # [h; ELMo']
    for name, layer in (("embed", embed), ("encode", encode), ("elmo_input", elmo_input), ("elmo_output", elmo_output)):
        encoder.set_ref(name, layer)
    return encoder


def _check_encoder(encode: Model[Sequences, Sequences]) -> List[str]:
    if any(node.name in READS_DOCS for node in encode.walk()):
        wanted = "should be an encoder of vectors, such as spacy-elmo.BiLSTMEncoder.v1"
        return [f"encode is '{encode.name}', which reads Docs, {wanted}"]
    is_fine = encode.attrs.get(ANY_WIDTH) or encode.maybe_get_dim("nO") is not None
    return [] if is_fine else [f"encode is '{encode.name}' of unknown width, should be an encoder with a `width`"]


def _project(encode: Model[Sequences, Sequences]) -> Model[Sequences, Sequences]:
    """RETURNS (Model[List[Floats2d], List[Floats2d]]): A linear layer to the width that the encoder reads."""
    projection: Model[Sequences, Sequences] = with_array(Linear(encode.maybe_get_dim("nO")))
    return projection
