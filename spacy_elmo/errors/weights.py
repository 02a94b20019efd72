"""Errors of weights: reading, writing, files that do not fit each other, downloads and comparisons.

EL020 to EL059, EL180 to EL189, EL303, EL310 to EL319, EL344, EL360 to EL373.
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
    EL024 = (
        "The packaged biLM '{name}' is not installed (looked in '{folder}'). Install a release of spacy-elmo that "
        "includes it, or pass the path of other weights."
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
    EL028 = (
        "The vocabulary has {n_words} words, but {misfits}. Pass the vocabulary the model was trained with, one word "
        "per line in the order of the rows."
    )
    EL029 = (
        "'{path}' cannot be used as token embeddings: {problems}. Use a file with one dataset 'embedding' that has a "
        "row for each word of the vocabulary, as wide as one direction of the biLM."
    )
    EL030 = (
        "These tensors have values that are too large or not finite in {dtype}: {names}. Save as float32, or check how "
        "the model was trained."
    )
    EL031 = "`load_bilm` takes either a path, or options and weights; found: {given}. Pass one or the other."
    EL032 = (
        "The biLM in '{path}' is in the {format} format, which contains all its parameters and words, so {given} "
        "cannot be added. Load it without {given}; a native biLM may be saved again from its original files with "
        "{given}."
    )
    EL033 = "The setting {name} is '{value}', but should be one of: {known}. Choose one of these."
    EL034 = "The biLM '{path}' cannot be loaded, {n_problems} problem(s):{problems}\nCorrect all of them."
    EL035 = (
        "{n_words} words of the vocabulary cannot be written to {path}, which has one word per line in UTF-8: {words}. "
        "Replace these words: they contain a line feed or an unpaired surrogate, end in a carriage return, or begin "
        "with a byte order mark."
    )
    EL036 = (
        "'{path}' has {n_bytes} bytes, but should have at most {max_bytes}: no biLM needs more. Check that it is the "
        "right file and identical to the original."
    )
    EL037 = "The operating system cannot read '{path}': {reason}. Check its permissions and the disk."
    EL038 = (
        "The HDF5 file '{path}' is refused, it has {n_problems} problem(s):{problems}\nCopy the "
        "arrays into a new file (h5py: `create_dataset(name, data=...)`), or download the original file."
    )
    EL039 = (
        "The header of '{path}' does not describe a biLM: {problems}. Pass bytes from `bilm_to_bytes` or a saved "
        "pipeline."
    )
    EL372 = (
        "The folder '{path}' has files of a biLM that was not written here: {names}. Nothing is deleted. Choose "
        "another folder, or move these files away."
    )
    EL373 = (
        "'{target}' has the biLM that is read, '{source}', and would be replaced by it. Choose another folder, and "
        "delete the old one when you have checked the new one."
    )
    EL370 = (
        "There are no weights of the biLM '{bilm}' at '{path}'. Give the name of a packaged biLM, or the path of "
        "weights in any known format."
    )
    EL180 = (
        "The biLM could not be saved to '{path}': {reason}. Free disk space or choose another folder. Existing files "
        "are unchanged."
    )
    EL303 = (
        "'{path}' cannot be read as a state dict of PyTorch, it has {n_problems} problem(s):{problems}\nOnly tensors "
        "by name are read, at the top or under the key state_dict, model_state_dict or model, and no code is run. "
        "Save `model.state_dict()`, or compare the file with the original."
    )
    EL310 = (
        "The archive '{path}' is refused, it has {n_problems} problem(s):{problems}\nDownload it again, or pack "
        "config.json and weights.th into a new one (`tar czf model.tar.gz config.json weights.th vocabulary`)."
    )
    EL311 = (
        "This biLM cannot be saved in the allennlp format, since AllenNLP's Elmo is different in {n_problems} "
        'point(s):{problems}\nSave it with format "native".'
    )
    EL312 = (
        "'{path}' has {n} biLMs: {names}. Choose one of them by a '#' and its name after the path of the archive: "
        "'model.tar.gz#{first}'."
    )
    EL313 = (
        "'{path}' has no biLM with the name '{part}' after the '#', found: {names}. Choose one of these, or leave out "
        "the '#' for the only one."
    )
    EL314 = (
        "'{path}' has no ELMo of AllenNLP: {problem}. Pass an archive or a state dict of a model with an `Elmo` or an "
        "`ElmoTokenEmbedder`."
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
    EL360 = (
        "There is no published biLM '{name}' in the registry. {kind} names: {close}. List all names with "
        "`python -m spacy elmo download --list`; nlpl-NUMBER is any entry of the NLPL repository."
    )
    EL361 = (
        "The address '{url}' is refused: {reason}. Pass another address, or fetch the file by other means and pass it "
        "with --from."
    )
    EL362 = (
        "No mirror provides '{name}':{problems}\nCheck the connection and run the command again: it continues an "
        "interrupted download. Or pass another mirror with --mirror, or a file fetched by other means with --from."
    )
    EL363 = (
        "'{name}' has the sha256 {found}, but should have {wanted}. The file is damaged or another one. Download it "
        "again, or from another mirror."
    )
    EL364 = (
        "'{name}' has {n_bytes} bytes, but should have at most {max_bytes}: no published file of this kind is larger. "
        "Check that it is the right file."
    )
    EL365 = (
        "The files given by --from do not fit '{name}':{problems}\nPass each file once, or the folder that contains "
        "them; `python -m spacy elmo download --list --json` has their published names."
    )
    EL366 = (
        "'{name}' begins with {found}, but should begin with {wanted}. It may be a web page with an error message. "
        "Open its address in a browser, or use another mirror."
    )
    EL371 = (
        "These files are not those of the published '{name}':{problems}\nPass the files of its publisher, or another "
        "name (`python -m spacy elmo download --list`). Files of your own need no download: every command takes their "
        "path."
    )
    EL367 = "There are no sentences to compare the vectors on in '{path}'. Pass a text with at least one token."
