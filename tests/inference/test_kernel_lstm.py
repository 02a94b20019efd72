"""torch's LSTM by the native kernel: torch's results, bit-identical in every batch, with the weights of the moment."""

import threading

import pytest
import torch
from inference.forcing import force_engine, needs_kernel

from spacy_elmo.inference import kernel_stack
from spacy_elmo.inference.kernel_lstm import PackedLSTM
from spacy_elmo.inference.lstm_sequences import run_lstm, run_packed

WIDTHS = [(1, 1), (7, 3), (5, 33), (64, 16), (200, 70), (100, 256)]  # of the input, and of one direction
LENGTHS = [3, 0, 20, 1, 5, 5, 0, 1, 40, 2]


def make_weights(n_inputs, width):
    """Of both directions, three times as large as those of a new `torch.nn.LSTM`, so that the gates move."""
    torch.manual_seed(0)
    lstm = torch.nn.LSTM(n_inputs, width, bidirectional=True)
    return [3.0 * weight.detach() for direction in lstm.all_weights for weight in direction]


def count_runs(monkeypatch):
    """A list to which each computation by the kernel adds the number of its tasks."""
    runs, run_parallel = [], kernel_stack.run_parallel

    def run(function, items):
        runs.append(len(items))
        return run_parallel(function, items)

    monkeypatch.setattr(kernel_stack, "run_parallel", run)
    return runs


@needs_kernel
@pytest.mark.parametrize("lengths", [LENGTHS, [1], [500], [0, 1, 0]], ids=str)
@pytest.mark.parametrize("widths", WIDTHS, ids=str)
def test_outputs_are_those_of_torch(widths, lengths, monkeypatch):
    runs, weights, rows = count_runs(monkeypatch), make_weights(*widths), torch.randn(sum(lengths), widths[0])
    outputs = run_lstm(rows, lengths, weights, PackedLSTM())
    assert runs == [2] and outputs.shape == (sum(lengths), 2 * widths[1]) and outputs.abs().max() > 0.01
    torch.testing.assert_close(outputs, run_packed(rows, lengths, weights), atol=1e-5, rtol=0)


@needs_kernel
@pytest.mark.parametrize("widths", WIDTHS, ids=str)
def test_outputs_are_bit_identical_in_every_batch_and_with_any_number_of_threads(widths, monkeypatch):
    lengths = [*LENGTHS, *range(1, 30)]
    weights, packed, sequences = make_weights(*widths), PackedLSTM(), [torch.randn(n, widths[0]) for n in lengths]
    empty = torch.empty(0, 2 * widths[1])
    single = [run_lstm(rows, [len(rows)], weights, packed) if len(rows) else empty for rows in sequences]
    for n_threads in (1, 2, 8):
        torch.set_num_threads(n_threads)
        for order in (range(len(lengths)), range(len(lengths))[::-1], range(7)):
            sizes = [lengths[number] for number in order]
            outputs = run_lstm(torch.cat([sequences[number] for number in order]), sizes, weights, packed)
            for number, rows in zip(order, outputs.split(sizes)):
                assert torch.equal(rows, single[number])
    monkeypatch.setattr(kernel_stack, "CALL_MULTIPLICATIONS", 1)
    assert torch.equal(run_lstm(torch.cat(sequences), lengths, weights, packed), torch.cat(single))


@needs_kernel
def test_bad_numbers_stay_in_their_sequence():
    weights, lengths = make_weights(5, 33), [4, 4, 4]
    rows = torch.randn(12, 5)
    expected = run_lstm(rows, lengths, weights, PackedLSTM())
    rows[5] = float("nan")
    outputs = run_lstm(rows, lengths, weights, PackedLSTM())
    assert torch.equal(outputs[:4], expected[:4]) and torch.equal(outputs[8:], expected[8:])
    assert torch.equal(outputs.isnan(), run_packed(rows, lengths, weights).isnan()) and outputs.isnan().any()


