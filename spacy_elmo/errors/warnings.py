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
    WL101 = (
        "The learning rate rises during {n_warmup} of the {n_updates} updates of this run, so that hardly anything is "
        "learned. Set schedule.warmup_steps = null (then schedule.warmup_share counts, 5 % of the run), fewer "
        "warmup_steps, a smaller batch_size, or more max_passes."
    )
    WL102 = (
        "No token of the training text becomes <UNK>, so that the softmax never learns when to expect it, and the "
        "perplexity of any text with an unknown word is meaningless. Leave rare words out of the vocabulary: "
        "min_count of 2 or more, or fewer n_words."
    )
    WL103 = (
        "{share} of the tokens of {source} end in punctuation ('{example}'), as in raw text, where white space does not "
        "separate tokens. If it is raw text, name its language and spaCy tokenizes it: --lang en for English "
        "(`elmo pretrain`: --corpus.lang en)."
    )
    WL104 = (
        "The run reads the text {n_passes} times, and a biLM knows a text by heart after a few. Lower max_tokens, set "
        "max_passes in its place, or let patience end the run when the held-out perplexity no longer falls."
    )
    WL120 = (
        "'{path}' has {found} bytes, but had {wanted} when the checkpoint was written. The lines that are missing do "
        "not come back, and neither does their part of the curve; training is not affected."
    )
