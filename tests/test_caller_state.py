"""Whatever modes of torch the caller has set, every entry gives the numbers that it gives without, and keeps no trace.

An entry is made, then called twice: once in the mode, once after it. The numbers of both calls, and of a call of what
was made in the mode, are compared with those of the same calls without it.
"""

import contextlib
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List

import numpy as np
import pytest
import spacy
import torch
from compat.tiny import CONFIG, VOCABULARY, make_bilm, save_files
from pipeline.tiny import BILSTM, listening, make_examples, make_tagger, task_encoder, with_elmo
from reference.seeded_manylangs import make_architecture, write_manylangs
from thinc.api import fix_random_seed
from trained import read_parameters

from spacy_elmo import load_bilm, save_bilm
from spacy_elmo.bilm.config import BiLMConfig
from spacy_elmo.bilm.network import BiLMNetwork, SoftmaxHead
from spacy_elmo.compat import allennlp
from spacy_elmo.compat.bilm import Batcher, BidirectionalLanguageModel
from spacy_elmo.compat.elmoformanylangs import Embedder
from spacy_elmo.compat.simple_elmo import ElmoModel
from spacy_elmo.export.onnx_model import start_states
from spacy_elmo.inference import products
from spacy_elmo.inference.bilm import BiLM
from spacy_elmo.inference.installation import describe_kernel
from spacy_elmo.inference.substitutes import find_substitutes
from spacy_elmo.nn import Elmo, batch_to_ids
from spacy_elmo.pipeline.model import set_bilm
from spacy_elmo.text.words import Vocabulary

WORDS = ["She", "sat", "on", "the", "bank", "."]
SENTENCES = [WORDS, [], ["Hello", "!"], ["One"]]
MANY = [[*words, f"w{i}"] for i in range(30) for words in SENTENCES]  # enough lanes for prepacked weights
TEXT = " ".join(WORDS)
TRANSFORMER = {"encoder": "transformer", "transformer": {"n_heads": 2, "feedforward_width": 32}, "projection_width": 16}


@contextlib.contextmanager
def default_dtype(dtype: torch.dtype) -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


