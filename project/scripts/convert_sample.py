"""Convert the English sample from readable text to spaCy's binary format; see assets/sample/README.md for the text.

`[LOC New/PROPN York/PROPN] sleeps/VERB ./PUNCT` is one sentence; `# topic:` starts a passage, which becomes one Doc.
"""

from pathlib import Path
from typing import List, Tuple

import typer
from atomic_files import replace_file
from messages import Messages
from spacy.tokens import Doc, DocBin
from spacy.vocab import Vocab
from wasabi import msg

# The universal POS tags (de Marneffe et al. 2021).
UPOS_TAGS = "ADJ ADP ADV AUX CCONJ DET INTJ NOUN NUM PART PRON PROPN PUNCT SCONJ SYM VERB X".split()
ENTITY_LABELS = ["PERSON", "LOC", "ORG", "MISC"]
TOPIC_PREFIX = "# topic:"
# One token: its text, its universal POS tag, its entity tag in IOB2.
Row = Tuple[str, str, str]
# One sentence is a list of rows, one passage a list of sentences.
Passage = List[List[Row]]


def convert_cli(
    # fmt: off
    input_path: Path = typer.Argument(..., help="Text file of the sample", exists=True, dir_okay=False),
    output_path: Path = typer.Argument(..., help="File to write, .spacy", dir_okay=False),
    force: bool = typer.Option(False, "--force", "-F", help="Replace the output file if it exists"),
    # fmt: on
) -> None:
    """Convert a file of the English sample to spaCy's binary format, one Doc per passage."""
    try:
        n_docs, n_sentences, n_tokens = convert_sample(input_path, output_path, force=force)
    except (ValueError, FileExistsError) as e:
        msg.fail(f"Cannot convert {input_path}")
        typer.echo(str(e))  # wasabi would merge the lines
        raise typer.Exit(1) from e
    msg.good(f"{output_path}: {n_docs:,} docs, {n_sentences:,} sentences, {n_tokens:,} tokens")


def convert_sample(input_path: Path, output_path: Path, *, force: bool = False) -> Tuple[int, int, int]:
    """Write one file of the sample in spaCy's binary format, atomically.

    RETURNS (Tuple[int, int, int]): Number of docs, sentences and tokens.
    RAISES (ValueError): P010 if a line is not in the format.
    RAISES (FileExistsError): P011 if the output exists and `force` is not set.
    """
    if output_path.exists() and not force:
        raise FileExistsError(Messages.P011.format(path=output_path))
    docs = read_sample(input_path)
    with replace_file(output_path) as part:
        DocBin(docs=docs).to_disk(part)
    return len(docs), sum(len(list(doc.sents)) for doc in docs), sum(len(doc) for doc in docs)


def read_sample(path: Path) -> List[Doc]:
    """Read a file of the sample into Docs, one per passage.

    RAISES (ValueError): P010 with all lines that are not in the format.
    """
    vocab = Vocab()
    return [_make_doc(vocab, passage) for passage in read_passages(path)]


def read_passages(path: Path) -> List[Passage]:
    """Read a file of the sample into passages of sentences of (token, POS tag, IOB2 tag).

    RAISES (ValueError): P010 with all lines that are not in the format.
    """
    passages: List[Passage] = []
    problems: List[str] = []
    for n_line, line in enumerate(path.read_text(encoding="utf8").splitlines(), start=1):
        if line.startswith(TOPIC_PREFIX):
            passages.append([])
        elif line.strip() and not line.startswith("# "):
            rows, line_problems = _parse_sentence(line)
            if not passages:
                line_problems.append((repr(line[:30]), f"a line '{TOPIC_PREFIX} ...' before the first sentence"))
                passages.append([])
            passages[-1].append(rows)
            problems += [Messages.LINE.format(path=path, line=n_line, found=f, wanted=w) for f, w in line_problems]
    passages = [passage for passage in passages if passage]
    if not passages:
        problems.append(Messages.LINE.format(path=path, line=1, found="no sentence", wanted="at least one"))
    if problems:
        raise ValueError(Messages.P010.format(path=path, n_problems=len(problems), problems="\n".join(problems)))
    return passages


def _parse_sentence(line: str) -> Tuple[List[Row], List[Tuple[str, str]]]:
    """RETURNS (Tuple[List[Row], List[Tuple[str, str]]]): The rows, and for each problem the text found and wanted."""
    rows: List[Row] = []
    problems: List[Tuple[str, str]] = []
    label, iob = "", "O"  # label of the current entity, tag of the next token
    for item in line.split():
        if item.startswith("[") and "/" not in item:
            if label:
                problems.append((f"'{item}' inside an entity", f"']' after the last token of the {label} first"))
            if item[1:] not in ENTITY_LABELS:
                problems.append((f"entity label '{item[1:]}'", f"one of {', '.join(ENTITY_LABELS)}"))
            label, iob = item[1:], f"B-{item[1:]}"
            continue
        word, _, tag = item.rpartition("/")
        is_last = tag.endswith("]")
        tag = tag[:-1] if is_last else tag
        if not word:
            problems.append((f"'{item}'", "a token, a slash and its tag, as in 'light/NOUN'"))
        elif tag not in UPOS_TAGS:
            problems.append((f"tag '{tag}' of '{word}'", f"one of {', '.join(UPOS_TAGS)}"))
        if is_last and not label:
            problems.append((f"']' in '{item}' outside an entity", "'[LABEL' before it"))
        rows.append((word, tag, iob))
        label, iob = ("", "O") if is_last else (label, f"I-{label}" if label else "O")
    if label:
        problems.append((f"entity '[{label}' without an end", "']' after its last token"))
    return rows, problems


def _make_doc(vocab: Vocab, passage: Passage) -> Doc:
    words, tags, iob_tags = zip(*(row for sentence in passage for row in sentence), strict=True)
    sent_starts = [i == 0 for sentence in passage for i in range(len(sentence))]
    return Doc(
        vocab, words=list(words), tags=list(tags), pos=list(tags), ents=list(iob_tags), sent_starts=list(sent_starts)
    )


if __name__ == "__main__":
    typer.run(convert_cli)