def write_with_numpy(weights):
    weights[5].numpy()[...] += 0.1


def write_through_data(weights):
    weights[3].data[0] -= 1.0


def replace(weights):
    weights[4] = -weights[4]


def write_nan(weights):
    weights[0][0, 0] = float("nan")


@needs_kernel
@pytest.mark.parametrize("change", [write_with_numpy, write_through_data, replace, write_nan])
def test_changed_weights_are_used_at_once(change, monkeypatch):
    runs, weights, packed, rows = count_runs(monkeypatch), make_weights(5, 33), PackedLSTM(), torch.randn(9, 5)
    before = run_lstm(rows, [9], weights, packed)
    change(weights)
    after = run_lstm(rows, [9], weights, packed)
    assert not torch.equal(before, after)
    torch.testing.assert_close(after, run_packed(rows, [9], weights), atol=1e-5, rtol=0, equal_nan=True)
    assert runs == [2, 2]


@needs_kernel
def test_weights_are_packed_once_and_again_after_a_change(monkeypatch):
    stacks, weights, packed, rows = [], make_weights(5, 33), PackedLSTM(), torch.randn(9, 5)
    weights[0][0, 0] = float("nan")  # which does not equal itself
    init = kernel_stack.KernelStack.__init__

    def count(stack, *settings):
        stacks.append(stack)
        init(stack, *settings)

    monkeypatch.setattr(kernel_stack.KernelStack, "__init__", count)
    for _ in range(3):
        run_lstm(rows, [9], weights, packed)
    assert len(stacks) == 1
    weights[7][-1] += 1e-6
    run_lstm(rows, [9], weights, packed)
    assert len(stacks) == 2


@needs_kernel
def test_threads_can_share_weights():
    weights, rows, packed, results = make_weights(200, 70), torch.randn(sum(LENGTHS), 200), PackedLSTM(), {}
    expected = run_lstm(rows, LENGTHS, weights, PackedLSTM())
    torch.set_num_threads(2)

    def compute(number):
        results[number] = [run_lstm(rows, LENGTHS, weights, packed) for _ in range(20)]

    workers = [threading.Thread(target=compute, args=[number]) for number in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len(results) == 4
    assert all(torch.equal(outputs, expected) for several in results.values() for outputs in several)


def need_gradients(rows, weights):
    weights[0].requires_grad_()
    return torch.enable_grad()


def use_double(rows, weights):
    for tensor in (rows, *weights):
        tensor.data = tensor.double()
    return torch.no_grad()


def use_autocast(rows, weights):
    return torch.autocast("cpu", dtype=torch.bfloat16)


TORCH_CASES = [need_gradients, use_double, use_autocast]


@pytest.mark.parametrize("case", TORCH_CASES)
def test_torch_computes_with_gradients_other_types_and_autocast(case, monkeypatch):
    runs, weights, rows = count_runs(monkeypatch), make_weights(7, 3), torch.randn(9, 7)
    with case(rows, weights):
        outputs = run_lstm(rows, [4, 5], weights, PackedLSTM())
    assert not runs and outputs.requires_grad == any(tensor.requires_grad for tensor in (rows, *weights))


@needs_kernel
@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode, torch.enable_grad])
def test_weights_packed_in_any_mode_are_used_in_all(mode):
    weights, packed, rows = make_weights(7, 3), PackedLSTM(), torch.randn(9, 7)
    with mode():
        first = run_lstm(rows, [9], weights, packed)
    assert not first.is_inference() and not first.requires_grad
    with torch.device("meta"):
        assert torch.equal(run_lstm(rows, [9], weights, packed), first)


def test_torch_computes_without_the_kernel(monkeypatch):
    force_engine(monkeypatch, "torch")
    weights, rows = make_weights(7, 3), torch.randn(9, 7)
    with torch.no_grad():
        assert torch.equal(run_lstm(rows, [4, 5], weights, PackedLSTM()), run_packed(rows, [4, 5], weights))
