"""The data sets of this project: their pipelines and their files."""

from dataclasses import dataclass
from pathlib import Path
from typing import Dict, List, Optional, Tuple

SPLITS = ("train", "dev", "test")
PROJECT_DIR = Path(__file__).resolve().parent.parent
DOWNLOAD_DIR = PROJECT_DIR / "assets" / "downloaded"


@dataclass(frozen=True)
class Dataset:
    """A data set of `DATASETS`.

    pipeline (str): Part of the name of the config file: configs/elmo_<pipeline>.cfg.
    files (Dict[str, Tuple[str, ...]]): For each split the possible paths below the assets folder, in order of
        preference.
    is_ours (bool): Whether its text is part of this repository.
    is_downloaded (bool): Whether `spacy project assets` downloads it; others are read from local copies only.
    """

    pipeline: str
    files: Dict[str, Tuple[str, ...]]
    is_ours: bool = False
    is_downloaded: bool = False


def _local_ner(folder: str) -> Dict[str, Tuple[str, ...]]:
    return {split: (f"ner/{folder}/{split}.spacy", f"ner/{folder}/{split}.iob2") for split in SPLITS}


def _local_ud(folder: str) -> Dict[str, Tuple[str, ...]]:
    kinds = ("spacy", "conllu.gz", "conllu")
    return {split: tuple(f"ud/{folder}/{split}.{kind}" for kind in kinds) for split in SPLITS}


DATASETS = {
    "sample": Dataset("tagger_ner", {split: (f"{split}.txt",) for split in SPLITS}, is_ours=True),
    "wnut17": Dataset(
        "ner",
        {
            split: (f"wnut17/{upstream}", f"ner/wnut17/{split}.spacy", f"ner/wnut17/{split}.iob2")
            for split, upstream in zip(
                SPLITS, ("wnut17train.conll", "emerging.dev.conll", "emerging.test.annotated"), strict=True
            )
        },
        is_downloaded=True,
    ),
    "ud_en_ewt": Dataset(
        "tagger_morphologizer",
        {
            split: (
                f"ud_en_ewt/en_ewt-ud-{split}.conllu",
                f"ud/en_ewt/{split}.spacy",
                f"ud/en_ewt/{split}.conllu.gz",
                f"ud/en_ewt/{split}.conllu",
            )
            for split in SPLITS
        },
        is_downloaded=True,
    ),
    "wikigold": Dataset("ner", _local_ner("wikigold")),
    "ncbi_disease": Dataset("ner", _local_ner("ncbi-disease")),
    "fr_sequoia": Dataset("morphologizer", _local_ud("fr_sequoia")),
    "ru_taiga": Dataset("morphologizer", _local_ud("ru_taiga-r2.7")),
    "goemotions": Dataset("textcat", {split: (f"goemotions/{split}.jsonl.gz",) for split in SPLITS}),
}
# Read as they are, by layers.py and contexts.py; local copies only.
CORPORA = {
    "semcor": {split: (f"wsd/semcor-noad-{split}.jsonl.gz",) for split in ("train", "test")},
    "contexts": {
        "documents": ("lm-english/documents.tsv.gz",),
        "valid": ("lm-english/valid.txt.gz",),
        **{split: (f"ud/en_ewt/{split}.spacy",) for split in ("train", "dev")},
    },
}
FILES: Dict[str, Dict[str, Tuple[str, ...]]] = {
    **{name: dataset.files for name, dataset in DATASETS.items()},
    **CORPORA,
}


def find_dataset(name: str) -> Optional[Dataset]:
    """RETURNS (Optional[Dataset]): None if no data set has this name."""
    return DATASETS.get(name)


def find_files(files: Dict[str, Tuple[str, ...]], assets_dir: Path) -> Tuple[Dict[str, Path], List[str]]:
    """Find a file of each split below a folder.

    files (Dict[str, Tuple[str, ...]]): See `Dataset`.
    RETURNS (Tuple[Dict[str, Path], List[str]]): The files by split, and the paths tried for each split without a file.
    """
    found, missing = {}, []
    for split, names in files.items():
        paths = [assets_dir / name for name in names if (assets_dir / name).is_file()]
        if paths:
            found[split] = paths[0]
        else:
            missing.append(f"{split}: {' or '.join(names)}")
    return found, missing
