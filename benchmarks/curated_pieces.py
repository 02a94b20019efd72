"""Train a byte-BPE vocabulary of RoBERTa's size on English text, with as many wordpieces per word. No download.

Started by `inference.py` with the interpreter of spacy-curated-transformers, which needs `tokenizers` for this, too.
"""

import argparse
import gzip

from tokenizers import ByteLevelBPETokenizer

N_PIECES = 50265
SPECIAL = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]


def main() -> None:
    """Write `vocab.json` and `merges.txt`."""
    parser = argparse.ArgumentParser()
    parser.add_argument("text", help="Gzipped text, one sentence per line, tokens separated by spaces")
    parser.add_argument("folder", help="Output folder")
    arguments = parser.parse_args()
    tokenizer = ByteLevelBPETokenizer()
    with gzip.open(arguments.text, "rt", encoding="utf8") as lines:
        tokenizer.train_from_iterator(lines, vocab_size=N_PIECES, special_tokens=SPECIAL, show_progress=False)
    tokenizer.save_model(arguments.folder)


if __name__ == "__main__":
    main()