MODES: Dict[str, Callable[[], Any]] = {
    "autocast bfloat16": lambda: torch.autocast("cpu", dtype=torch.bfloat16),
    "default dtype float64": lambda: default_dtype(torch.float64),
    "default dtype bfloat16": lambda: default_dtype(torch.bfloat16),
    "default device meta": lambda: torch.device("meta"),
    "inference mode": torch.inference_mode,
}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with models: native with softmax, a transformer, ELMoForManyLangs with both encoders, and of bilm-tf in
    `bilm`. Written once; no test changes them.
    """
    folder = tmp_path_factory.mktemp("modes")
    vocabulary = Vocabulary(VOCABULARY)
    torch.manual_seed(0)
    large = BiLMNetwork(BiLMConfig.from_dict({**CONFIG.to_dict(), "cell_width": 256, "projection_width": 64}))
    lstm = BiLM(large, vocabulary=vocabulary, head=SoftmaxHead(len(vocabulary), 64))
    config = BiLMConfig.from_dict({"char_cnn": CONFIG.to_dict()["char_cnn"], "n_layers": 2, **TRANSFORMER})
    transformer = BiLM(BiLMNetwork(config), vocabulary=vocabulary, head=SoftmaxHead(len(vocabulary), 16))
    save_bilm(lstm, folder / "native")
    save_bilm(transformer, folder / "transformer")
    write_manylangs(folder / "manylangs", make_architecture())
    write_manylangs(folder / "lstm", make_architecture(encoder={"name": "lstm"}))
    save_files(make_bilm(), folder)
    return folder


def native(place: Path, **settings: Any) -> BiLM:
    return load_bilm(place / "native", **settings)


def pipeline(place: Path) -> Any:
    nlp = spacy.blank("en")
    set_bilm(nlp.add_pipe("elmo").model, native(place))
    return nlp


def simple(place: Path) -> ElmoModel:
    model = ElmoModel()
    model.load(place / "bilm")
    return model


def make_lstm(place: Path) -> allennlp.ElmoLstm:
    module = allennlp.ElmoLstm(8, 8, 16, 2)
    with torch.no_grad(), torch.device("cpu"):
        generator = torch.Generator().manual_seed(3)
        for parameter in module.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator, dtype=torch.float32) * 0.3)
    return module


def of_files(make: Callable[..., Any], *args: Any, **settings: Any) -> Callable[[Path], Any]:
    """RETURNS: What makes a replacement from the files of bilm-tf."""

    def call(place: Path) -> Any:
        torch.manual_seed(5)
        (weights,) = (place / "bilm").glob("*.hdf5")
        return make(place / "bilm" / "options.json", weights, *args, **settings)

    return call


IDS = batch_to_ids(SENTENCES)
ROWS, MASK = torch.rand(3, 4, 8), torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0], [0, 0, 0, 0]]).bool()
WORD_IDS = torch.tensor([[1, 2, 3], [4, 5, 0], [1, 0, 0], [2, 0, 0]])


def elmo_of(module: Any, inputs: Any) -> List[Any]:
    found = module(inputs)
    return list(found.representations if isinstance(module, Elmo) else found["elmo_representations"])


# What is made, from the folders, and what is computed with it.
ENTRIES: Dict[str, Any] = {
    "embed": (
        native,
        lambda bilm: [
            *bilm.embed([WORDS]),
            *bilm.embed(SENTENCES),
            *bilm.embed(MANY),
            *bilm.embed(SENTENCES, state="steady"),
            *bilm.embed(SENTENCES, state="carry"),
            *bilm.embed(SENTENCES, state=None, return_state=True)[0],
            *bilm.to("cpu").embed(SENTENCES),
        ],
    ),
    "embed int8": (lambda place: native(place, precision="int8"), lambda bilm: bilm.embed(SENTENCES)),
    "embed in float32 after int8": (
        lambda place: native(place).set_precision("int8").set_precision("float32"),
        lambda bilm: bilm.embed(SENTENCES),
    ),
    "encode": (
        native,
        lambda bilm: [
            bilm.encode(SENTENCES),
            bilm.encode([[0, 1, 2, 3], [4, 5]], char_ids=IDS[0]),
            bilm.encode(SENTENCES, with_grad=True),
            *(rows for _, _, rows in bilm.iter_encode(SENTENCES, batch_tokens=2)),
        ],
    ),
    "steady state": (lambda place: load_bilm(place / "bilm"), lambda bilm: [bilm.steady_state.h]),
    "language model": (
        native,
        lambda bilm: [
            bilm.perplexity(SENTENCES).mean,
            bilm.perplexity(SENTENCES, state="reset").mean,
            *bilm.token_losses(SENTENCES),
            [one.probability for one in find_substitutes(bilm, WORDS, 3)],
        ],
    ),
    "transformer": (
        lambda place: load_bilm(place / "transformer"),
        lambda bilm: [*bilm.embed(SENTENCES), bilm.perplexity(SENTENCES).mean],
    ),
    "ELMoForManyLangs": (lambda place: load_bilm(place / "manylangs"), lambda bilm: bilm.embed(SENTENCES)),
    "export": (native, lambda bilm: [array for pair in start_states(bilm) for array in pair]),
    "component": (
        pipeline,
        lambda nlp: [
            nlp(TEXT)._.elmo,
            *(doc._.elmo for doc in nlp.pipe([TEXT, "Hello !"])),
            nlp.from_bytes(nlp.to_bytes())(TEXT)._.elmo,
        ],
    ),
    "nn.Elmo": (
        lambda place: Elmo(native(place), dropout=0.0),
        lambda elmo: [*elmo_of(elmo, SENTENCES), *elmo_of(elmo, IDS), batch_to_ids(SENTENCES)],
    ),
    "nn.Elmo, trained": (
        lambda place: Elmo(place / "native", dropout=0.0, trainable=True),
        lambda elmo: elmo_of(elmo, SENTENCES),
    ),
    "nn.Elmo, digest": (
        lambda place: Elmo(place / "native", store_bilm=False),
        lambda elmo: [elmo.load_state_dict(elmo.state_dict()), elmo.state_dict()["encoder.digest"]][1:],
    ),
    "AllenNLP Elmo": (of_files(allennlp.Elmo, 1, dropout=0.0), lambda elmo: elmo_of(elmo, IDS)),
    "AllenNLP Elmo, norm, trained": (
        of_files(allennlp.Elmo, 1, dropout=0.0, do_layer_norm=True, requires_grad=True),
        lambda elmo: elmo_of(elmo, IDS),
    ),
    "AllenNLP Elmo, cached words": (
        of_files(allennlp.Elmo, 1, dropout=0.0, vocab_to_cache=["<pad>", *VOCABULARY]),
        lambda elmo: elmo(IDS[:, :3], WORD_IDS)["elmo_representations"],
    ),
    "ElmoTokenEmbedder": (
        of_files(allennlp.ElmoTokenEmbedder, dropout=0.0, projection_dim=3),
        lambda embedder: [embedder(IDS)],
    ),
    "ElmoEmbedder": (of_files(allennlp.ElmoEmbedder), lambda embedder: embedder.embed_batch(SENTENCES)),
    "ElmoBiLm": (of_files(allennlp.ElmoBiLm), lambda module: module(IDS)["activations"]),
    "ElmoLstm": (make_lstm, lambda module: [module(ROWS, MASK)]),
    "ElmoCharacterEncoder": (
        of_files(allennlp._ElmoCharacterEncoder),
        lambda encoder: [encoder(IDS)["token_embedding"]],
    ),
    "bilm-tf": (
        of_files(BidirectionalLanguageModel),
        lambda model: [model(Batcher(None, 50).batch_sentences(SENTENCES))["lm_embeddings"]],
    ),
    "simple_elmo": (simple, lambda model: [model.get_elmo_vectors(SENTENCES), model.get_elmo_vector_average([WORDS])]),
    "Embedder": (lambda place: Embedder(place / "manylangs"), lambda embedder: embedder.sents2elmo(SENTENCES)),
    "Embedder, padded": (lambda place: Embedder(place / "lstm"), lambda embedder: embedder.sents2elmo(SENTENCES)),
}


def assert_close(found: List[Any], wanted: List[Any]) -> None:
    for pair in zip(found, wanted, strict=True):
        arrays = [np.asarray(part.detach().double() if isinstance(part, torch.Tensor) else part) for part in pair]
        np.testing.assert_allclose(*arrays, atol=1e-5, rtol=1e-6)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("entry", ENTRIES)
def test_a_mode_changes_no_number_and_leaves_no_trace(place: Path, entry: str, mode: str) -> None:
    if not all(products.is_supported_on_cpu(precision) for precision in ("int8", "bfloat16") if precision in entry):
        pytest.skip(f"native kernel: {describe_kernel()}")
    make, use = ENTRIES[entry]
    reference = make(place)
    first, second = use(reference), use(reference)
    made = make(place)
    with MODES[mode]():
        found, made_inside = use(made), make(place)
    assert_close(found, first)
    assert_close(use(made), second)
    assert_close(use(made_inside), first)


ARCHITECTURES = {"crf_ner": "spacy-elmo.CRFTagger.v1", "biaffine_parser": "spacy-elmo.BiaffineParser.v1"}


@pytest.mark.parametrize("mode", [*MODES, "no grad"])
@pytest.mark.parametrize("kind", ["tagger", "crf_ner", "biaffine_parser", "encoder"])
def test_a_pipeline_learns_the_same_in_a_mode(kind: str, mode: str) -> None:
    def learn(enter: Callable[[], Any]) -> List[Any]:
        fix_random_seed(0)
        if kind in ARCHITECTURES:
            nlp = with_elmo(model={"frozen": False})
            nlp.add_pipe(kind, config=listening(ARCHITECTURES[kind]))
            nlp.initialize(lambda: make_examples(nlp))
        else:
            tok2vec = task_encoder("input", BILSTM) if kind == "encoder" else None
            nlp = make_tagger(tok2vec, model={"frozen": kind == "encoder"})
        examples = make_examples(nlp)
        with enter():
            for _ in range(2):
                nlp.update(examples)
            nlp.evaluate(examples)
        nlp.update(examples)
        parameters = [read_parameters(component.model) for _, component in nlp.pipeline]
        return [doc._.elmo for doc in nlp.pipe([TEXT, "Oslo"])] + [part for p in parameters for part in p.values()]

    assert_close(learn(MODES.get(mode, torch.no_grad)), learn(contextlib.nullcontext))


def test_the_rest_of_a_model_runs_in_autocast(place: Path) -> None:
    elmo, scores = Elmo(place / "native", dropout=0.0, trainable=True), torch.nn.Linear(128, 2)
    before = elmo(SENTENCES).representations[0].detach()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = scores(elmo(SENTENCES).representations[0])
        assert found.dtype == torch.bfloat16
        loss = found.float().square().mean()
    loss.backward()
    assert all(parameter.grad is not None for parameter in elmo.encoder.network.encoder.parameters())
    torch.optim.SGD(elmo.parameters(), lr=1.0).step()
    with torch.autocast("cpu", dtype=torch.bfloat16), torch.no_grad():
        after = elmo(SENTENCES).representations[0]
    assert not torch.allclose(after, before)
    with torch.no_grad():
        torch.testing.assert_close(after, elmo(SENTENCES).representations[0], atol=1e-5, rtol=0)


def test_what_is_made_in_inference_mode_can_be_trained(place: Path) -> None:
    rounded = "bfloat16" if products.is_supported_on_cpu("bfloat16") else "float32"
    with torch.inference_mode():
        elmo = Elmo(native(place).set_precision(rounded).set_precision("float32"), dropout=0.0)
        elmo(SENTENCES)
        state, layers = elmo.bilm.steady_state, elmo.bilm.encode(SENTENCES)
        module = make_lstm(place)
        module(ROWS, MASK)
        module.reset_states(torch.tensor([True, False, False]))
    elmo.encoder.requires_grad_(True)
    weight = torch.ones(1, requires_grad=True)
    (elmo(SENTENCES).representations[0].sum() + (weight * state.h).sum() + (weight * layers).sum()).backward()
    module.requires_grad_(True)
    module(ROWS, MASK).sum().backward()
    gradients = [parameter.grad for part in (elmo, module) for parameter in part.parameters()]
    assert weight.grad is not None and sum(gradient is not None for gradient in gradients) > 20


@pytest.mark.gpu
@pytest.mark.parametrize(
    "enter",
    [
        lambda: torch.autocast("cuda", dtype=torch.float16),
        lambda: torch.autocast("cuda", dtype=torch.bfloat16),
        lambda: torch.device("cuda"),
        torch.inference_mode,
    ],
    ids=["float16", "bfloat16", "default device", "inference mode"],
)
@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_modes_of_a_gpu_change_no_number(place: Path, enter: Callable[[], Any], device: str) -> None:
    wanted = native(place).embed(SENTENCES, state="steady")
    for make in (lambda: native(place).to(device), lambda: Elmo(native(place), dropout=0.0).to(device).bilm):
        bilm = make()
        with enter():
            found, inside = bilm.embed(SENTENCES, state="steady"), make()
        for vectors in (found, bilm.embed(SENTENCES, state="steady"), inside.embed(SENTENCES, state="steady")):
            for one, other in zip(vectors, wanted):
                np.testing.assert_allclose(one, other, atol=1e-4)
