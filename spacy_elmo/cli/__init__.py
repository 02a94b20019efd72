"""The command line, for people: `python -m spacy elmo`, or `python -m spacy_elmo`."""
