"""Errors of the component, the listeners and vectors on Docs. EL060 to EL099."""

from .catalogue import Catalogue


class PipelineErrors(metaclass=Catalogue):
    """Templates for `str.format`."""

    EL060 = "The {block} has settings that make no sense: {problems}. Correct these settings."
    EL061 = (
        "contexts is 'sentences', but a Doc has no sentence boundaries: '{text}'. Put a component that sets them "
        "('sentencizer', 'senter', 'parser') before this one, or choose contexts = \"auto\"."
    )
    EL062 = (
        "There are no ELMo vectors for '{text}'. Run the Doc through a pipeline with `nlp.add_pipe(\"elmo\")` first; "
        "the extension prefix asked for is '{name}'. Keep user data where a Doc is copied: `Doc.to_bytes()`, "
        "`DocBin(store_user_data=True)`, `span.as_doc(copy_user_data=True)`."
    )
    EL063 = (
        "The Doc has other tokens than when its ELMo vectors were computed (extension prefix '{name}'): '{text}'. "
        "Compute them again with `nlp.get_pipe(\"elmo\")(doc)`, or retokenize before the ELMo component."
    )
    EL064 = (
        "The Doc keeps the mixed vectors only, not the layers (extension prefix '{name}'). "
        "Set store = \"both\" or \"layers\" in the config of the ELMo component."
    )
    EL065 = "The loader gave a {found}, but should give a BiLM. Use `spacy-elmo.BiLMLoader.v1` or a function like it."
    EL066 = (
        "The weights have other sizes than the model's `bilm` block asks for: {problems}. "
        "Load other weights, or set bilm = null to take the sizes from the weights."
    )
    EL067 = (
        "The ELMo model has no weights, and its `bilm` block asks for other sizes than the packaged biLM '{name}' has: "
        "{problems}. Name the weights: [initialize.components.elmo.loader] with @misc = \"spacy-elmo.BiLMLoader.v1\"."
    )
    EL068 = (
        "The listener mixes {wanted}, but found {found}. It was trained with another biLM: load that one, or train "
        "the listening component again."
    )
    EL069 = (
        "initial_weights has {n_weights} weights, but the biLM gives {n_layers} layers (the token layer included). "
        "Give one weight per layer, or null for equal shares."
    )
    EL070 = (
        "The tokens of a training batch have changed since the ELMo component computed its layers (batch {found}, "
        "wanted {wanted}). A component between it and the ELMo listener must not change tokens."
    )
    EL071 = (
        "The ELMo listener (upstream = '{upstream}') does not know its width. Put a component of the factory 'elmo' "
        "before the component that listens, under the name that `upstream` says."
    )
    EL072 = (
        "The ELMo listener (upstream = '{upstream}') got no layers for the Docs of a training batch. If the ELMo "
        "component is in `frozen_components`, name it in `annotating_components` too; hand on its Docs, not copies."
    )
    EL073 = (
        "There is already an extension attribute '{owner}._.{name}' that is not ours. "
        "Choose another prefix in the config of the ELMo component."
    )
    EL074 = (
        "It is not clear whose ELMo vectors belong to '{text}' (extension prefix '{name}'): `as_doc` and "
        "`Doc.from_docs` were called more than once in a row, and they do not tell which tokens they took. Read "
        "`._.{name}` of each part once before the next step (`part._.{name}`, then `Doc.from_docs([part, ...])`), or "
        "compute the Doc again."
    )
    EL075 = (
        "The component '{name}' has no weights, but [initialize.components.{name}.loader] names some. "
        "Call `nlp.initialize()` first. If '{name}' is in `frozen_components`, take it out: spaCy initializes no "
        "frozen component, and `frozen = true` in its model already keeps the biLM as it is."
    )
    EL076 = (
        "layer_norm is \"allennlp\", and the biLM is trained (frozen = false). This norm counts the sentence marks, "
        "for which there is no gradient. Choose layer_norm = \"bilm-tf\" or \"token\", or frozen = true."
    )
    EL077 = (
        "layer_norm is \"allennlp\" in a listener (upstream = '{upstream}'), but Docs came without the sentence marks "
        "that this norm counts: they were cut, joined, or computed by a component without such a listener. "
        "Run the ELMo component of this pipeline on them."
    )
    EL078 = (
        "The ELMo components '{first}' and '{second}' have the same prefix '{prefix}', so that the second would "
        "overwrite the vectors that the listeners of the first read. Give one of them another prefix in its config, "
        "and remove '{second}' before you add it again."
    )
    EL090 = (
        "The stored ELMo data of the Doc '{text}' (extension prefix '{name}') is damaged: {problems}. Read the Doc "
        "from an intact copy, or compute its vectors again with `nlp.get_pipe(\"elmo\")(doc)`."
    )
    EL091 = (
        "The stored ELMo vectors of the Doc '{text}' (extension prefix '{name}') hold NaN, infinity or values too "
        "large to compute with; a biLM gives small finite numbers. Read the Doc from an intact copy, or compute its "
        "vectors again with `nlp.get_pipe(\"elmo\")(doc)`."
    )
    EL092 = (
        "The Doc '{text}' was joined from Docs whose ELMo vectors (extension prefix '{name}') have different sizes: "
        "{found}. Compute them all with the same biLM, or give each ELMo component a prefix of its own."
    )
