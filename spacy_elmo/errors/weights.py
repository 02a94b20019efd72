"""Errors of weights: reading, writing, fit of the parts. EL020 to EL059, EL180 to EL189."""

from .catalogue import Catalogue


class WeightsErrors(metaclass=Catalogue):
    """Templates for `str.format`."""

    EL020 = "No biLM at '{path}': {reason}. Looked for: {wanted}. Check the path."
    EL021 = (
        "It is not clear which biLM '{path}' means: it has {n} files with {kind} ({names}), but should have one. "
        "Name the files: `load_bilm(options=..., weights=...)`; on the command line the path of the weights and "
        "`--options`."
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
    EL034 = "The biLM '{path}' cannot be used, {n_problems} things are wrong. Correct all of them:{problems}"
    EL035 = (
        "{n_words} words of the vocabulary cannot stand in {path}, which has one word a line in UTF-8: {words}. "
        "Replace these words: no line feed, no carriage return at the end, no lone surrogate."
    )
    EL036 = (
        "'{path}' has {n_bytes} bytes, but should have at most {max_bytes}: no biLM needs more. Is it the right "
        "file? Compare it with the origin's."
    )
    EL037 = "The system refuses to read '{path}': {reason}. Check its permissions and the disk."
    EL038 = (
        "The HDF5 file '{path}' is not read, {n_problems} things in it are not plain arrays:{problems}\nCopy the "
        "arrays into a new file (h5py: `create_dataset(name, data=...)`), or take the file from its origin."
    )
    EL039 = (
        "The header of '{path}' does not describe a biLM: {problems}. Take the bytes that `bilm_to_bytes` or a saved "
        "pipeline gave."
    )
    EL040 = "'{path}' looks like {kind}, which cannot be read yet. {remedy}."
    EL050 = (
        "A biLM with highway_between = true cannot be written in the format of bilm-tf: neither bilm-tf nor AllenNLP "
        "knows highways between LSTM layers, and without them the vectors would be others. Save it with format "
        "\"native\", or train one with has_skip = true."
    )
    EL180 = (
        "The biLM could not be saved in '{path}': {reason}. Make room or choose another folder; what was there "
        "before stays."
    )
