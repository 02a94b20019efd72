"""Errors of TensorFlow checkpoints and TF-Hub modules. EL320 to EL329."""

from .catalogue import Catalogue


class TensorFlowErrors(metaclass=Catalogue):
    """Templates for `str.format`."""

    EL320 = (
        "The TensorFlow checkpoint file '{path}' is refused: {reason}. It is truncated, damaged or not a checkpoint. "
        "Compare its size with that of the original, and copy or download all files of the checkpoint again."
    )
    EL321 = (
        "The TensorFlow checkpoint '{path}' is incomplete: there is no '{missing}' in the same folder. Copy all files "
        "that begin with the name of the checkpoint into one folder."
    )
    EL322 = (
        "The TensorFlow checkpoint '{path}' has no biLM: none of its {n} variables is 'char_embed' or 'embedding' in a "
        "scope with LSTMs. It has:{names}\nUse a checkpoint of bilm-tf, or a module of TF-Hub such as google/elmo/3."
    )
    EL323 = (
        "The TensorFlow checkpoint '{path}' has {n} biLMs, in the scopes {scopes}, but should have one. Save the "
        "variables of one of them in a checkpoint of its own."
    )
    EL324 = (
        "'{path}' has {n} TensorFlow checkpoints ({names}), and no file 'checkpoint' that names the newest. Pass the "
        "path of one of the .index files."
    )
    EL325 = (
        "The sizes of the biLM in the TF-Hub module '{path}' cannot be derived from its variables: {problems}. Use a "
        "module of ELMo such as google/elmo/3."
    )
    EL326 = (
        "Adagrad's accumulators cannot be taken over from '{path}': {reason}. Pass a training checkpoint of bilm-tf in "
        "paths.init, or set pretraining.optimizer.init_accumulators = false to start with initial_accumulator."
    )
