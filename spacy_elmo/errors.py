"""Every error of the package: what is wrong, the value found, the value wanted, what to do. Warnings: `_warnings`."""


class Errors:
    """Templates of error messages, for `str.format`."""

    # bilm, text, encoding: EL001 to EL019
    EL001 = "Unknown setting in {block}: {unknown}. Known settings: {known}. Correct the name or remove it."
    EL002 = "The {block} does not describe a biLM: {problems}. Correct these settings."

    EL003 = (
        "The vocabulary cannot be used: special words missing: {missing}; words that stand more than once: "
        "{n_repeated} (first: {repeated}). A vocabulary has one word a line, `<S>`, `</S>` and `<UNK>` among them, "
        "each once."
    )
    EL004 = "The {name} is {value}, but should be {wanted}."
    EL005 = (
        "A window of {max_tokens} tokens with an overlap of {overlap} never gets on. "
        "Choose max_tokens of 1 or more and an overlap below half of it."
    )
    EL006 = (
        "The state has {name} of shape {shape}, but this biLM needs {wanted} (layers, rows, width). "
        "Pass a state that `embed(..., return_state=True)` of the same model gave."
    )
    EL007 = (
        "This biLM has no {part}, so it cannot give {what}. Load it with one "
        "(`load_bilm(options=..., weights=..., vocab=..., softmax=...)`), or use a model that was pretrained here."
    )
    EL008 = "The setting layers is {value!r}, but should be 'all', 'top', 'mean' or an int from 0 to {n_layers}."
    EL009 = (
        "The state is {state}, but should be one of {known}, a BiLMState that `embed(..., return_state=True)` of this "
        "biLM gave, or None for zero. Choose one of these."
    )
    EL010 = (
        "This biLM takes word ids, and some rows of its table are missing a name: the vocabulary has {n_words} words, "
        "the table {n_rows} rows. Load it with the vocabulary it was trained with (vocab=...)."
    )
    EL011 = "Sentence {i} is a {kind}, but should be a list of strings: pass tokenized text, one list per sentence."
    EL012 = (
        "An adaptive softmax over {n_words} words cannot have cutoffs {cutoffs} with div_value {div_value}. Cutoffs "
        "are one or more ascending numbers from 1 to below the size of the vocabulary, div_value is 1 or more."
    )
    EL013 = (
        "The softmax cannot share the word table: this biLM reads characters and has none. Set tie_weights to false, "
        "or give the biLM word input (n_words in place of char_cnn)."
    )

    EL014 = "The precision is '{precision}', but should be one of: {known}. Choose one of these."
    EL015 = (
        "The precision '{precision}' cannot be used on {device}: {reason}. Choose {others} "
        "(for a saved pipeline: components.NAME.model.precision in the `config` of `spacy.load`)."
    )
    EL016 = "{what} needs weights in float32, but they are in {precision}. {remedy}"

    # weights: EL020 to EL059
    EL020 = "No biLM at '{path}': {reason}. Looked for: {wanted}. Check the path."
    EL021 = (
        "It is not clear which biLM '{path}' means: it has {n} files with {kind} ({names}), but should have one. "
        "Name the files: `load_bilm(options=..., weights=...)`."
    )
    EL022 = (
        "'{path}' cannot be read as {kind}: {reason}. The file is truncated, damaged or of another kind; "
        "compare its size with the origin's and fetch it again."
    )
    EL023 = (
        "'{path}' does not hold the settings of a biLM: {problems}. Correct them, or take the file that came with "
        "the weights."
    )
    EL024 = (
        "The packaged biLM '{name}' is not part of this installation (looked in '{folder}'). Install a release of "
        "spacy-elmo that has it, or pass the path of other weights."
    )
    EL025 = (
        "There is already a {kind} at '{path}'. Choose another path, or replace a folder's files with force=True "
        "(`--force` on the command line)."
    )
    EL026 = (
        "Weights in '{path}' do not fit '{options}': {n_problems} problems:{problems}\nWas the file made with other "
        "sizes? Take the settings that came with it."
    )
    EL027 = (
        "'{path}' cannot be used as vocabulary, one word a line in UTF-8: {reason} Correct the file, convert it to "
        "UTF-8, or give another one."
    )
    EL028 = (
        "The vocabulary has {n_words} words, but {misfits}. Pass the vocabulary the model was trained with, one word "
        "a line in the order of the rows."
    )
    EL029 = (
        "'{path}' cannot be used as token embeddings: {problems}. It should hold one dataset 'embedding' with a row "
        "for each word of the vocabulary, as wide as one direction of the biLM."
    )
    EL030 = "Values too large or not finite for {dtype}: {names}. Save as float32, or check how the model was trained."
    EL031 = (
        "A biLM is loaded from a path, or from options and weights together, but given were: {given}. Pass one or "
        "the other."
    )
    EL032 = (
        "The biLM in '{path}' is in our own format, which holds all its parts: {given} cannot be added. Load the "
        "original files with them and save the result."
    )
    EL033 = "The setting {name} is '{value}', but should be one of: {known}. Choose one of these."
    EL050 = (
        "A biLM with highway_between = true cannot be written in the format of bilm-tf: neither bilm-tf nor AllenNLP "
        "knows highways between LSTM layers, and without them the vectors would be others. Save it with format "
        "\"native\", or train one with has_skip = true."
    )
    EL034 = "The biLM '{path}' cannot be used, {n_problems} things are wrong. Correct all of them:{problems}"
    EL035 = (
        "{n_words} words of the vocabulary cannot stand in {path}, which has one word a line in UTF-8: {words}. "
        "Replace these words: no line feed, no carriage return at the end, no lone surrogate."
    )

    # ml, pipeline: EL060 to EL099
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

    # pretraining: EL100 to EL129
    EL100 = "The {block} block cannot be used: {problems}. Correct these settings."
    EL101 = "The corpus has no sentences: {source}. Give text with one tokenized sentence a line."
    EL102 = (
        "The sampled softmax wants {n_negatives} distinct negatives, but the vocabulary has {n_words} words. "
        "In [pretraining.softmax], set n_negatives to a half of that or less, or kind = \"full\"."
    )
    EL103 = (
        "{what} is not a finite number at step {step}, after {n_tokens} tokens. Go on from the last checkpoint "
        "({checkpoint}) by --resume with a lower learn_rate or grad_clip, or begin another run from the best model so "
        "far ({best}) by --paths.init."
    )
    EL105 = (
        "[paths] {name} is {place!r}, but should name text: a file (.txt, .jsonl, .spacy; .gz, .xz or .zst), a folder "
        "of such files, a pattern such as 'corpus/*.txt.gz', or hf:NAME. Set it, for instance by --paths.{name}."
    )
    EL106 = (
        "Reading '{path}' takes the package {package}, which is not installed. Install it with "
        "`pip install {package}`, or give plain or .gz text."
    )
    EL107 = (
        "The stored position in the corpus is that of another corpus or layout: {different}. Resume with the corpus "
        "and the settings the run was started with, or start a new run."
    )
    EL108 = (
        "'{path}' cannot be decompressed to its end: {reason}. The file is truncated, damaged or of another kind; "
        "make or fetch it again."
    )
    EL109 = (
        "'{name}' ended before record {n_items}, up to which the stopped run had read it. Has the file changed since? "
        "Put the one back that the run was started with, or start a new run."
    )
    EL116 = (
        "The state of an optimizer does not fit this run: {n_problems} problems: {problems}. Was the checkpoint made "
        "with other settings or another model? Start a new run, or go on with the settings it was made with."
    )
    EL117 = (
        "[pretraining.softmax] kind is \"{kind}\", but the model's softmax is of class {found}, should be {wanted}. "
        "Choose the kind the model has, or start with a new softmax."
    )
    EL125 = (
        "batch_size is {batch_size}, which {n_ranks} processes cannot share out evenly. "
        "Set batch_size to a multiple of {n_ranks}: it counts the lanes of all processes together."
    )
    EL126 = (
        "{n_processes} processes want a GPU each on this node, but it has {n_gpus}. "
        "Start fewer with `torchrun --nproc-per-node`."
    )
    EL127 = (
        "Process {rank} has lost the others and stops: {reason}. What went wrong stands in the output of the process "
        "that ended first. Start the same command with --resume to go on from the last checkpoint."
    )
    EL128 = (
        "The checkpoint '{path}' could not be written: {reason}. The newest one that can be resumed from: {last}. "
        "Make room, then start the same command with --resume."
    )
    EL129 = (
        "No checkpoint in '{path}' is whole: {problems}. "
        "Start again with --force, or go on from a saved biLM by --paths.init."
    )
    EL104 = (
        "'{path}' holds a run already: {found}. Go on with it by --resume, give another output folder, or begin anew "
        "by --force, which removes its models, checkpoints and log."
    )

    # cli, project: EL130 to EL169
    EL146 = (
        "The run in '{path}' was started with other settings: {different}. Use those again, or begin a new run in "
        "another folder."
    )
    EL147 = (
        "[paths] vocab has {found} the {wanted} words of the biLM '{init}', whose softmax cannot predict them. "
        "Leave paths.vocab out, or set vocabulary.new_head = true to train a new softmax."
    )
    EL149 = (
        "[paths] {name} is '-', but pretraining reads its texts more than once. Write stdin to a file first, or count "
        "the words of it with `elmo vocab`."
    )
    EL148 = (
        "The [bilm] block differs from the biLM '{init}' that training starts from: {different}. "
        "Leave the block out to take the sizes of that biLM."
    )
    EL130 = "Line {where} is no JSON: {reason}. Every line of a .jsonl file is one JSON object."
    EL131 = (
        "Line {where} is '{found}', but should be a JSON object with 'text' (a string) or 'words' (a list of strings)."
    )
    EL132 = "'{path}' cannot be read as a DocBin: {reason}. A .spacy file is what `DocBin.to_disk` writes."
    EL133 = "There is nothing to read at '{path}'. Give a file, or a folder with files that end in {suffixes}."
    EL134 = "There is already something at '{path}'. {remedy}"
    EL135 = (
        "The output '{path}' ends in '{suffix}', but should end in .npz (arrays) or .spacy (one DocBin), have no "
        "suffix (a folder of DocBins), or be '-' (an .npz to stdout)."
    )
    EL136 = "There is no GPU number {gpu_id}: torch sees {n}. Choose another with --gpu-id, or -1 for the CPU."
    EL137 = (
        "There is no tokenizer for the language '{lang}': {reason} Give {option} a code that `spacy.blank` knows "
        "('en', 'de', 'xx' for any), or {instead} if the text is tokenized."
    )
    EL138 = "Line {where} is no UTF-8: {reason}. Convert the file to UTF-8, or name its format with --input-format."
    EL141 = (
        "The data set '{name}' cannot be opened: {reason}. A data set is hf:NAME[:SPLIT][:COLUMN], NAME what "
        "`datasets.load_dataset` takes (NAME@CONFIG for one of its configurations) or a folder of `save_to_disk`."
    )
    EL142 = (
        "The data set '{name}' has no column to read: {found}. Wanted: {wanted}. Name a column of strings or of lists "
        "of strings: hf:NAME:SPLIT:COLUMN."
    )
    EL143 = "The format '{format}' is not known. Choose one of: {known}."
    EL150 = "There is no data set '{name}'. Known data sets: {known}. Choose one with `--vars.dataset`."
    EL151 = (
        "The folder of local assets '{assets_dir}' does not exist: it resolves to '{resolved}'. A relative path starts "
        "at '{project_dir}'.{hint} Correct `--vars.assets_dir`, or leave it out and run `python -m spacy project "
        "assets`."
    )
    EL152 = (
        "Files of the data set '{name}' are missing below '{folder}' (split: names tried): {missing}. "
        "Fetch them with `python -m spacy project assets`, or say where local copies are with `--vars.assets_dir`."
    )
    EL153 = "There is no network '{variant}'. Known networks: {known}."
    EL154 = "There are no scores below '{training_dir}'. Run `python -m spacy project run all` first."
    EL155 = (
        "The pipeline '{path}' has no component that listens to ELMo. Give the pipeline that was trained with ELMo, "
        "for example 'training/sample/elmo-0/model-best'."
    )
    EL156 = (
        "The run in '{path}' was started with another text: {different}. Go on with the files, the settings of "
        "[corpus] and [vocabulary] and the version of spacy-elmo it was started with (an older one takes other "
        "held-out sentences from the same file), or begin another run; --paths.init '{path}/model-best' gives it what "
        "this one has learned."
    )
    EL157 = (
        "The processes found different checkpoints in '{path}': {found}. All of them must see the same ones: use a "
        "folder that all nodes share, or copy `checkpoints` of the first node to the same place on the others."
    )
    EL160 = (
        "'{path}' is not in the format of the sample, {n_problems} problems:\n{problems}\n"
        "Correct these lines; assets/sample/README.md describes the format."
    )
    EL161 = "{path}, line {line}: found {found}, wanted {wanted}."
    EL162 = "'{path}' exists already. Give another output file, or --force to replace it."

    # pretraining, cli: EL170 to EL199
    EL170 = (
        "The config cannot be used, {n_problems} setting(s) have a value of a wrong type: {problems}. Correct these "
        "settings."
    )
    EL171 = (
        "[paths] vocab has {found} the {wanted} words of the biLM '{init}', which reads whole words: each row of its "
        "table stands for one of its own. Leave paths.vocab out. Only a biLM that reads characters can get other words."
    )
    EL172 = (
        "The biLM '{init}' has {wanted} rows that stand for words, and no vocabulary that says which; {found}. "
        "Set paths.vocab to the file that it was trained with, one word a line in the order of the rows."
    )
    EL173 = (
        "The vocabulary '{path}' has {n_lines} blank line(s): {lines}. No token is blank, so these rows would never be "
        "trained. Remove the lines."
    )
    EL174 = (
        "[pretraining.softmax] differs from the softmax of the biLM '{init}' that training starts from: {different}. "
        "Set these to what the biLM has, or set vocabulary.new_head = true to train a new softmax."
    )
    EL175 = (
        "[paths] vocab is '{path}', and there is no such file. Check the path, make one with `elmo vocab`, or set it "
        "to null: then the words of the training text are counted."
    )
    EL176 = (
        "[pretraining.optimizer] sparse is true, but no gradient would be sparse: with softmax.kind = \"{kind}\" every "
        "row has one, and there is no word embedding of its own. Set sparse = false, or softmax.kind = \"sampled\"."
    )
    EL177 = "The system refuses {path}: {reason}. {remedy}"
    EL178 = "'{path}' can be no folder: '{taken}' is a file. Choose another path."
    EL179 = (
        "'{path}' is no regular file (a device, a pipe or a folder), and is not replaced. Choose another path, or "
        "write to a file first."
    )
    EL180 = (
        "The biLM could not be saved in '{path}': {reason}. Make room or choose another folder; what was there "
        "before stays."
    )
