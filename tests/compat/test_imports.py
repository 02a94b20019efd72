"""Imports of programs for other packages, after their prefix is replaced."""

import subprocess
import sys

import pytest

IMPORTS = [
    "from {}allennlp.modules.elmo import Elmo, batch_to_ids, _ElmoBiLm, _ElmoCharacterEncoder",
    "from {}allennlp.modules.elmo_lstm import ElmoLstm",
    "from {}allennlp.modules.scalar_mix import ScalarMix",
    "from {}allennlp.modules.token_embedders import ElmoTokenEmbedder",
    "from {}allennlp.modules.token_embedders.elmo_token_embedder import ElmoTokenEmbedder",
    "from {}allennlp.modules import Elmo, ScalarMix",
    "from {}allennlp.commands.elmo import ElmoEmbedder, DEFAULT_OPTIONS_FILE",
    "from {}allennlp.data.token_indexers import ELMoTokenCharactersIndexer",
    "from {}allennlp.data.token_indexers.elmo_indexer import ELMoCharacterMapper",
    "from {}allennlp.common.checks import ConfigurationError",
    "from {}allennlp.nn.util import remove_sentence_boundaries",
    "import {}allennlp.modules.elmo as elmo; elmo.batch_to_ids",
    "import {}allennlp.modules.elmo; {}allennlp.modules.elmo.batch_to_ids",
    "from {}bilm import Batcher, BidirectionalLanguageModel, weight_layers, TokenBatcher, dump_bilm_embeddings",
    "from {}bilm.data import Batcher, UnicodeCharsVocabulary",
    "from {}bilm.model import BidirectionalLanguageModel, dump_bilm_embeddings",
    "from {}bilm.elmo import weight_layers",
    "from {}elmoformanylangs import Embedder",
    "from {}elmoformanylangs.elmo import Embedder",
    "from {}simple_elmo import ElmoModel",
    "from {}simple_elmo.elmo_helpers import ElmoModel",
]


def test_a_replaced_prefix_is_enough():
    """Each import first, in any order: nothing of the package is imported yet."""
    lines = [line.format("spacy_elmo.compat.", "spacy_elmo.compat.") for line in IMPORTS]
    script = "import sys\nfor line in sys.argv[1:]:\n    exec(line, {})\n"
    for order in (lines, lines[::-1]):
        done = subprocess.run([sys.executable, "-c", script, *order], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr


def test_names_of_submodules_are_those_of_the_package():
    from spacy_elmo.compat.allennlp.modules.elmo import Elmo

    from spacy_elmo.compat import allennlp

    assert Elmo is allennlp.Elmo and Elmo.__module__ == "spacy_elmo.compat.allennlp.elmo"
    with pytest.raises(ImportError, match="LstmSeq2SeqEncoder"):
        from spacy_elmo.compat.allennlp.modules import LstmSeq2SeqEncoder  # noqa: F401
