"""Errors of pretraining runs."""

from .catalogue import Catalogue


class PretrainingErrors(metaclass=Catalogue):
    """Templates for `str.format`."""

    EL103 = (
        "{what} is not a finite number at step {step}, after {n_tokens} tokens. Resume from the last checkpoint "
        "({checkpoint}) with --resume and a lower learn_rate or grad_clip, or start a new run from the best model so "
        "far ({best}) with --paths.init."
    )
    EL104 = (
        "'{path}' already contains a run: {found}. Continue it with --resume, choose another output folder, or start "
        "again with --force, which deletes its models, checkpoints and log."
    )
    EL127 = (
        "Process {rank} lost the connection to the other processes and stops: {reason}. See the output of the process "
        "that ended first for the cause. Run the same command with --resume to continue from the last checkpoint."
    )
    EL129 = (
        "Every checkpoint in '{path}' is damaged: {problems}. Start again with --force, or start from a saved biLM "
        "with --paths.init."
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
