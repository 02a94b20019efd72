"""Templates of warnings; `errors` hands them on."""


class Warnings:
    """Templates of warnings, for `str.format`."""

    # bilm, text, encoding: WL001 to WL019

    # weights: WL020 to WL039
    WL020 = (
        "The vocabulary '{path}' beside the weights is ignored, the model does not need it: {reason} "
        "Pass vocab=... (`--vocab`) to use another one."
    )
    WL021 = (
        "The adaptive softmax over {n_words} words is left out: files of bilm-tf know only the full one. Vectors do "
        "not need it; save with format \"native\" (`--to native`) to keep it for perplexities and further training."
    )

    # ml, pipeline: WL060 to WL079
    WL060 = (
        "The ELMo listener (upstream = '{upstream}') found no layers on {n_docs} Docs and uses zeros. "
        "Is the ELMo component in the pipeline, before the component that listens, and enabled?"
    )

    WL061 = (
        "Layers of training Docs could not be kept in '{folder}' ({reason}), later epochs compute them again. Make "
        "room there, choose another folder with the environment variable TMPDIR, or set layer_cache_mb to 0."
    )

    WL062 = (
        "nlp.pipe starts {n_process} processes on {n_cores} cores: that is no faster, since they wait for each other, "
        "and each takes memory. Set n_process to {n_cores} at most; one process computes with several threads already."
    )

    WL063 = (
        "nlp.pipe starts {n_process} processes on {n_cores} cores, and has only ELMo to run. One process keeps both "
        "cores busy, a direction of the biLM on each: more gain little, and Docs take time to go there and back. "
        "Leave n_process at 1, unless the pipeline has other components that take most of the time."
    )

    # the rest: WL100 and up
    WL100 = (
        "The vocabulary '{path}' begins with {found}, by convention it begins with {wanted}, then words by frequency, "
        "which the sampled and the adaptive softmax rely on. `elmo vocab` makes one in this order."
    )
    WL120 = (
        "'{path}' has {found} bytes, but had {wanted} when the checkpoint was written. The lines that are missing do "
        "not come back, and neither does their part of the curve; training is not affected."
    )
