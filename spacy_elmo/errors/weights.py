"""Errors of weights: reading, writing, files that do not fit each other, downloads and comparisons.

EL020 to EL037, EL180, EL313 to EL319, EL344, EL367, EL371 to EL373.
"""

from .catalogue import Catalogue


class WeightsErrors(metaclass=Catalogue):
    """Templates for `str.format`."""

    EL020 = "No biLM at '{path}': {reason}. Looked for: {wanted}. Check the path."
    EL021 = (
        "'{path}' is ambiguous: it has {n} files with {kind} ({names}), but should have one. Specify the files: "
        "`load_bilm(options=..., weights=...)`, or on the command line the path of the weights and `--options`; for a "
        "command without `--options`, copy them into a folder of their own."
    )
    EL022 = "'{path}' cannot be read as {kind}: {reason}. {remedy}."
    EL023 = (
        "'{path}' does not contain valid settings of a biLM: {problems}. Correct them, or use the file that came with "
        "the weights."
    )
    EL025 = (
        "There is already a {kind} at '{path}'. Choose another path, or replace the files of a folder with force=True "
        "(`--force` on the command line)."
    )
    EL026 = (
        "The weights in '{path}' do not fit '{options}', {n_problems} problem(s):{problems}\nIf sizes differ, use the "
        "settings that came with the weights; otherwise the file is damaged."
    )
    EL027 = (
        "'{path}' cannot be used as vocabulary, one word per line in UTF-8: {reason} Correct the file, convert it to "
        "UTF-8, or use another one."
    )
    EL029 = (
        "'{path}' cannot be used as token embeddings: {problems}. Use a file with one dataset 'embedding' that has a "
        "row for each word of the vocabulary, as wide as one direction of the biLM."
    )
    EL033 = "The setting {name} is '{value}', but should be one of: {known}. Choose one of these."
    EL036 = (
        "'{path}' has {n_bytes} bytes, but should have at most {max_bytes}: no biLM needs more. Check that it is the "
        "right file and identical to the original."
    )
    EL037 = "The operating system cannot read '{path}': {reason}. Check its permissions and the disk."
    EL372 = (
        "The folder '{path}' has files of a biLM that was not written here: {names}. Nothing is deleted. Choose "
        "another folder, or move these files away."
    )
    EL373 = (
        "'{target}' has the biLM that is read, '{source}', and would be replaced by it. Choose another folder, and "
        "delete the old one when you have checked the new one."
    )
    EL180 = (
        "The biLM could not be saved to '{path}': {reason}. Free disk space or choose another folder. Existing files "
        "are unchanged."
    )
    EL313 = (
        "'{path}' has no biLM with the name '{part}' after the '#', found: {names}. Choose one of these, or leave out "
        "the '#' for the only one."
    )
    EL316 = (
        "'{path}' is a language model of AllenNLP whose contextualizer cannot be read: {found}, should be one of: "
        "{known}. Choose a model with one of these, and put its config.json next to it."
    )
    EL318 = "The scalar mixes of {path} cannot be used: {problem}. {remedy}."
    EL319 = (
        "{given} cannot be added to a biLM in the format {format} ('{path}'). Load it without {given}. A biLM with "
        "LSTMs can also be saved in the bilm-tf format, and loaded from there with {given}."
    )
    EL344 = (
        "No biLM is equal to the language model of AllenNLP in '{path}', {n_problems} problem(s):{problems}\nSupported "
        "are archives of `language_model` as saved, with `bidirectional_language_model_transformer`, or with a `lstm` "
        "as wide as its input, over `elmo_characters`."
    )
    EL371 = (
        "These files are not those of the published '{name}':{problems}\nPass the files of its publisher, or another "
        "name (`python -m spacy elmo download --list`). Files of your own need no download: every command takes their "
        "path."
    )
    EL367 = "There are no sentences to compare the vectors on in '{path}'. Pass a text with at least one token."
