"""A server for vectors: many clients share one biLM, and requests that arrive together are computed together.

pip install starlette uvicorn
python examples/serve.py en_elmo_sm --port 8000
curl -s localhost:8000/embed -d '{"sentences": [["She", "sat", "on", "the", "bank", "."]], "pool": "mean"}'

POST /embed answers {"vectors": [...]}: per sentence rows of its tokens (T, D), or with "pool" ("mean" or "max") one
vector. 400 a request that is not valid, 413 one that is too large, 503 more waiting requests than the queue holds (try
again after a second), 504 no answer in time. GET /health answers 200 when the weights are loaded; GET /metrics has
counters for Prometheus.
"""

import asyncio
import json
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any, AsyncIterator, Dict, List, NamedTuple, Optional

import typer
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from spacy_elmo import BiLM, load_bilm

POOLS = {"mean": lambda rows: rows.mean(axis=0), "max": lambda rows: rows.max(axis=0)}
Sentences = List[List[str]]


class Job(NamedTuple):
    """A request that waits for its vectors."""

    sentences: Sentences
    answer: "asyncio.Future[List[Any]]"


class Batcher:
    """Computes waiting requests together in one thread.

    bilm (BiLM): The model.
    max_waiting (int): Requests in the queue; further ones are refused.
    max_tokens (int): Tokens that are computed together; 0 computes each request by itself.
    wait_s (float): How long the first request of a batch waits for others, beside those that have come meanwhile.
    """

    def __init__(self, bilm: BiLM, *, max_waiting: int = 256, max_tokens: int = 8192, wait_s: float = 0.0) -> None:
        self.bilm, self.max_tokens, self.wait_s = bilm, max_tokens, wait_s
        self.waiting: asyncio.Queue[Job] = asyncio.Queue(max_waiting)
        self.counters: Dict[str, float] = dict.fromkeys(
            ("requests", "refused", "late", "batches", "tokens", "busy_s"), 0
        )
        self._thread = ThreadPoolExecutor(1)

    async def embed(self, sentences: Sentences, timeout_s: float) -> List[Any]:
        """RETURNS (List[ndarray]): The mean of the layers per sentence, (T, D).
        RAISES (asyncio.QueueFull): If too many requests wait. RAISES (asyncio.TimeoutError): After `timeout_s`.
        """
        job = Job(sentences, asyncio.get_running_loop().create_future())
        self.waiting.put_nowait(job)
        return await asyncio.wait_for(job.answer, timeout_s)

    async def run(self) -> None:
        """Compute batches until it is cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            jobs = await self._collect()
            jobs = [job for job in jobs if not job.answer.done()]  # those that gave up are not computed
            texts = [sentence for job in jobs for sentence in job.sentences]
            started = time.perf_counter()
            try:
                rows = iter(await loop.run_in_executor(self._thread, self._compute, texts))
            except Exception as error:
                for job in jobs:
                    if not job.answer.done():
                        job.answer.set_exception(error)
                continue
            self.counters["batches"] += 1
            self.counters["tokens"] += sum(map(len, texts))
            self.counters["busy_s"] += time.perf_counter() - started
            for job in jobs:
                found = [next(rows) for _ in job.sentences]
                if not job.answer.done():
                    job.answer.set_result(found)

    def _compute(self, texts: Sentences) -> List[Any]:
        return list(self.bilm.embed(texts, layers="mean"))

    async def _collect(self) -> List[Job]:
        jobs = [await self.waiting.get()]
        end = time.perf_counter() + self.wait_s
        n_tokens = sum(map(len, jobs[0].sentences))
        while n_tokens < self.max_tokens:
            if self.waiting.empty():
                left = end - time.perf_counter()
                if left <= 0:
                    break
                try:
                    jobs.append(await asyncio.wait_for(self.waiting.get(), left))
                except asyncio.TimeoutError:
                    break
            else:
                jobs.append(self.waiting.get_nowait())
            n_tokens += sum(map(len, jobs[-1].sentences))
        return jobs


def make_app(
    batcher: Batcher, *, max_bytes: int = 1_000_000, max_tokens: int = 20_000, timeout_s: float = 10.0
) -> Starlette:
    """batcher (Batcher): Computes the vectors.
    max_bytes (int), max_tokens (int): Of a request.
    timeout_s (float): How long a request waits for its answer.
    RETURNS (Starlette): The application.
    """

    async def embed(request: Request) -> Response:
        batcher.counters["requests"] += 1
        body = b""
        async for chunk in request.stream():
            body += chunk
            if len(body) > max_bytes:
                return refuse(413, f"The request has more than {max_bytes:,} bytes. Send fewer sentences at a time.")
        try:
            sentences, pool = read_request(body)
        except (ValueError, RecursionError) as error:
            return refuse(400, str(error))
        if sum(max(1, len(words)) for words in sentences) > max_tokens:  # an empty sentence counts as one token
            return refuse(413, f"The request has more than {max_tokens:,} tokens. Send fewer sentences at a time.")
        try:
            vectors = await batcher.embed(sentences, timeout_s)
        except asyncio.QueueFull:
            batcher.counters["refused"] += 1
            return refuse(503, "Too many requests are waiting. Try again in a second.", {"Retry-After": "1"})
        except asyncio.TimeoutError:
            batcher.counters["late"] += 1
            return refuse(504, f"There was no answer within {timeout_s:g} s. Send fewer sentences, or try again later.")
        # Not in the event loop, which answers the others meanwhile: 20,000 tokens are 100 MB of JSON.
        return await asyncio.get_running_loop().run_in_executor(None, answer, vectors, pool)

    async def health(request: Request) -> Response:
        return JSONResponse({"status": "ok", "waiting": batcher.waiting.qsize()})

    async def metrics(request: Request) -> Response:
        lines = [f"elmo_{name}_total {value:g}" for name, value in batcher.counters.items()]
        return PlainTextResponse("\n".join([*lines, f"elmo_waiting {batcher.waiting.qsize()}"]) + "\n")

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        task = asyncio.create_task(batcher.run())
        yield
        task.cancel()

    routes = [Route("/embed", embed, methods=["POST"]), Route("/health", health), Route("/metrics", metrics)]
    return Starlette(routes=routes, lifespan=lifespan)


def read_request(body: bytes) -> Any:
    """RETURNS (Tuple[Sentences, Optional[str]]): The sentences and the pool of a request.
    RAISES (ValueError): If it is not valid.
    """
    content = json.loads(body)
    sentences, pool = (content.get("sentences"), content.get("pool")) if isinstance(content, dict) else (None, None)
    is_fine = isinstance(sentences, list) and all(
        isinstance(words, list) and all(isinstance(word, str) and word for word in words) for words in sentences
    )
    if not is_fine:
        raise ValueError("'sentences' should be a list of lists of words, none of them empty.")
    if pool not in (None, *POOLS):
        raise ValueError(f"'pool' is {pool!r}, should be one of {', '.join(POOLS)}, or left out.")
    return sentences, pool


def answer(vectors: List[Any], pool: Optional[str]) -> Response:
    """RETURNS (Response): The vectors as JSON."""
    if pool is not None:
        vectors = [POOLS[pool](rows) if len(rows) else rows.sum(axis=0) for rows in vectors]
    return JSONResponse({"vectors": [rows.tolist() for rows in vectors]})


def refuse(status: int, message: str, headers: Any = None) -> Response:
    """RETURNS (Response): An error as JSON."""
    return JSONResponse({"error": message}, status, headers)


def main(
    # fmt: off
    bilm_path: str = typer.Argument("en_elmo_sm", help="Name or path of a biLM."),
    port: int = typer.Option(8000, "--port", "-p", help="Port on this computer."),
    wait_ms: float = typer.Option(0.0, "--wait-ms", "-w", help="How long a request waits for others."),
    max_tokens: int = typer.Option(
        8192, "--max-tokens", "-t", help="Tokens computed together; 0: a request at a time."
    ),
    max_waiting: int = typer.Option(256, "--max-waiting", "-q", help="Waiting requests; further ones get 503."),
    # fmt: on
) -> None:
    """Serve vectors on localhost; put a proxy with access control in front of it for others."""
    batcher = Batcher(load_bilm(bilm_path), max_waiting=max_waiting, max_tokens=max_tokens, wait_s=wait_ms / 1000)
    uvicorn.run(make_app(batcher), port=port, log_level="warning")


if __name__ == "__main__":
    typer.run(main)
