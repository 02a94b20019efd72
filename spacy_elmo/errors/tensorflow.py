"""Errors of TensorFlow checkpoints and TF-Hub modules. EL320, EL321, EL326."""

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
    EL326 = (
        "Adagrad's accumulators cannot be taken over from '{path}': {reason}. Pass a training checkpoint of bilm-tf in "
        "paths.init, or set pretraining.optimizer.init_accumulators = false to start with initial_accumulator."
    )
