"""Error messages of the scripts, each with a code."""


class Messages:
    """Templates for `str.format`."""

    P000 = "[P000] There is no data set '{name}'. Known data sets: {known}. Choose one with `--vars.dataset`."
    P001 = (
        "[P001] The folder of local assets '{assets_dir}' does not exist: it resolves to '{resolved}'. A relative path "
        "starts at '{project_dir}'.{hint} {remedy}"
    )
    P002 = (
        "[P002] Files of the data set '{name}' are missing below '{folder}' (split: names tried): {missing}. {remedy}"
    )
    # Remedies of P001 and P002.
    DOWNLOADED = (
        "Download the data set with `python -m spacy project assets {project_dir}`, or give the folder of local copies "
        "with `--vars.assets_dir` (`--assets-dir` of a script)."
    )
    LOCAL = (
        "This data set is not downloaded: give the folder of local copies with `--vars.assets_dir` (`--assets-dir` of "
        "a script). {project_dir}/README.md has its layout."
    )
    OURS = "This data set is part of the repository: restore its files, and leave `--vars.assets_dir` out."
    P003 = "[P003] There is no network '{variant}'. Known networks: {known}."
    P004 = "[P004] There are no scores below '{training_dir}'. Run `python -m spacy project run all` first."
    P005 = (
        "[P005] There is no config '{config}' for the data set '{name}': only `python project/scripts/paper.py` trains "
        "on it. Data sets with one: {known}."
    )
    P006 = "[P006] '{path}' is not a gzip file of UTF-8 text: {reason}. Get the file again."
    P007 = (
        "[P007] '{path}', line {number}: found {found}, wanted a JSON object with a string 'text' and a list of "
        "strings 'labels'. Correct the line, or get the file again."
    )
    P010 = (
        "[P010] '{path}' is not in the format of the sample, {n_problems} problems:\n{problems}\n"
        "Correct these lines; assets/sample/README.md describes the format."
    )
    # One of the problems of P010.
    LINE = "{path}, line {line}: found {found}, wanted {wanted}."
    P011 = "[P011] '{path}' exists already. Give another output file, or --force to replace it."
    P012 = "[P012] There is no experiment '{name}' on layers. Known experiments: {known}."
    P014 = "[P014] '{path}' has the scores of the biLM '{found}', not '{wanted}'. Give another file, or --force."
    P015 = "[P015] '{path}' does not have scores of layers: {reason}. Give another file, or --force to replace it."
    P020 = "[P020] There is no experiment '{name}'. Known experiments: {known}."
    P021 = (
        "[P021] The result '{path}' was made with other settings ({differing}). Remove the file to train again, or "
        "give another folder with --results."
    )
    P022 = "[P022] Cannot write results to '{results}': {reason}. Give a folder that can be written to with --results."
    P023 = "[P023] '{path}' is not a result of paper.py: {reason}. Remove the file to train again."
    P024 = "[P024] There are no results in '{results}'. Run `python project/scripts/paper.py` first, or give --results."
    P026 = (
        "[P026] The weights of the biLM '{bilm}' changed during the training '{name}', so its result is not stored. "
        "Run the command again with weights that stay as they are."
    )
    P027 = "[P027] There is no schedule '{name}'. Known schedules: {known}. Choose one with --schedule."
    P030 = (
        "[P030] There is no sentence in {texts}. Give tokenized text, one sentence per line; in the project with "
        "`--vars.raw_text`."
    )
    P031 = "[P031] '{path}' does not exist. Make it with `python project/scripts/{command} TEXTS`, raw text."
    P032 = "[P032] '{path}' is not a record of an alternative to ELMo: {reason}. Make it again with --force."
    P033 = "[P033] '{path}' is complete. Give another folder with --output, or --force to replace it."
    P034 = "[P034] Static vectors need floret, which is not installed. Install it: `pip install floret`."
    P035 = (
        "[P035] One pass over the text takes about {pass_s} s, but only {left_s} s are left. Read less text with "
        "--share or allow more time with --seconds."
    )
    P036 = (
        "[P036] The {limit_s} s of --seconds are over before a biLM could be trained. Allow more time, or read less "
        "text with --share."
    )
    P040 = "[P040] The speed of '{name}' cannot be measured. Known tasks: {known}."
    P041 = (
        "[P041] There is no pipeline of the task '{task}' with seed {seed} in '{folder}'. Train them with `python "
        "project/scripts/paper.py {experiment} --seed {seed} --keep FOLDER`."
    )
    P042 = "[P042] --speed-only is '{found}', wanted NAME=FOLDER with the folder of a pipeline (config.cfg)."
    P044 = "[P044] The errors of '{name}' cannot be counted. Known tasks: {known}."
    P045 = (
        "[P045] There is no '{missing}' in '{folder}'. Train both pipelines with `python project/scripts/paper.py "
        "{experiment} --seed {seed} --keep FOLDER`."
    )
    P046 = (
        "[P046] Pipelines in '{folder}' were trained with different weights of a biLM: {found}. A ranking needs the "
        "same weights: train those of other weights again with `python project/scripts/paper.py {experiment} --seed "
        "{seed} --keep {folder}`."
    )
    P050 = "[P050] There is no treebank '{name}' of another language. Known treebanks: {known}."
    P051 = "[P051] `{command}` failed. Correct what it says:\n{output}"
