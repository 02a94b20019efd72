#!/usr/bin/env bash
# Ten minutes on a GPU: tests, speed, and a run that trains en_elmo_sm further and ends in time. The package must be
# installed.
#
# bash benchmarks/gpu_session.sh OUT TEXT [SECONDS]
#
# OUT: a folder for logs and the trained biLM. TEXT: a folder with train-*.txt.gz, valid.txt.gz and test.txt.gz.
# SECONDS: until the end, 570 by default. To try it on a CPU, without the tests of a GPU, set DEVICE=-1 LANES=16
# NEGATIVES=512 WARM_UP=5 SPEED_TOKENS=15000 and SECONDS to 150.
set -uo pipefail
out=$(realpath -m "$1") text=$(realpath "$2") until=$((SECONDS + ${3:-570})) gpu=${DEVICE:-0}
cd "$(dirname "$0")/.." && mkdir -p "$out"
shared=${SPACY_ELMO_SHARED:-shared} && export SPACY_ELMO_SHARED=$shared
pretrain=(python -m spacy elmo pretrain configs/pretrain_en_elmo_sm.cfg)
settings=(--gpu-id "$gpu" --force --paths.train "$text/train-*.txt.gz" --paths.valid "$text/valid.txt.gz"
    --paths.cache "$out/text" --paths.init en_elmo_sm --pretraining.batch_size "${LANES:-1024}" --pretraining.softmax.n_negatives "${NEGATIVES:-8192}"
    --pretraining.report_every 5 --pretraining.dropout 0.1
    --pretraining.shuffle_blocks 1000000) # all text, whose files are of different kinds: the last ones would count most

if [[ $gpu -ge 0 ]]; then
    # Prints the number of passed tests; every failure is a defect to note.
    timeout 150 python -m pytest -q --gpu tests/bilm/test_recurrence_graphs.py tests/inference/test_torch_lanes.py \
        tests/pretraining/test_gpu.py tests/test_caller_state.py tests/inference/test_versions.py \
        tests/pipeline/test_gpu.py 2>&1 | tee "$out/tests.txt" | tail -n 15
    # Prints tokens/s of each precision: cold and warm word cache, copied to the host; shares of peak and PCIe; peers.
    timeout 150 python benchmarks/gpu.py en_elmo_sm --lanes 1024 2>&1 | tee "$out/embed.txt"
else
    python benchmarks/gpu.py en_elmo_sm --device cpu --tokens 2000 --lanes 64 --precision float32 --batch-size 32 \
        --repeats 1 2>&1 | tee "$out/embed.txt"
fi

# Prints tokens/s of training without validations: the median of the last reports.
timeout 60 "${pretrain[@]}" "$out/speed" "${settings[@]}" --pretraining.eval_every 100000 \
    --pretraining.schedule.name constant --pretraining.schedule.warmup_steps 0 --pretraining.max_tokens "${SPEED_TOKENS:-12000000}" > "$out/speed.txt" 2>&1
rate=$(python - "$out/speed/log.jsonl" << 'END'
import json, statistics, sys
print(int(statistics.median([row["tokens_per_s"] for row in map(json.loads, open(sys.argv[1]))][-20:])))
END
) || { tail -n 5 "$out/speed.txt"; exit 1; }
echo "training: $rate tokens/s"

# Trains for the time that is left, less 60 s for start, validations and the tests: `model-best`, and its log. If it is
# stopped for being late, the last of five validations counts. Five checkpoints remain, of the last eighth.
left=$((until - SECONDS - 60))
left=$((left > 30 ? left : 30))
steps=$((rate * left / (${LANES:-1024} * 32)))
timeout -s TERM $((left + 30)) "${pretrain[@]}" "$out/run" "${settings[@]}" --pretraining.max_tokens $((rate * left)) \
    --pretraining.eval_every $((steps / 5 + 1)) --pretraining.checkpoint_every $((steps / 40 + 1)) \
    --pretraining.keep_checkpoints 5 --pretraining.optimizer.learn_rate "${LEARN_RATE:-0.005}" \
    --pretraining.schedule.warmup_steps "${WARM_UP:-200}" 2>&1 | tee "$out/run.txt" | tail -n 5
# The mean of the weights of these checkpoints: `model-average`.
python - "$out/run" << 'END'
import shutil, sys
from pathlib import Path
import torch
from safetensors.torch import load_file, save_file

run = Path(sys.argv[1])
states = [load_file(path) for path in run.glob("checkpoints/step-*/state.safetensors")]
names = {"bilm": "network", "softmax": "head"}  # in the file of weights and in a checkpoint; steady states are derived
weights = {}
for name in load_file(run / "model-last/weights.safetensors"):
    part, _, rest = name.partition(".")
    if part in names:
        weights[name] = torch.stack([state[f"{names[part]}.{rest}"] for state in states]).mean(0)
shutil.copytree(run / "model-last", run / "model-average")
save_file(weights, run / "model-average/weights.safetensors")
END
# Prints both perplexities on the test text; en_elmo_sm has 60.5 and 58.8.
for name in best average; do
    python -m spacy elmo perplexity "$out/run/model-$name" "$text/test.txt.gz" --state carry --gpu-id "$gpu"
done
