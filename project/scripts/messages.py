"""Error messages of the project scripts."""


class Messages:
    """Templates for `str.format`."""

    P000 = "Unknown data set '{name}'. Choose one of {known} with `--vars.dataset`."
    P001 = (
        "The folder of local assets '{assets_dir}' does not exist: it resolves to '{resolved}'. Relative paths "
        "start at '{project_dir}'.{hint} Correct `--vars.assets_dir`, or remove it and run `python -m spacy project "
        "assets`."
    )
    P002 = (
        "Files of the data set '{name}' are missing below '{folder}' (split: names tried): {missing}. "
        "Download them with `python -m spacy project assets`, or set `--vars.assets_dir` to a folder of local copies."
    )
    P003 = "Unknown network '{variant}'. Choose one of: {known}."
    P004 = "There are no scores below '{training_dir}'. Run `python -m spacy project run all` first."
    P005 = (
        "The pipeline '{path}' has no component that listens to ELMo. Choose the pipeline that was trained with ELMo, "
        "for example 'training/sample/elmo-0/model-best'."
    )
    P010 = (
        "'{path}' is not in the format of the sample, {n_problems} problems:\n{problems}\n"
        "Correct these lines; assets/sample/README.md describes the format."
    )
    P011 = "{path}, line {line}: found {found}, wanted {wanted}."
    P012 = "'{path}' exists already. Choose another output file, or use --force to replace it."
