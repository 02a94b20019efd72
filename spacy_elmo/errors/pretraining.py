"""Errors of pretraining: settings, runs, checkpoints. EL100 to EL129, EL146 to EL157, EL170 to EL176."""

from .catalogue import Catalogue


class PretrainingErrors(metaclass=Catalogue):
    """Templates for `str.format`."""

    EL100 = "The {block} block is invalid: {problems}. Correct these settings."
    EL102 = (
        "The sampled softmax needs {n_negatives} distinct negatives, but the vocabulary has {n_words} words. In "
        '[pretraining.softmax], set n_negatives to at most half the vocabulary size, or kind = "full".'
    )
    EL103 = (
        "{what} is not a finite number at step {step}, after {n_tokens} tokens. Resume from the last checkpoint "
        "({checkpoint}) with --resume and a lower learn_rate or grad_clip, or start a new run from the best model so "
        "far ({best}) with --paths.init."
    )
    EL104 = (
        "'{path}' already contains a run: {found}. Continue it with --resume, choose another output folder, or start "
        "again with --force, which deletes its models, checkpoints and log."
    )
    EL107 = (
        "The position in the checkpoint belongs to another corpus or layout: {different}. Resume with the corpus and "
        "the settings the run was started with, or start a new run."
    )
    EL110 = (
        "The checkpoint '{path}' does not fit this run, although its checksums are correct: {reason}. It was changed, "
        "or written by another version. Remove its folder to resume from the previous checkpoint, or start a new run."
    )
    EL116 = (
        "The state of the optimizer does not fit this run, {n_problems} problem(s): {problems}. The checkpoint belongs "
        "to other settings or another model. Resume with those, or start a new run."
    )
    EL117 = (
        '[pretraining.softmax] kind is "{kind}", but the model has a softmax of class {found}, should be {wanted}. '
        "Choose the kind of the model, or set vocabulary.new_head = true to train a new softmax."
    )
    EL125 = (
        "batch_size is {batch_size}, but should be a multiple of {n_ranks}, the number of processes: it counts the "
        "lanes of all processes together. Change batch_size or the number of processes."
    )
    EL126 = (
        "{n_processes} processes on this node need one GPU each, but it has {n_gpus}. Start fewer with `torchrun "
        "--nproc-per-node`."
    )
    EL127 = (
        "Process {rank} lost the connection to the other processes and stops: {reason}. See the output of the process "
        "that ended first for the cause. Run the same command with --resume to continue from the last checkpoint."
    )
    EL128 = (
        "The checkpoint '{path}' could not be written: {reason}. Newest complete checkpoint: {last}. Free disk space, "
        "then run the same command with --resume."
    )
    EL129 = (
        "Every checkpoint in '{path}' is damaged: {problems}. Start again with --force, or start from a saved biLM "
        "with --paths.init."
    )
    EL146 = (
        "The run in '{path}' was started with other settings: {different}. Use those settings, or start a new run in "
        "another folder."
    )
    EL147 = (
        "The vocabulary in paths.vocab has {found} the {wanted} words of the biLM '{init}', whose softmax cannot "
        "predict them. Remove paths.vocab, or set vocabulary.new_head = true to train a new softmax."
    )
    EL148 = (
        "The [bilm] block differs from the biLM '{init}' that training starts from: {different}. Remove the block to "
        "use the sizes of that biLM."
    )
    EL149 = "paths.{name} is '-' (stdin), but pretraining reads its texts more than once. Write stdin to a file first."
    EL156 = (
        "The run in '{path}' was started with another text: {different}. Resume with the same files, the same [corpus] "
        "and [vocabulary] settings and the same version of spacy-elmo (older versions choose other held-out sentences "
        "from the same file), or start a new run in another folder{init}."
    )
    EL157 = (
        "The processes find different checkpoints in '{path}': {found}. All of them must find the same ones: use a "
        "folder that all nodes share, or copy `checkpoints` of the first node to the same path on the others."
    )
    EL170 = "The config is invalid, {n_problems} setting(s) have a wrong type: {problems}. Correct these settings."
    EL171 = (
        "The vocabulary in paths.vocab has {found} the {wanted} words of the biLM '{init}', whose word embedding has "
        "one row for each of its own words. Remove paths.vocab. Only a biLM with character input can be trained with "
        "another vocabulary."
    )
    EL172 = (
        "The word embedding or softmax of the biLM '{init}' has {wanted} rows, but the biLM has no vocabulary for "
        "them; {found}. Set paths.vocab to the vocabulary it was trained with, one word per line in the order of the "
        "rows."
    )
    EL173 = (
        "The vocabulary '{path}' has {n_lines} blank line(s): {lines}. Tokens are never blank, so the rows of these "
        "lines would not be trained. Remove the lines."
    )
    EL174 = (
        "[pretraining.softmax] differs from the softmax of the biLM '{init}' that training starts from: {different}. "
        "Use the settings of that biLM, or set vocabulary.new_head = true to train a new softmax."
    )
    EL175 = (
        "The vocabulary file '{path}' (paths.vocab) does not exist. Check the path, create a file with `elmo vocab`, "
        "or set paths.vocab to null to count the words of the training text."
    )
    EL176 = (
        '[pretraining.optimizer] sparse is true, but no gradient would be sparse: with softmax.kind = "{kind}" every '
        "row has a gradient, and there is no separate word embedding. Set sparse = false, or softmax.kind = "
        '"sampled".'
    )
    EL342 = (
        '[pretraining] does not fit a biLM with encoder = "transformer", which has no state to carry and reads whole '
        "sentences: {problems}. Correct these settings."
    )
