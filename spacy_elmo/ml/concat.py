"""A `tok2vec` layer that concatenates ELMo and spaCy's own embedding."""

from typing import List, Optional

from spacy.tokens import Doc
from thinc.api import Linear, Model, chain, concatenate, with_array
from thinc.types import Floats2d

from ..errors import Errors
from .elmo_layers import check_elmo


def Tok2VecWithElmo(
    embed: Model[List[Doc], List[Floats2d]],
    elmo: Model[List[Doc], List[Floats2d]],
    encode: Optional[Model[List[Floats2d], List[Floats2d]]] = None,
) -> Model[List[Doc], List[Floats2d]]:
    """Concatenate the vectors of an embedding and of ELMo; with an encoder, project them to its width and encode.

    embed (Model[List[Doc], List[Floats2d]]): An embedding or a whole tok2vec, such as `spacy.MultiHashEmbed.v2` or
        `spacy.HashEmbedCNN.v2`.
    elmo (Model[List[Doc], List[Floats2d]]): `spacy-elmo.ElmoListener.v1`.
    encode (Optional[Model[List[Floats2d], List[Floats2d]]]): An encoder with equal input and output width, such as
        `spacy.MaxoutWindowEncoder.v2`; null for the concatenated vectors themselves.
    RETURNS (Model[List[Doc], List[Floats2d]]): A `tok2vec` layer.
    RAISES (ValueError): EL060 if `elmo` has no ELMo.
    """
    problems = check_elmo("elmo", elmo)
    if problems:
        raise ValueError(Errors.EL060.format(block="Tok2VecWithElmo", problems="; ".join(problems)))
    joined: Model[List[Doc], List[Floats2d]] = concatenate(embed, elmo)
    if encode is None:
        return joined
    to_width: Model[List[Floats2d], List[Floats2d]] = with_array(Linear(encode.maybe_get_dim("nO")))
    return chain(joined, to_width, encode)
