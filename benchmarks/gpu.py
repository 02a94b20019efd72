"""Speed on a GPU of a million tokens, next to a plain loop over time, torch's LSTM and a small RoBERTa.

python benchmarks/gpu.py en_elmo_sm --device cuda
"""

import statistics
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import Callable, Dict, Iterator, List
from unittest.mock import patch

import torch
import typer
from corpus import Sentence, default_shared, flatten, read_documents
from machine import count_flops, matrix_peak
from measure import batches
from operations import Counter
from plain_loop import PlainBiLM
from torch import Tensor

from spacy_elmo import BiLM, load_bilm, save_bilm
from spacy_elmo.inference import encoder

TYPES = {"float32": torch.float32, "tf32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
CACHE_BYTES = 2**30  # all words of the text
COPY_BYTES = 2**28
ROBERTA_LAYERS, ROBERTA_POSITIONS = 6, 514
Systems = Dict[str, Callable[[], None]]


def main(
    # fmt: off
    weights: str = typer.Argument("en_elmo_sm", help="biLM weights of any format."),
    device: str = typer.Option("cuda", "--device", "-d", help="A PyTorch device."),
    precision: List[str] = typer.Option(["float32", "bfloat16"], "--precision", "-p", help=f"Of {', '.join(TYPES)}."),
    lanes: List[int] = typer.Option([512, 2048], "--lanes", "-l", help="Lanes: sequences computed in parallel."),
    batch_tokens: int = typer.Option(262144, "--batch-tokens", "-b", help="Tokens per batch."),
    batch_size: int = typer.Option(512, "--batch-size", "-B", help="Sentences per batch of the peers."),
    n_tokens: int = typer.Option(1_000_000, "--tokens", "-n", help="Tokens of the text; peers read a tenth of it."),
    repeats: int = typer.Option(3, "--repeats", "-r", help="Interleaved rounds; medians are printed."),
    # fmt: on
) -> None:
    """Print tokens/s with and without the word cache and the copy to the host, and shares of the hardware's peaks."""
    if not set(precision) <= set(TYPES):
        raise typer.BadParameter(f"{', '.join(set(precision) - set(TYPES))}: should be of {', '.join(TYPES)}")
    text = make_text(n_tokens)
    part = text[: len(text) // 10]
    n_words = len({word for sentence in text for word in sentence})
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "bilm"
        save_bilm(load_bilm(weights), folder, format="bilm-tf")
        flops = count_flops(folder, text)
        print(
            f"{weights}: {sum(map(len, text))} tokens, {n_words} distinct, on {describe(device)}, medians of {repeats}"
        )
        for name in precision:
            measure(folder, device, name, lanes, batch_tokens, batch_size, (text, part), repeats, flops)


def measure(  # type: ignore[no-untyped-def]
    folder: Path, device: str, name: str, lanes, batch_tokens, batch_size, texts, repeats, flops
) -> None:
    """Print the rates of one precision."""
    text, part = texts
    bilm = load_bilm(folder).to(device).set_precision("float32" if name == "tf32" else name)
    bilm.word_cache.max_bytes = CACHE_BYTES
    ours: Systems = {}
    for n in lanes:
        ours[f"{n} lanes, cold word cache"] = lambda n=n: read(bilm, text, n, batch_tokens, is_cold=True)
        ours[f"{n} lanes"] = lambda n=n: read(bilm, text, n, batch_tokens)
        ours[f"{n} lanes, copied to the host"] = lambda n=n: read(bilm, text, n, batch_tokens, to_host=True)
    peers = make_peers(folder, bilm, device, TYPES[name], batch_size, part)
    rates: Dict[str, List[float]] = {key: [] for key in [*ours, *peers]}
    with tf32(name == "tf32"), torch.no_grad():
        for number in range(repeats + 1):
            for key, system in [*ours.items(), *peers.items()]:
                seconds = time_it(system, device)
                if number:  # the first round warms up
                    rates[key].append(sum(map(len, text if key in ours else part)) / seconds)
        peak, copy_rate = matrix_peak(TYPES[name], device), copy_bandwidth(device)
    with torch.no_grad(), Counter() as counter:
        read(bilm, text, lanes[0], batch_tokens)
    n_batches = -(-sum(map(len, text)) // batch_tokens)
    print(f"{name:9} {counter.n_operations / n_batches:.0f} operations launched a batch, {lanes[0]} lanes, warm cache")
    best_peer = max(statistics.median(rates[key]) for key in peers)
    for key, found in rates.items():
        rate = statistics.median(found)
        share = f"{rate * flops / peak * 1e-9:4.1%} of {peak * 1e-3:.3g} TFLOP/s"
        notes = f"{rate / best_peer:6.2f} x the fastest peer, {share}"
        if "host" in key:
            n_bytes = 4 * (bilm.config.n_layers + 1) * bilm.config.output_width
            notes += f", {rate * n_bytes / copy_rate * 1e-9:4.1%} of {copy_rate:.1f} GB/s to the host"
        print(f"{name:9} {key:34} {rate:10.0f} tokens/s {notes if key in ours else ''}")


def read(
    bilm: BiLM, text: List[Sentence], n_lanes: int, batch_tokens: int, *, is_cold: bool = False, to_host: bool = False
) -> None:
    """Compute all layers, and discard them."""
    if is_cold:
        bilm.word_cache.max_bytes = 0
        bilm.word_cache.max_bytes = CACHE_BYTES
    with patch.multiple(encoder, MAX_LANES=n_lanes, GPU_MAX_LANES=n_lanes):
        if to_host:
            bilm.embed(text, batch_tokens=batch_tokens)
        else:
            for _ in bilm.iter_encode(text, batch_tokens=batch_tokens, reuse_memory=True):
                pass


def make_text(n_tokens: int) -> List[Sentence]:
    """RETURNS (List[Sentence]): UD EWT dev, repeated. In each repetition other words replace those that occur once, in
    the ratio of new words in a text of this length, so that a cache of words does not do all the work.
    """
    sentences = flatten(read_documents(default_shared()))
    counts: Dict[str, int] = {}
    for sentence in sentences:
        for word in sentence:
            counts[word] = counts.get(word, 0) + 1
    rare = {word: number for number, word in enumerate(word for word, count in counts.items() if count == 1)}
    text: List[Sentence] = []
    repetition = 0
    while n_tokens > 0:
        for sentence in sentences:
            # A third of the rare words: a twentieth of the text.
            changed = [
                f"{word}{repetition}" if word in rare and (rare[word] + repetition) % 3 == 0 else word
                for word in sentence
            ]
            text.append(changed[:n_tokens])
            n_tokens -= len(text[-1])
            if n_tokens <= 0:
                return text
        repetition += 1
    return text


def make_peers(
    folder: Path, bilm: BiLM, device: str, dtype: torch.dtype, batch_size: int, text: List[Sentence]
) -> Systems:
    """RETURNS (Systems): Other implementations, each with its words or word vectors on the device."""
    plain = PlainBiLM(folder, device, dtype)
    text = sorted(text, key=len)
    lengths = [torch.tensor([len(sentence) for sentence in batch]) for batch in batches(text, batch_size)]
    config = bilm.config
    lstm = torch.nn.LSTM(
        config.projection_width,
        config.cell_width,
        config.n_layers,
        batch_first=True,
        proj_size=config.projection_width,
        bidirectional=True,
        device=device,
        dtype=dtype,
    )
    widest = max(int(found.max()) for found in lengths)
    vectors = torch.randn(batch_size, widest, config.projection_width, device=device, dtype=dtype)

    def read_plainly() -> None:
        for batch in batches(text, batch_size):
            plain(batch)

    def read_lstm() -> None:
        for found in lengths:
            lstm(vectors[: len(found), : int(found.max())])

    systems: Systems = {
        "plain loop over time": read_plainly,
        "torch.nn.LSTM on word vectors, no clips": read_lstm,
    }
    roberta = make_roberta(device, dtype)
    if roberta is not None:

        def read_roberta() -> None:
            for found in lengths:
                mask = torch.arange(int(found.max()))[None] < found[:, None]
                ids = torch.where(mask, 10, 1).to(device)
                roberta(ids, mask.to(device))

        systems[f"RoBERTa, {ROBERTA_LAYERS} layers, a piece a word"] = read_roberta
    return systems


def make_roberta(device: str, dtype: torch.dtype) -> "Callable[[Tensor, Tensor], object] | None":
    """RETURNS (Optional[Callable]): A RoBERTa of random weights, None without the package `transformers`."""
    try:
        from transformers import RobertaConfig, RobertaModel
    except ImportError:
        return None
    config = RobertaConfig(
        num_hidden_layers=ROBERTA_LAYERS, max_position_embeddings=ROBERTA_POSITIONS, pad_token_id=1, vocab_size=1000
    )
    model = RobertaModel(config, add_pooling_layer=False).eval().to(device, dtype)
    return lambda ids, mask: model(input_ids=ids, attention_mask=mask)


def time_it(system: Callable[[], None], device: str) -> float:
    """RETURNS (float): Seconds until the device has finished."""
    started = time.perf_counter()
    system()
    if device.startswith("cuda"):
        torch.cuda.synchronize(device)
    return time.perf_counter() - started


def copy_bandwidth(device: str) -> float:
    """RETURNS (float): GB/s from the device to page-locked memory of the host."""
    source = torch.empty(COPY_BYTES, dtype=torch.uint8, device=device)
    target = torch.empty(COPY_BYTES, dtype=torch.uint8, pin_memory=device.startswith("cuda"))
    return COPY_BYTES * 1e-9 / min(time_it(lambda: target.copy_(source), device) for _ in range(5))  # type: ignore[arg-type, return-value]


@contextmanager
def tf32(is_allowed: bool) -> Iterator[None]:
    """Allow or forbid TF32 in the products of the peers and ours."""
    before = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = is_allowed
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = before


def describe(device: str) -> str:
    """RETURNS (str): The name of the processor."""
    return torch.cuda.get_device_name(device) if device.startswith("cuda") else device


if __name__ == "__main__":
    typer.run(main)
