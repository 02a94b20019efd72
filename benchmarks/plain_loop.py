"""A plain implementation of the biLM: padded batches, the char-CNN for every token, a loop over time; no gradients.

Peters et al. (2018) with the layout of bilm-tf's files, without any cache. The baseline of the package, and a check of
its numbers.
"""

import json
from pathlib import Path
from typing import Dict, List, Tuple

import h5py
import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

MAX_CHARACTERS = 50
BEGIN, END, WORD_BEGIN, WORD_END, PAD = 256, 257, 258, 259, 260


class PlainCell(nn.Module):
    """One direction of one layer.

    weights (Dict[str, Tensor]): `W_0`, `B` and `W_P_0` of the file.
    cell_clip (float), projection_clip (float): Clipping bounds.
    """

    def __init__(self, weights: Dict[str, Tensor], cell_clip: float, projection_clip: float) -> None:
        super().__init__()
        self.weight, self.bias, self.projection = weights["W_0"], weights["B"], weights["W_P_0"]
        self.cell_clip, self.projection_clip = cell_clip, projection_clip

    def forward(self, x: Tensor, h: Tensor, c: Tensor) -> Tuple[Tensor, Tensor]:
        """x (Tensor), h (Tensor): Shape (B, P). c (Tensor): Shape (B, H).
        RETURNS (Tuple[Tensor, Tensor]): The new h and c.
        """
        i, j, f, o = (torch.cat([x, h], dim=1) @ self.weight + self.bias).chunk(4, dim=1)
        c = torch.sigmoid(f + 1.0) * c + torch.sigmoid(i) * torch.tanh(j)
        c = c.clamp(-self.cell_clip, self.cell_clip)
        h = (torch.sigmoid(o) * torch.tanh(c)) @ self.projection
        return h.clamp(-self.projection_clip, self.projection_clip), c

    def read(self, inputs: Tensor) -> Tensor:
        """inputs (Tensor): Shape (B, S, P), sequences padded at their end.
        RETURNS (Tensor): Shape (B, S, P).
        """
        h = inputs.new_zeros(inputs.shape[0], self.projection.shape[1])
        c = inputs.new_zeros(inputs.shape[0], self.projection.shape[0])
        outputs = []
        for step in range(inputs.shape[1]):
            h, c = self(inputs[:, step], h, c)
            outputs.append(h)
        return torch.stack(outputs, dim=1)


class PlainBiLM(nn.Module):
    """Sentences to layers.

    folder (Path): `options.json` and `weights.hdf5` as bilm-tf writes them.
    device (str): PyTorch device.
    dtype (torch.dtype): Precision.
    """

    def __init__(self, folder: Path, device: str = "cpu", dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        self.device = device
        self.options = json.loads((folder / "options.json").read_text(encoding="utf8"))
        with h5py.File(folder / "weights.hdf5", "r") as file:
            arrays: Dict[str, Tensor] = {}
            file.visititems(lambda name, item: arrays.update(_tensors(name, item)))
        self.arrays = {name: array.to(device, dtype) for name, array in arrays.items()}
        lstm = self.options["lstm"]
        self.cells = nn.ModuleList(
            nn.ModuleList(self._cell(direction, layer, lstm) for layer in range(lstm["n_layers"]))
            for direction in (0, 1)
        )

    def forward(self, sentences: List[List[str]]) -> Tensor:
        """sentences (List[List[str]]): A batch.
        RETURNS (Tensor): Shape (L+1, B, S, 2P), BOS and EOS included, padded.
        """
        lengths = torch.tensor([len(sentence) + 2 for sentence in sentences])
        ids = torch.from_numpy(_character_ids(sentences, int(lengths.max()))).to(self.device)  # (B, S, C)
        inputs = self.spell(ids.flatten(0, 1)).view(*ids.shape[:2], -1)  # (B, S, P)
        order = _reversal(lengths, ids.shape[1]).unsqueeze(-1).to(self.device)  # (B, S, 1)
        directions = []
        for k, cells in enumerate(self.cells):
            x = inputs if k == 0 else inputs.gather(1, order.expand_as(inputs))
            layers = [x]
            for number, cell in enumerate(cells):
                outputs = cell.read(x)
                x = outputs if number == 0 else outputs + x
                layers.append(x)
            directions.append([y if k == 0 else y.gather(1, order.expand_as(y)) for y in layers])
        return torch.stack([torch.cat(pair, dim=2) for pair in zip(*directions)])

    def spell(self, ids: Tensor) -> Tensor:
        """ids (Tensor): Shape (N, C), characters.
        RETURNS (Tensor): Shape (N, P), word vectors.
        """
        cnn = self.options["char_cnn"]
        characters = F.embedding(ids, self.arrays["char_embed"]).transpose(1, 2)  # (N, E, C)
        pooled = []
        for i in range(len(cnn["filters"])):
            weight = self.arrays[f"CNN/W_cnn_{i}"][0].permute(2, 1, 0)  # (n, E, width)
            pooled.append(F.conv1d(characters, weight, self.arrays[f"CNN/b_cnn_{i}"]).amax(dim=2))
        features = torch.relu(torch.cat(pooled, dim=1))
        for k in range(cnn["n_highway"]):
            high = {name: self.arrays[f"CNN_high_{k}/{name}"] for name in HIGHWAY}
            gate = torch.sigmoid(features @ high["W_carry"] + high["b_carry"])
            transformed = torch.relu(features @ high["W_transform"] + high["b_transform"])
            features = gate * transformed + (1.0 - gate) * features
        return features @ self.arrays["CNN_proj/W_proj"] + self.arrays["CNN_proj/b_proj"]

    def _cell(self, direction: int, layer: int, lstm: Dict[str, float]) -> PlainCell:
        prefix = f"RNN_{direction}/RNN/MultiRNNCell/Cell{layer}/LSTMCell/"
        weights = {name: self.arrays[prefix + name] for name in ("W_0", "B", "W_P_0")}
        return PlainCell(weights, float(lstm["cell_clip"]), float(lstm["proj_clip"]))


HIGHWAY = ("W_carry", "b_carry", "W_transform", "b_transform")


def _tensors(name: str, item: object) -> Dict[str, Tensor]:
    return {name: torch.from_numpy(item[()])} if isinstance(item, h5py.Dataset) else {}


def _character_ids(sentences: List[List[str]], n_steps: int) -> np.ndarray:
    ids = np.full((len(sentences), n_steps, MAX_CHARACTERS), PAD, dtype="int64")
    for row, sentence in zip(ids, sentences):
        words = [[BEGIN], *(list(word.encode("utf8", "ignore")) for word in sentence), [END]]
        for place, characters in zip(row, words):
            spelled = [WORD_BEGIN, *characters[: MAX_CHARACTERS - 2], WORD_END]
            place[: len(spelled)] = spelled
    return ids


def _reversal(lengths: Tensor, n_steps: int) -> Tensor:
    """Reverse each sequence, without its padding; its own inverse."""
    steps = torch.arange(n_steps).unsqueeze(0)  # (1, S)
    ends = lengths.unsqueeze(1)  # (B, 1)
    return torch.where(steps < ends, ends - 1 - steps, steps)
