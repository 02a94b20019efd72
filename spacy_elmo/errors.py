"""Messages with a code, which users may look up, filter or catch. Each states what is wrong, the actual value, the
expected value and what to do, and begins with its code in brackets, as in spaCy."""

from typing import Any, Dict, Tuple

PREFIXES = ("EL", "WL")


class Catalogue(type):
    """Metaclass of a catalogue: it turns `EL001 = "Text."` into "[EL001] Text."."""

    def __new__(mcs, name: str, bases: Tuple[type, ...], members: Dict[str, Any]) -> "Catalogue":
        """name (str), bases (Tuple[type, ...]), members (Dict[str, Any]): Arguments of the class definition."""
        coded = {key: f"[{key}] {text}" if key.startswith(PREFIXES) else text for key, text in members.items()}
        return super().__new__(mcs, name, bases, coded)


class Errors(metaclass=Catalogue):
    """Templates of errors, for `str.format`."""

    # Models and inference
    EL001 = "Unknown setting in {block}: {unknown}. Known settings: {known}. Correct the name or remove it."
    EL007 = (
        "This biLM has no {missing}, which {what} need. Use a biLM pretrained with spacy-elmo, or load the original "
        "files with one, if it was published (`load_bilm(options=..., weights=..., vocab=..., softmax=...)`; models of "
        "ELMoForManyLangs have none). `spacy_elmo.nn.Elmo(name)` and the component `elmo` leave the softmax out: take "
        "the biLM of `load_bilm(name)`."
    )
    EL011 = (
        "Sentence {i} is a {kind}, but should be a list of strings. Pass tokenized text, one list of words per "
        "sentence."
    )
    EL015 = (
        "The precision '{precision}' cannot be used on {device}: {reason}. Choose {others} "
        "(for a saved pipeline: components.NAME.model.precision in the `config` of `spacy.load`)."
    )
    EL017 = (
        "These character ids are invalid: {problem}. Pass ids as returned by AllenNLP's `batch_to_ids`, one row per "
        "word, to a biLM with character input."
    )
    EL018 = (
        "Position {position} is not in a sentence of {n_words} words. Give a sentence that has words, and a position "
        "from 0 to the number of words minus 1."
    )
    EL340 = (
        "{setting} cannot be used: the encoder of this biLM, '{encoder}', has no recurrent state. It reads each "
        'sequence by itself. Use state "reset".'
    )
    EL341 = (
        "A sequence has {n_tokens} tokens, BOS and EOS included, but this transformer reads at most {max_positions}, "
        "since attention takes time in proportion to the square of the length. Split it into sentences or windows (the "
        "component: set max_tokens to {max_positions} - 2 or less)."
    )

    # Files of weights
    EL020 = "No biLM at '{path}': {reason}. Looked for: {expected}. Check the path."
    EL021 = (
        "'{path}' is ambiguous: it has {n} files with {kind} ({names}), but should have one. Give the path of the "
        "weights, and their options.json as `options`; or copy both into a folder of their own."
    )
    EL022 = "'{path}' cannot be read as {kind}: {reason}. {remedy}."
    EL023 = (
        "'{path}' does not contain valid settings of a biLM: {problems}. Correct them, or use the file that came with "
        "the weights."
    )
    EL025 = (
        "There is already a {kind} at '{path}'. Choose another path, or replace the files of a folder with "
        "`force=True`."
    )
    EL026 = (
        "The weights in '{path}' do not fit '{options}', {n_problems} problem(s):{problems}\nIf sizes differ, use the "
        "settings that came with the weights; otherwise the file is damaged."
    )
    EL036 = (
        "'{path}' would expand from {n_bytes} bytes to more than {max_bytes}, which no biLM does. Check that it is the "
        "right file and identical to the original."
    )
    EL037 = "The operating system cannot read '{path}': {reason}. {remedy}."
    EL372 = (
        "The folder '{path}' has files of a biLM that was not written here: {names}. Nothing is deleted. Choose "
        "another folder, or move these files away."
    )

    # Texts
    EL101 = "The corpus has no sentences: {source}. Give text with one tokenized sentence per line."
    EL108 = (
        "'{path}' cannot be decompressed: {reason}. The file is truncated, damaged or in another format. Create or "
        "download it again."
    )

    # Pipelines
    EL060 = "The {block} has invalid settings: {problems}. Correct these settings."
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
    EL068 = (
        "The ELMo listener{owner} expects {expected}, but found {actual}. It was trained with another biLM: load that "
        "biLM, or train the listening component again."
    )
    EL071 = (
        "{listener} has no ELMo component to listen to. Add a component of the factory 'elmo' to the pipeline, before "
        'the component with the listener, and under the name in `upstream` ("*" for the nearest one). If there is '
        "one, it was disabled when the listener was added, or is in the pipeline of a `source`."
    )
    EL074 = (
        "The ELMo vectors of '{text}' (extension prefix '{name}') cannot be matched to its tokens: `as_doc` or "
        "`Doc.from_docs` was called more than once in a row, and they do not record which tokens they copied. Read "
        "`._.{name}` of each Doc once before the next call (`doc._.{name}`, then `Doc.from_docs([doc, ...])`), or "
        "process the Doc again."
    )
    EL083 = (
        "Components in frozen_components were trained with another biLM ({trained}) than '{name}' has ({current}), and "
        "cannot adapt to it: {components}. Load that biLM "
        "([initialize.components.{name}.loader], `weights` of the component, or a `source` that has it), or remove "
        "them from there to train them further."
    )
    EL098 = (
        "The component '{name}' is not initialized: it has no weights, or no tables (as spaCy's E109). Train it "
        "(`nlp.initialize`, then `nlp.update`; or `spacy train`), load a trained pipeline, or disable the component."
    )

    # Pretraining
    EL103 = (
        "{what} is not a finite number at step {step}, after {n_tokens} tokens. Resume from the last checkpoint "
        "({checkpoint}) with `resume=True` and a lower learn_rate or grad_clip, or start a new run from the best model "
        "so far ({best}), as paths.init."
    )
    EL104 = (
        "'{path}' already contains a run: {files}. Continue it with `resume=True`, choose another output folder, or "
        "start again with `force=True`, which deletes its models, checkpoints and log."
    )
    EL127 = (
        "Process {rank} lost the connection to the other processes and stops: {reason}. See the output of the process "
        "that ended first for the cause. Run it again with `resume=True` to continue from the last checkpoint."
    )
    EL129 = (
        "No checkpoint in '{path}' can be used: {problems}. Start again with `force=True`, or start from a saved biLM, "
        "as paths.init."
    )
    EL146 = (
        "The run in '{path}' was started with other settings: {different}. Use those settings, or start a new run in "
        "another folder."
    )
    EL156 = (
        "The run in '{path}' was started with another text: {different}. Resume with the same files, the same [corpus] "
        "and [vocabulary] settings and the same version of spacy-elmo (older versions choose other held-out sentences "
        "from the same file), or start a new run in another folder{init}."
    )

    # Commands
    EL134 = "The output '{path}' exists already. {remedy}"
    EL177 = "Cannot {what} {path}: {reason}. {remedy}"
    EL178 = "'{path}' cannot be a folder: '{taken}' is a file. Choose another path."
    EL210 = (
        "The pipeline '{pipeline}' for the language '{lang}' cannot be created: {problems}. Name components with "
        '`pipeline`, separated by commas, for example `pipeline="ner"` or `pipeline="tagger,parser"`; or give '
        "annotated Docs to `python -m spacy elmo init-config --data`, which chooses the components they annotate."
    )
    EL381 = (
        "{text} has {n_occurrences} of the word '{word}', fewer than the {occurrence} asked for. Its tokens are: "
        "{tokens}. Give one of them as it is written, or an earlier occurrence, or another language as `lang`."
    )

    # Analysis and exports
    EL230 = (
        "No component of '{pipeline}' mixes the layers of a biLM; its components are: {pipes}. Train a component whose "
        "tok2vec has a spacy-elmo.ElmoListener.v1: `python -m spacy elmo init-config` writes such a config."
    )
    EL352 = 'This biLM cannot be exported to ONNX: {reason}. Save it in the native format instead (format "native").'
    EL354 = (
        "The output '{path}' does not fit the format {format}: {reason}. Choose a path that ends in .onnx for ONNX, "
        "which is one file, and a folder for other formats."
    )
    EL390 = (
        "'{path}' is not an index of tokens: {problem}. Give the folder that `python -m spacy elmo index CORPUS INDEX` "
        "wrote; if it is this one, build it again with `force=True`."
    )
    EL391 = (
        "The index '{path}' is not complete: {problem}. Run the command that started it again, with the same corpus "
        "and settings: it continues where it stopped."
    )
    EL392 = (
        "The index '{path}' is damaged: {problem}. Build it again: `python -m spacy elmo index CORPUS {path} --force`, "
        "with the options of the first time. Its biLM, layer, precision and choice of words are kept if they can be "
        "read."
    )
    EL393 = (
        "The index '{path}' was built with other settings: {differences}. To add to it, leave these settings out (a "
        "digest that differs without `bilm` means that the file of the biLM has changed: give the old one as `bilm`), "
        "or replace it with `force=True`."
    )
    EL394 = (
        "The biLM is not the one of the index '{path}': {difference}. Vectors of two biLMs cannot be compared. Give "
        "the biLM that the index was built with, which was '{bilm}' then, or build an index with the other one."
    )
    EL401 = (
        "Another process is writing the index '{path}'. Wait until it has finished, or stop it: the index stays as it "
        "was after its last batch."
    )
    EL406 = (
        "The index '{path}' cannot be searched: {problem}. Its texts and vectors are intact: `python -m spacy elmo "
        "index {path}` makes the file again."
    )
    EL412 = (
        "The request was rejected: its {header} is '{value}', should be {expected}. Open the page under the address "
        "that the command printed."
    )
    EL430 = (
        "'{path}' has no trained pipeline: {problem}. Give the folder that `python -m spacy train --output` wrote, "
        "with model-best or model-last in it, or the folder of a pipeline, with config.cfg and meta.json."
    )
    EL431 = "'{path}' cannot be read as {kind}: {problem}. Make the file again, or remove it."


