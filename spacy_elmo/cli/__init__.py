"""The command line: `python -m spacy elmo`, or `python -m spacy_elmo`."""
