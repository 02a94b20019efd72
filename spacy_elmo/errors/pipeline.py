"""Errors of the component, the listeners and vectors on Docs. EL060 to EL099, EL375 to EL378."""

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
        'an ELMo component (`nlp.add_pipe("elmo")`). To keep the vectors of a Doc that is copied, copy its user '
        "data: `Doc.to_bytes()`, `DocBin(store_user_data=True)`, `span.as_doc(copy_user_data=True)`."
    )
    EL063 = (
        "The tokens of the Doc have changed since its ELMo vectors were computed (extension prefix '{name}'): "
        "'{text}'. Compute the vectors again with the ELMo component (`nlp.get_pipe(NAME)(doc)`), or retokenize before "
        "it. With average_merged = true in its config, merged tokens get the mean of their vectors."
    )
    EL064 = (
        "The Doc has only the mixed vectors, not the layers (extension prefix '{name}'). Set store = \"both\" or "
        '"layers" in the config of the ELMo component, and do not remove the layers from the Doc.'
    )
    EL065 = (
        "The loader returned a {found}, but should return a BiLM. Use `spacy-elmo.BiLMLoader.v1`, or a function that "
        "also returns a BiLM."
    )
    EL066 = (
        "The sizes of the weights differ from those in the model's `bilm` block: {problems}. Load other weights, or "
        "set bilm = null to take the sizes from the weights."
    )
    EL067 = (
        "The ELMo model has no weights, and the sizes in its `bilm` block differ from those of the packaged biLM "
        "'{name}': {problems}. Specify the weights: `weights` in the config of the component, or "
        "`elmo.load_weights(path)`, or [initialize.components.elmo.loader] with @misc = "
        '"spacy-elmo.BiLMLoader.v1".'
    )
    EL068 = (
        "The ELMo listener{owner} expects {wanted}, but found {found}. It was trained with another biLM: load that "
        "biLM, or train the listening component again."
    )
    EL069 = (
        "{setting} has {n_weights} weights ({weights}), but the biLM has {n_layers} layers (including the token "
        "layer). Give one weight per layer, or null for equal weights."
    )
    EL070 = (
        "The tokens of a training batch have changed since the ELMo component computed its layers (batch {found}, "
        "expected {wanted}). Move components that change tokens before the ELMo component."
    )
    EL071 = (
        "The ELMo listener{owner} (upstream = '{upstream}') has no ELMo component to listen to: {problem}. {remedy}."
    )
    EL072 = (
        "The ELMo listener{owner} (upstream = '{upstream}') got training Docs without layers, and has no ELMo "
        "component to compute them: {problem}. {remedy}."
    )
    EL073 = (
        "The extension attribute '{owner}._.{name}' is already registered by other code. Choose another prefix in the "
        "config of the ELMo component."
    )
    EL074 = (
        "The ELMo vectors of '{text}' (extension prefix '{name}') cannot be matched to its tokens: `as_doc` or "
        "`Doc.from_docs` was called more than once in a row, and they do not record which tokens they copied. Read "
        "`._.{name}` of each Doc once before the next call (`doc._.{name}`, then `Doc.from_docs([doc, ...])`), or "
        "process the Doc again."
    )
    EL075 = (
        "The component '{name}' has no weights, but [initialize.components.{name}.loader] defines a loader that was "
        "not called. Load the weights with `nlp.get_pipe('{name}').load_weights(path)`, which does not change trained "
        "components; in an untrained pipeline, `nlp.initialize()` calls the loader. If '{name}' is in "
        "`frozen_components`, remove it: spaCy does not initialize frozen components, and `frozen = true` in its model "
        "already freezes the biLM. If it is in `disabled` of [nlp], remove it there."
    )
    EL076 = (
        'layer_norm is "allennlp", but the biLM is trained (frozen = false). This norm includes the vectors of BOS '
        'and EOS, which have no gradient. Set layer_norm = "bilm-tf" or "token", or frozen = true.'
    )
    EL077 = (
        "layer_norm is \"allennlp\" in a listener (upstream = '{upstream}'), but some Docs have no vectors of BOS and "
        "EOS, which this norm includes: these Docs were cut, joined, or processed by a component without such a "
        "listener. Process them with the ELMo component of this pipeline."
    )
    EL078 = (
        "The ELMo components '{first}' and '{second}' have the same prefix '{prefix}', so '{second}' would overwrite "
        "the vectors that the listeners of '{first}' read. Remove '{second}' and add it again with another prefix in "
        "its config."
    )
    EL079 = (
        "'{owner}._.{name}' cannot be set: the ELMo component computes it. To change values, copy them "
        "(`vectors = {owner}._.{name}.copy()`); to store the copy on the Doc, register another extension attribute."
    )
    EL080 = (
        "The ELMo listener (upstream = '{upstream}') got other training Docs than the ELMo component, whose biLM is "
        "trained too (frozen = false), so their gradient would not reach the biLM. Pass the Docs of the batch, or "
        "copies with the same tokens, or set frozen = true."
    )
    EL085 = (
        "fine_tuning.layers names {unknown}, but the layers of this biLM that have weights to train are {known} (0 is "
        "the token layer, {top} the top LSTM layer). Correct the list, or set layers = null to train all."
    )
    EL081 = (
        "The task encoder{owner} places no ELMo: elmo_input and elmo_output are both null. Give it a block with "
        '@architectures = "spacy-elmo.ElmoListener.v1" at elmo_input, at elmo_output, or one at each; without ELMo, '
        "use `spacy.Tok2Vec.v2`."
    )
    EL082 = (
        "The training part has no words: none of the {n_examples} training examples that '{name}' got has a token "
        "other than white space. Set --paths.train (or the path in [corpora.train]) to a .spacy file, or a folder of "
        "them, that has annotated Docs.{limit}"
    )
    EL083 = (
        "Components that are not trained (in frozen_components, or in `disabled` of [nlp]) were trained with another "
        "biLM ({trained}) than '{name}' has ({found}), and cannot adapt to it: {components}. Load that biLM "
        "([initialize.components.{name}.loader], `weights` of the component, or a `source` that has it), or remove "
        "them from there to train them further."
    )
    EL084 = (
        "The labels of '{name}' are {found}, should be a list of texts, as `spacy init labels` writes it for a "
        "component 'crf_ner' (that of 'ner' has the actions of a transition system). Correct "
        "[initialize.components.{name}.labels], or remove it to collect the labels from the training data."
    )
    EL086 = (
        "No biLM is given: the path in [initialize.components.elmo.loader] is null or empty. Add --paths.bilm, with "
        "the name of a packaged model or the path of weights in any known format, or set the path in this block."
    )
    EL087 = (
        "The model of '{name}' is '{found}', should be the architecture {wanted}. Change [components.{name}.model], or "
        "use the factory that this model is for."
    )
    EL088 = (
        "The biLM of '{name}' is trained (frozen = false), but components that are not trained (in frozen_components, "
        "or in `disabled` of [nlp]) read its layers, which change with each update: {components}. Give each of them a "
        "copy of the biLM that does not change (replace_listeners = {paths} in [components.{first}], beside its "
        "`source`), remove them from there, or set frozen = true in [components.{name}.model]."
    )
    EL089 = (
        "Two biLMs are given for '{name}': weights = \"{weights}\" in [components.{name}], and the loader in "
        "[initialize.components.{name}.loader]. Remove this block, or set weights = null."
    )
    EL099 = (
        "[initialize.components.{block}.loader] gives a biLM, but the pipeline ({pipeline}) has no component "
        "'{block}', so that it would not be loaded. Rename the block to [initialize.components.{name}.loader], or "
        "remove it."
    )
    EL090 = (
        "The stored ELMo data of the Doc '{text}' (extension prefix '{name}') is damaged: {problems}. Read the Doc "
        "from an intact copy, or compute its vectors again with the ELMo component (`nlp.get_pipe(NAME)(doc)`)."
    )
    EL091 = (
        "The stored ELMo vectors of the Doc '{text}' (extension prefix '{name}') contain NaN, infinity or very large "
        "values that would overflow. Read the Doc from an intact copy, or compute its vectors again with "
        "the ELMo component (`nlp.get_pipe(NAME)(doc)`)."
    )
    EL092 = (
        "The Doc '{text}' was joined from Docs whose ELMo vectors (extension prefix '{name}') have different sizes: "
        "{found}. Compute them all with the same biLM, or give each ELMo component its own prefix."
    )
    EL093 = (
        "The component '{name}' has no labels: {reason}. Annotate entities (doc.ents), or give the labels: "
        "`add_label` before `nlp.initialize`, or [initialize.components.{name}.labels]."
    )
    EL094 = "The label of '{name}' is {label!r}, should be a text that is not empty. Correct the label."
    EL095 = (
        "The label '{label}' cannot be added to '{name}', which is initialized with the labels {labels}: its CRF has "
        "scores for these only. Add all labels before `nlp.initialize`, or replace the component by a new one."
    )
    EL096 = (
        "The component '{name}' does not support rehearsal (`nlp.rehearse`). Leave it out "
        '(`nlp.rehearse(examples, exclude=["{name}"])`), and train it with `nlp.update` on old and new examples.'
    )
    EL097 = (
        "The loss of '{name}' is {loss}, should be a finite number. Lower the learning rate, or set grad_clip in "
        "[training.optimizer]."
    )
    EL098 = (
        "The component '{name}' is not initialized: it has no weights (as spaCy's E109). Train it (`nlp.initialize`, "
        "then `nlp.update`; or `spacy train`), load a trained pipeline, or disable the component."
    )
    EL434 = (
        "A component has the model spacy-elmo.CRFTagger.v1, but is not a 'crf_ner': only that component tells the CRF "
        'how many tags it has. Set factory = "crf_ner" in the block of the component, or give it another model.'
    )
    EL435 = (
        "The {batcher} in [training.batcher] makes no batch of the training data for '{name}': with "
        "discard_oversize = true it drops every example that has more words than size, which is {size}. Raise size, or "
        "set discard_oversize = false."
    )
    EL377 = (
        "The component '{name}' cannot be read from '{path}': {reason}. Copy or save the pipeline again, from one that "
        "is intact."
    )
    EL378 = (
        "replace_listeners names '{path}', which is not a listener. The listeners of this component are at {paths}: "
        "name all of them."
    )
    EL375 = (
        "There is no surprisal for '{text}' (extension prefix '{name}'). Process the Doc with a pipeline that has a "
        'component "elmo_surprisal".'
    )
    EL376 = (
        "The tokens around '{text}' were merged or split after their surprisal was computed. Read it before, or put "
        '"elmo_surprisal" after the component that retokenizes.'
    )
