"""Errors of the component, the listeners and vectors on Docs. EL060 to EL099."""

from .catalogue import Catalogue


class PipelineErrors(metaclass=Catalogue):
    """Templates for `str.format`."""

    EL060 = "The {block} has invalid settings: {problems}. Correct these settings."
    EL061 = (
        "contexts is 'sentences', but a Doc has no sentence boundaries: '{text}'. Add a component that sets them "
        "('sentencizer', 'senter' or 'parser') before this one, or set contexts = \"auto\"."
    )
    EL062 = (
        "There are no ELMo vectors for '{text}' (extension prefix '{name}'). Process the Doc with a pipeline that has "
        "an ELMo component (`nlp.add_pipe(\"elmo\")`). To keep the vectors of a Doc that is copied, copy its user "
        "data: `Doc.to_bytes()`, `DocBin(store_user_data=True)`, `span.as_doc(copy_user_data=True)`."
    )
    EL063 = (
        "The tokens of the Doc have changed since its ELMo vectors were computed (extension prefix '{name}'): "
        "'{text}'. Compute the vectors again with `nlp.get_pipe(\"elmo\")(doc)`, or retokenize before the ELMo "
        "component. With average_merged = true in its config, merged tokens get the mean of their vectors."
    )
    EL064 = (
        "The Doc has only the mixed vectors, not the layers (extension prefix '{name}'). Set store = \"both\" or "
        "\"layers\" in the config of the ELMo component."
    )
    EL065 = (
        "The loader returned a {found}, but should return a BiLM. Use `spacy-elmo.BiLMLoader.v1`, or a function that "
        "returns a BiLM as it does."
    )
    EL066 = (
        "The sizes of the weights differ from those in the model's `bilm` block: {problems}. Load other weights, or "
        "set bilm = null to take the sizes from the weights."
    )
    EL067 = (
        "The ELMo model has no weights, and its `bilm` block asks for other sizes than the packaged biLM '{name}' has: "
        "{problems}. Name the weights: `weights` in the config of the component, or `elmo.load_weights(path)`, or "
        "[initialize.components.elmo.loader] with @misc = \"spacy-elmo.BiLMLoader.v1\"."
    )
    EL068 = (
        "The listener expects {wanted}, but found {found}. It was trained with another biLM: load that biLM, or train "
        "the listening component again."
    )
    EL069 = (
        "initial_weights has {n_weights} weights, but the biLM has {n_layers} layers (including the token layer). Give "
        "one weight per layer, or null for equal weights."
    )
    EL070 = (
        "The tokens of a training batch have changed since the ELMo component computed its layers (batch {found}, "
        "expected {wanted}). Move components that change tokens before the ELMo component."
    )
    EL071 = (
        "The width of the ELMo listener (upstream = '{upstream}') is not known. Add a component of the factory 'elmo' "
        "before the component that listens, with the name given in `upstream`."
    )
    EL072 = (
        "The ELMo listener (upstream = '{upstream}') got Docs without layers to train on, and there is no ELMo "
        "component to compute them. Put a component of the factory 'elmo' before the component that listens, under "
        "the name that `upstream` says."
    )
    EL073 = (
        "The extension attribute '{owner}._.{name}' is already registered by other code. Choose another prefix in the "
        "config of the ELMo component."
    )
    EL074 = (
        "The ELMo vectors of '{text}' (extension prefix '{name}') cannot be matched to its tokens: `as_doc` and "
        "`Doc.from_docs` were called more than once in a row, and they do not record which tokens they copied. Read "
        "`._.{name}` of each part once before the next step (`part._.{name}`, then `Doc.from_docs([part, ...])`), or "
        "process the Doc again."
    )
    EL075 = (
        "The component '{name}' has no weights, but [initialize.components.{name}.loader] names some. "
        "Load them with `nlp.get_pipe('{name}').load_weights(path)`, which keeps trained components as they are; in a "
        "pipeline without any, `nlp.initialize()` calls the loader. If '{name}' is in `frozen_components`, take it "
        "out: spaCy initializes no frozen component, and `frozen = true` in its model already freezes the biLM."
    )
    EL076 = (
        "layer_norm is \"allennlp\", but the biLM is trained (frozen = false). This norm includes the vectors of BOS "
        "and EOS, for which there is no gradient. Set layer_norm = \"bilm-tf\" or \"token\", or frozen = true."
    )
    EL077 = (
        "layer_norm is \"allennlp\" in a listener (upstream = '{upstream}'), but Docs have no vectors of BOS and EOS, "
        "which this norm includes: they were cut, joined, or processed by a component without such a listener. Process "
        "them with the ELMo component of this pipeline."
    )
    EL078 = (
        "The ELMo components '{first}' and '{second}' have the same prefix '{prefix}', so the second would overwrite "
        "the vectors that the listeners of the first read. Set another prefix in one of the configs, and remove "
        "'{second}' before you add it again."
    )
    EL079 = (
        "'{owner}._.{name}' cannot be set: it is computed by the ELMo component. To change values, take a copy "
        "(`vectors = {owner}._.{name}.copy()`); to keep it, give it an extension attribute of its own."
    )
    EL080 = (
        "The ELMo listener (upstream = '{upstream}') got other Docs to train on than the ELMo component, whose biLM is "
        "trained too (frozen = false): their gradient would not reach it. Pass the Docs of the batch, or copies with "
        "the same tokens, or choose frozen = true."
    )