class Warnings(metaclass=Catalogue):
    """Templates of warnings, for `str.format`."""

    WL020 = (
        "The file '{path}' next to the weights cannot be used as vocabulary: {reason} The biLM is loaded without a "
        "vocabulary, which its vectors do not need. Correct the file, or give another one as `vocab`."
    )
    WL021 = (
        "The precision '{precision}' is slower than float32 on this {device}, which has no instructions for it. Choose "
        "'float32' if speed matters (for a saved pipeline: components.NAME.model.precision in the `config` of "
        "`spacy.load`)."
    )
    WL022 = (
        "Vectors are computed by torch's operations, about 2.5 times slower than by the native kernel, in float32 "
        "only, and their last bits depend on the batch. There is no kernel, since {reason}. {remedy}. "
        "`python -m spacy elmo inspect en_elmo_sm` names the kernel in use."
    )
    WL060 = (
        "{listener} found no layers on {n_docs} Docs and uses zeros. Is an ELMo component in the pipeline, before the "
        'component with the listener, under the name in `upstream` ("*" for the nearest one), and enabled?'
    )
    WL064 = (
        "The biLM of '{name}' was trained on the language '{trained_on}', but the language of the pipeline is "
        "'{used_on}', so its vectors will be poor. {published} Load a biLM for '{used_on}' with "
        "`elmo.load_weights(path)` or the "
        'setting `weights`. If the language of this biLM is recorded wrongly, correct "lang" in its meta.json.'
    )
    WL065 = (
        "No component listens to '{name}', so its layers have no effect on training: the models of {components} do not "
        "use them.{order} To train them on ELMo, give them listeners: in a config, replace "
        "their `tok2vec`, and all blocks below it (`python -m spacy elmo init-config` writes such configs, also for "
        "models without a `tok2vec`):\n{blocks}\nIf you only need the vectors of '{name}', add it to "
        "annotating_components in [training]."
    )
    WL066 = (
        "Components were trained with another biLM ({trained}) than '{name}' has ({current}), so that their "
        "predictions may be poor: {components}. Train them further with it, or load the biLM they were trained with "
        "(`nlp.get_pipe(\"{name}\").load_weights(path)`; in a config, give '{name}' the `source` that they have). For "
        "a component that is not to be trained, `nlp.replace_listeners` makes a copy of its biLM that does not change."
    )
    WL071 = (
        "The training continues after the end of the {name}: num_steps is {num_steps}, so all further updates have the "
        "lowest rate, {rate}. Set num_steps to the updates of the whole training, the max_steps of [training]."
    )
    WL075 = (
        "The training examples have {annotated} with labels that '{name}' does not have: {unknown}. It {effect}. "
        "It has {known}, and no label can be added once it is initialized. If this is not "
        "intended, train a new component in place of it, or correct the labels of the examples."
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
        "`spacy_elmo.nn.Elmo`, which calls the hooks of every module."
    )
    WL310 = (
        "'{path}' does not contain the clips and the activation of {name}, and there is no options.json. The "
        "defaults are from AllenNLP's own biLMs: cell_clip 3.0, proj_clip 3.0, relu. If this biLM has others, its "
        "vectors are wrong: give its options.json as `options`."
    )
    WL312 = (
        "'{path}' has cached vectors of {n_words} words (vocab_to_cache), and no config states that they were "
        "constant. They are not used: the biLM computes all words from their characters. If they were trained, vectors "
        "differ from AllenNLP's."
    )
    WL313 = (
        "The softmax of '{path}' is left out, so that perplexities cannot be computed: {reason} Vectors do not need "
        "it. To keep it, put the vocabulary that the model was trained with into the archive or folder of the model: "
        "vocabulary/tokens.txt, with <S> and </S> among its words."
    )
