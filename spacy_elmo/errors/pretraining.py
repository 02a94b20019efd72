"""Errors of pretraining: settings, runs, checkpoints. EL100 to EL129, EL146 to EL157, EL170 to EL176."""

from .catalogue import Catalogue


class PretrainingErrors(metaclass=Catalogue):
    """Templates for `str.format`."""

    EL100 = "The {block} block cannot be used: {problems}. Correct these settings."
    EL102 = (
        "The sampled softmax wants {n_negatives} distinct negatives, but the vocabulary has {n_words} words. "
        "In [pretraining.softmax], set n_negatives to a half of that or less, or kind = \"full\"."
    )
    EL103 = (
        "{what} is not a finite number at step {step}, after {n_tokens} tokens. Go on from the last checkpoint "
        "({checkpoint}) by --resume with a lower learn_rate or grad_clip, or begin another run from the best model so "
        "far ({best}) by --paths.init."
    )
    EL104 = (
        "'{path}' holds a run already: {found}. Go on with it by --resume, give another output folder, or begin anew "
        "by --force, which removes its models, checkpoints and log."
    )
    EL107 = (
        "The stored position in the corpus is that of another corpus or layout: {different}. Resume with the corpus "
        "and the settings the run was started with, or start a new run."
    )
    EL110 = (
        "The checkpoint '{path}' does not fit this run, although its checksums are right: {reason}. It was changed, or "
        "written by another version. Remove its folder to go on from the one before, or start a new run."
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
    EL146 = (
        "The run in '{path}' was started with other settings: {different}. Use those again, or begin a new run in "
        "another folder."
    )
    EL147 = (
        "[paths] vocab has {found} the {wanted} words of the biLM '{init}', whose softmax cannot predict them. "
        "Leave paths.vocab out, or set vocabulary.new_head = true to train a new softmax."
    )
    EL148 = (
        "The [bilm] block differs from the biLM '{init}' that training starts from: {different}. "
        "Leave the block out to take the sizes of that biLM."
    )
    EL149 = (
        "[paths] {name} is '-', but pretraining reads its texts more than once. Write stdin to a file first, or count "
        "the words of it with `elmo vocab`."
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
