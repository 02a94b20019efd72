"""Warnings of all rings. WL020 and up."""

from .catalogue import Catalogue


class Warnings(metaclass=Catalogue):
    """Templates for `str.format`."""

    WL020 = (
        "The vocabulary '{path}' beside the weights is ignored, the model does not need it: {reason} "
        "Pass vocab=... (`--vocab`) to use another one."
    )
    WL021 = (
        "The adaptive softmax over {n_words} words is left out: files of bilm-tf know only the full one. Vectors do "
        "not need it; save with format \"native\" (`--to native`) to keep it for perplexities and further training."
    )
    WL060 = (
        "The ELMo listener (upstream = '{upstream}') found no layers on {n_docs} Docs and uses zeros. "
        "Is the ELMo component in the pipeline, before the component that listens, and enabled?"
    )
    WL061 = (
        "Layers of training Docs could not be kept in '{folder}' ({reason}), later epochs compute them again. Make "
        "room there, choose another folder with the environment variable TMPDIR, or set layer_cache_mb to 0."
    )
    WL100 = (
        "The vocabulary '{path}' begins with {found}, by convention it begins with {wanted}, then words by frequency, "
        "which the sampled and the adaptive softmax rely on. `elmo vocab` makes one in this order."
    )
    WL120 = (
        "'{path}' has {found} bytes, but had {wanted} when the checkpoint was written. The lines that are missing do "
        "not come back, and neither does their part of the curve; training is not affected."
    )
    WL121 = (
        "No biLM for the language '{lang}' comes with the package, so the config names none. Give --bilm PATH now, or "
        "--paths.bilm PATH (--paths.init PATH for adaptation) when you train."
    )
    WL122 = (
        "'{bilm}' is neither a packaged biLM ({packaged}) nor a file or folder that is there now. The config names it "
        "anyway: put the weights there before you train."
    )
    WL123 = (
        "The component '{name}' does not listen to ELMo: its model has no `tok2vec` block to put a listener in. It "
        "is in the config as spaCy makes it."
    )
