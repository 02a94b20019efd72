"""Warnings of all packages, from WL020."""

from .catalogue import Catalogue


class Warnings(metaclass=Catalogue):
    """Templates for `str.format`."""

    WL020 = (
        "The file '{path}' next to the weights cannot be used as vocabulary: {reason} The biLM is loaded without a "
        "vocabulary, which its vectors do not need. Correct the file, or pass vocab=... (`--vocab`) to use another one."
    )
    WL021 = (
        "The precision '{precision}' is slower than float32 on this {device}: {reason}. Choose 'float32' if speed "
        "matters (for a saved pipeline: components.NAME.model.precision in the `config` of `spacy.load`)."
    )
    WL060 = (
        "{listener} found no layers on {n_docs} Docs and uses zeros. Is an ELMo component in the pipeline, before the "
        'component with the listener, under the name in `upstream` ("*" for the nearest one), and enabled?'
    )
    WL064 = (
        "The biLM of '{name}' was trained on the language '{found}', but the language of the pipeline is '{wanted}', "
        "so its vectors will be poor. {published} Load a biLM for '{wanted}' with `elmo.load_weights(path)` or the "
        'setting `weights`. If the language of this biLM is recorded wrongly, correct "lang" in its meta.json.'
    )
    WL065 = (
        "No component listens to '{name}', so its layers have no effect on training: the models of {components} do not "
        "use them.{order} To train them on ELMo, give them listeners.{python}In a config, replace "
        "their `tok2vec`, and all blocks below it (`python -m spacy elmo init-config` writes such configs, also for "
        "models without a `tok2vec`):\n{blocks}\nIf you only need the vectors of '{name}', add it to "
        "annotating_components in [training]."
    )
    WL066 = (
        "Components were trained with another biLM ({trained}) than '{name}' has ({found}), so that their predictions "
        "may be poor: {components}. Train them further with it, or load the biLM they were trained with "
        "(`nlp.get_pipe(\"{name}\").load_weights(path)`; in a config, give '{name}' the `source` that they have). For "
        "a component that is not to be trained, `nlp.replace_listeners` makes a copy of its biLM that does not change."
    )
    WL071 = (
        "The training goes on after the end of the {name}: num_steps is {num_steps}, so that all further updates have "
        "the lowest rate, {rate}. Set num_steps to the updates of the whole training, the max_steps of [training]."
    )
    WL075 = (
        "The training examples have entities with labels that '{name}' does not know: {unknown}. It learns that they "
        "are no entities. It knows {known}, and no label can be added once it is initialized. If this is not intended, "
        "train a new component in place of it, or correct the labels of the examples."
    )
    WL102 = (
        "No token of the training text is <UNK>, so the softmax does not learn its probability, and the perplexity of "
        "text with unknown words is meaningless. Exclude rare words from the vocabulary: set min_count to 2 or more, "
        "or a smaller n_words."
    )
    WL103 = "{share} of the tokens of {source} end in punctuation ('{example}'), so it may be raw text. {remedy}"
    WL140 = (
        "The biLM of this Elmo module stays in float32, only its mixes become {dtype}, and with them the "
        "representations. To compute in reduced precision, make the module with "
        '`load_bilm(..., precision="bfloat16")` or "int8" (CPUs), or `.set_precision("float16")` (GPUs).'
    )
    WL141 = (
        "The biLM is shared with {n_others} other Elmo module(s), which {before} it. With trainable = {trainable} it "
        "is now {change} in all of them. Give all modules of a biLM the same `trainable`, or make this one with "
        "weights of its own: `Elmo(copy.deepcopy(bilm), trainable={trainable})`."
    )
    WL142 = (
        "Modules of the biLM have hooks or parametrizations ({names}) that have no effect on its encoder here: the "
        "state is '{state}' and the precision '{precision}'. They have an effect with state 'reset' in 'float32'."
    )
    WL143 = (
        "Hooks of modules inside {owner} are not called: {names}. Put them on the {owner} itself, or use "
        "`spacy_elmo.nn.Elmo`, which calls those of every module."
    )
    WL310 = (
        "'{path}' does not tell the clips and the activation of {name}, and there is no options.json. Assumed are "
        "those of AllenNLP's own biLMs: cell_clip 3.0, proj_clip 3.0, relu. If this biLM has others, its vectors are "
        "wrong: pass its options.json with `load_bilm(options=..., weights=...)` (`--options`)."
    )
    WL312 = (
        "'{path}' has cached vectors of {n_words} words (vocab_to_cache), and no config says that they were constant. "
        "They are not used: the biLM computes all words from their characters. If they were trained, vectors differ "
        "from AllenNLP's."
    )
    WL313 = (
        "The softmax of '{path}' is left out, so that perplexities cannot be computed: {reason} Vectors do not need "
        "it. To keep it, put the vocabulary that the model was trained with into the archive or folder of the model: "
        "vocabulary/tokens.txt, with <S> and </S> among its words."
    )
