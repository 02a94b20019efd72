"""Error messages of the scripts, each with a code."""


class Messages:
    """Templates for `str.format`."""

    P000 = "[P000] There is no data set '{name}'. Known data sets: {known}. Choose one with `--vars.dataset`."
    P001 = (
        "[P001] The folder of local assets '{assets_dir}' does not exist: it resolves to '{resolved}'. A relative path "
        "starts at '{project_dir}'.{hint} Correct `--vars.assets_dir`, or leave it out and run `python -m spacy "
        "project assets {project_dir}`."
    )
    P002 = (
        "[P002] Files of the data set '{name}' are missing below '{folder}' (split: names tried): {missing}. "
        "Download them with `python -m spacy project assets {project_dir}`, or give the folder of local copies with "
        "`--vars.assets_dir`."
    )
    P003 = "[P003] There is no network '{variant}'. Known networks: {known}."
    P004 = "[P004] There are no scores below '{training_dir}'. Run `python -m spacy project run all` first."
    P005 = (
        "[P005] There is no config '{config}' for the data set '{name}': only `python project/scripts/paper.py` trains "
        "on it. Choose one of {known}."
    )
    P010 = (
        "[P010] '{path}' is not in the format of the sample, {n_problems} problems:\n{problems}\n"
        "Correct these lines; assets/sample/README.md describes the format."
    )
    # One of the problems of P010.
    LINE = "{path}, line {line}: found {found}, wanted {wanted}."
    P011 = "[P011] '{path}' exists already. Give another output file, or --force to replace it."
    P012 = "[P012] There is no experiment '{name}' on layers. Known experiments: {known}."
    P013 = (
        "[P013] Files of this experiment are missing: {missing}. They are not downloaded: give the folder of local "
        "copies with `--assets-dir`."
    )
    P014 = "[P014] '{path}' has the scores of the biLM '{found}', not '{wanted}'. Give another file, or --force."
    P020 = "[P020] There is no experiment '{name}'. Known experiments: {known}."
    P021 = (
        "[P021] The result '{path}' was made with other settings ({differing}). Remove the file to train again, or "
        "give another folder with --results."
    )
    P022 = "[P022] Cannot write results to '{results}': {reason}. Give a folder that can be written to with --results."
    P023 = "[P023] '{path}' is not a result of paper.py: {reason}. Remove the file to train again."
    P024 = "[P024] There are no results in '{results}'. Run `python project/scripts/paper.py` first, or give --results."
