"""Warnings of all rings. WL020 and up."""

from .catalogue import Catalogue


class Warnings(metaclass=Catalogue):
    """Templates for `str.format`."""

    WL020 = (
        "The vocabulary '{path}' next to the weights is ignored, since the model does not need it: {reason} Pass "
        "vocab=... (`--vocab`) to use another one."
    )
    WL021 = (
        "The adaptive softmax over {n_words} words is not saved: the bilm-tf format has only the full softmax. Vectors "
        "do not need it; save with format \"native\" (`--to native`) to keep it for perplexity and further training."
    )
    WL060 = (
        "The ELMo listener (upstream = '{upstream}') found no layers on {n_docs} Docs and uses zeros. Make sure that "
        "the ELMo component is enabled and comes before the component that listens."
    )
    WL061 = (
        "Layers of training Docs could not be cached in '{folder}' ({reason}); later epochs compute them again. Free "
        "disk space there, choose another folder with the environment variable TMPDIR, or set layer_cache_mb to 0."
    )
    WL064 = (
        "The biLM of '{name}' was trained on the language '{found}', but the pipeline's language is '{wanted}': most "
        "words will be unlike those it knows. Load a biLM of that language with `elmo.load_weights(path)` or the "
        "setting `weights`. If this one is meant, write the right language as \"lang\" into its meta.json."
    )
    WL065 = (
        "No component listens to '{name}': training computes its layers and uses them nowhere, and {components} have "
        "another tok2vec. To train them on ELMo, replace the tok2vec block of each, and all blocks below it, by:\n"
        "{blocks}\nIf only the vectors of '{name}' are wanted, name it in annotating_components of [training]."
    )
    WL100 = (
        "The vocabulary '{path}' starts with {found}; by convention it starts with {wanted}, then words in order of "
        "descending frequency, which the sampled and the adaptive softmax rely on. `elmo vocab` creates one in this "
        "order."
    )
    WL120 = (
        "'{path}' has {found} bytes, but had {wanted} when the checkpoint was written. The missing lines are lost, "
        "also for the perplexity curve; training is not affected."
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
