"""The formats of biLMs in one table: the files of each, how they are detected, read and written."""

from dataclasses import dataclass
from pathlib import Path
from typing import Callable, List, Optional, Sequence, Tuple

from ...inference.bilm import BiLM
from ...util import DTYPES
from ..archive import CONFIG_NAME, HDF5_SUFFIXES, OPTIONS_NAME, VOCAB_NAME, Listing, ModelFiles
from ..meta import META_NAME
from .allennlp import ALLENNLP_WEIGHTS, ARCHIVE_NAME, STATE_SUFFIXES, detect_allennlp, read_allennlp
from .bilm_tf import TOKEN_EMBEDDINGS_NAME, detect_bilm_tf, find_unsupported_settings, read_bilm_tf, write_bilm_tf
from .manylangs import EMBEDDER_NAME, ENCODER_NAME, detect_manylangs, read_manylangs
from .native import LEXICON_NAME, WEIGHTS_NAME, detect_native, read_native, write_native
from .pipelines import COMPONENT_FILES, PIPELINE_CONFIG, detect_pipeline, read_pipeline
from .tensorflow import (
    GRAPHS,
    HUB_FILES,
    HUB_INDEX,
    detect_tf_checkpoint,
    detect_tf_hub,
    read_tf_checkpoint,
    read_tf_hub,
)

INT8 = "int8"
WORD_FILES = ("vocab", "token_embeddings", "softmax")


@dataclass(frozen=True)
class Format:
    """A file format of biLMs.

    name (str): Name for `save_bilm` and the command line.
    name_patterns (Sequence[str]): Patterns of names, of which a path in this format has one.
    kinds (Sequence[str]): Kinds of files by their first bytes, see `kind_of_file`, that may be in this format.
    detect (Callable[[Listing], Optional[ModelFiles]]): Finds the files at a path, None for another format.
    read (Callable[..., BiLM]): Reads the output of `detect`, and the files of `takes` by name: float32, on the CPU.
    takes (Sequence[str]): What a user may add: "vocab" (one word per line, in the order of the rows),
        "token_embeddings" (vectors of its words), "softmax" (HDF5), "options", "name" (of one of several biLMs).
    description (str): The files of this format, for errors.
    required (Sequence[str]): Patterns of names of the files that it needs ("a|b" for either), to list those that are
        missing.
    write (Optional[Callable[[BiLM, Path, str], None]]): Writes a biLM to an empty folder, in a dtype; None for a format
        that is only read.
    file_names (Sequence[str]): Names of its files: all that `write` may write, or the archive.
    dtypes (Sequence[str]): Dtypes that `write` supports.
    find_unwritable (Callable[[BiLM], List[str]]): The reasons why `write` cannot write a biLM.
    """

    name: str
    name_patterns: Sequence[str]
    detect: Callable[[Listing], Optional[ModelFiles]]
    read: Callable[..., BiLM]
    takes: Sequence[str]
    description: str
    required: Sequence[str]
    kinds: Sequence[str] = ()
    write: Optional[Callable[[BiLM, Path, str], None]] = None
    file_names: Sequence[str] = ()
    dtypes: Sequence[str] = ()
    find_unwritable: Callable[[BiLM], List[str]] = lambda bilm: []


NATIVE = Format(
    name="native",
    name_patterns=(CONFIG_NAME,),
    detect=detect_native,
    read=read_native,
    takes=("vocab",),
    description=f"a folder or .zip with {CONFIG_NAME} and {WEIGHTS_NAME}",
    required=(CONFIG_NAME, WEIGHTS_NAME),
    write=write_native,
    file_names=(CONFIG_NAME, WEIGHTS_NAME, META_NAME, VOCAB_NAME, LEXICON_NAME),
    dtypes=(*DTYPES, INT8),
)
PIPELINE = Format(
    name="spacy",
    name_patterns=(PIPELINE_CONFIG, *COMPONENT_FILES),
    detect=detect_pipeline,
    read=read_pipeline,
    takes=("name",),
    description=f"the folder of a saved spaCy pipeline with {PIPELINE_CONFIG}, {META_NAME} and a component with a biLM",
    required=(PIPELINE_CONFIG, META_NAME),
)
MANYLANGS = Format(
    name="manylangs",
    name_patterns=(EMBEDDER_NAME, ENCODER_NAME),
    detect=detect_manylangs,
    read=read_manylangs,
    takes=(),
    description=f"a folder or .zip of ELMoForManyLangs with {CONFIG_NAME}, {EMBEDDER_NAME} and {ENCODER_NAME}",
    required=(CONFIG_NAME, EMBEDDER_NAME, ENCODER_NAME),
)
ALLENNLP = Format(
    name="allennlp",
    name_patterns=(ARCHIVE_NAME, *(f"*{suffix}" for suffix in STATE_SUFFIXES)),
    kinds=("torch", "safetensors", "pickle"),
    detect=detect_allennlp,
    read=read_allennlp,
    takes=("vocab", "softmax", "options", "name"),
    description=(
        "an AllenNLP model.tar.gz or its folder, with weights.th, best.th or model_state_epoch_N.th (config.json is "
        "read if there is one), or a state dict: a file of `torch.save` or safetensors, of any name"
    ),
    required=("|".join(ALLENNLP_WEIGHTS),),
    file_names=(ARCHIVE_NAME,),
)
BILM_TF = Format(
    name="bilm-tf",
    name_patterns=(f"*{OPTIONS_NAME}", *(f"*{suffix}" for suffix in HDF5_SUFFIXES)),
    kinds=("hdf5",),
    detect=detect_bilm_tf,
    read=read_bilm_tf,
    takes=WORD_FILES,
    description=(
        "a folder with options.json and one .hdf5 file; an .hdf5 file next to its options.json; a .zip with both"
    ),
    required=(f"*{OPTIONS_NAME}", "|".join(f"*{suffix}" for suffix in HDF5_SUFFIXES)),
    write=write_bilm_tf,
    file_names=(OPTIONS_NAME, "weights.hdf5", VOCAB_NAME, TOKEN_EMBEDDINGS_NAME, META_NAME),
    dtypes=DTYPES,
    find_unwritable=lambda bilm: find_unsupported_settings(bilm.config),
)
TF_HUB = Format(
    name="tf-hub",
    name_patterns=(*GRAPHS, HUB_INDEX.name),
    detect=detect_tf_hub,
    read=read_tf_hub,
    takes=WORD_FILES,
    description=HUB_FILES,
    required=("|".join(GRAPHS),),
)
TF_CHECKPOINT = Format(
    name="tf-checkpoint",
    name_patterns=("*",),
    detect=detect_tf_checkpoint,
    read=read_tf_checkpoint,
    takes=WORD_FILES,
    description=(
        "a folder with a checkpoint of TensorFlow (checkpoint, *.index, *.data-*) and options.json; the path of such a "
        "checkpoint, with or without .index"
    ),
    required=("*.index", "*.data-*", f"*{OPTIONS_NAME}"),
)
# In the order of detection: a dump in HDF5 may lie beside the checkpoint that it was made from.
FORMATS: Tuple[Format, ...] = (NATIVE, PIPELINE, MANYLANGS, ALLENNLP, BILM_TF, TF_HUB, TF_CHECKPOINT)
