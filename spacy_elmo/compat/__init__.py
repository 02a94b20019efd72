"""Replacements for packages that are no longer maintained: the same names, signatures, state and results.

- `spacy_elmo.compat.allennlp`: the ELMo modules of AllenNLP 0.9 to 2.10.
- `spacy_elmo.compat.simple_elmo`: `ElmoModel` of simple_elmo.
- `spacy_elmo.compat.elmoformanylangs`: `Embedder` of ELMoForManyLangs.
- `spacy_elmo.compat.bilm`: bilm-tf without TensorFlow.
"""
