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
