"""A server for vectors, and for the annotations of a pipeline: requests that arrive together are computed together.

pip install starlette uvicorn
python examples/serve.py en_elmo_sm --port 8000
curl -s localhost:8000/embed -d '{"sentences": [["She", "sat", "on", "the", "bank", "."]], "pool": "mean"}'

POST /embed answers {"vectors": [...]}: for each sentence the rows of its tokens (T, D), or one vector with "pool"
("mean" or "max"). With a trained pipeline, POST /annotate reads raw text and answers {"docs": [...]}, each in the form
of spaCy's `Doc.to_json`: entities ("ents"), categories ("cats"), tags and the like.

python examples/serve.py --pipeline runs/model-best
curl -s localhost:8000/annotate -d '{"texts": ["Maria lives in Berlin."]}'

It listens on this computer only. In a container, where a published port does not reach that address, listen on all and
publish the port to this computer alone: `--host 0.0.0.0`, with `docker run --publish 127.0.0.1:8000:8000 ...`. There is
no access control: for others, put a proxy with access control in front of it.

Errors are {"error": MESSAGE}. 400: the request is not valid. 413: it is too large. 500: the model failed. 503: the
queue is full; try again after a second. 504: there was no answer in time. GET /health answers 200 once the weights are
loaded; GET /metrics has counters for Prometheus.
"""

import asyncio
import json
import logging
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any, AsyncIterator, Dict, List, NamedTuple, Optional

import spacy
import typer

from spacy_elmo import load_bilm

try:
    import uvicorn
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import JSONResponse, PlainTextResponse, Response
    from starlette.routing import Route
except ModuleNotFoundError as error:
    raise SystemExit(f"{error}: the server needs Starlette and uvicorn: pip install starlette uvicorn") from error

POOLS = {"mean": lambda rows: rows.mean(axis=0), "max": lambda rows: rows.max(axis=0)}
CHARACTERS_PER_TOKEN = 5


class Job(NamedTuple):
    """A request in the queue: its sentences or texts, and the future result."""

    items: List[Any]
    answer: "asyncio.Future[List[Any]]"


class Batcher:
    """Computes the requests in its queue together, in one thread.

    model (Any): A `BiLM`; of `Annotator`, a pipeline.
    max_waiting (int): Requests in the queue; further ones are refused.
    max_tokens (int): Tokens that are computed together; 0 computes each request by itself.
    wait_s (float): Time that the first request of a batch waits for others, besides those that arrived during the last
        batch.
    """

    def __init__(self, model: Any, *, max_waiting: int = 256, max_tokens: int = 8192, wait_s: float = 0.0) -> None:
        self.model, self.max_tokens, self.wait_s = model, max_tokens, wait_s
        self.waiting: asyncio.Queue[Job] = asyncio.Queue(max_waiting)
        self.counters: Dict[str, float] = dict.fromkeys(
            ("requests", "refused", "late", "batches", "tokens", "busy_s"), 0
        )
        self._thread = ThreadPoolExecutor(1)

    async def compute(self, items: List[Any], timeout_s: float) -> List[Any]:
        """items (List[Any]): The sentences of a request, or its texts.
        timeout_s (float): Limit of the time to the answer.
        RETURNS (List[Any]): A result for each.
        RAISES (asyncio.QueueFull): If the queue is full. RAISES (asyncio.TimeoutError): After `timeout_s`.
        """
        job = Job(items, asyncio.get_running_loop().create_future())
        self.waiting.put_nowait(job)
        return await asyncio.wait_for(job.answer, timeout_s)

    async def run(self) -> None:
        """Compute batches until it is cancelled."""
        while True:
            jobs = [job for job in await self._collect() if not job.answer.done()]  # not those that timed out
            if not await self._answer(jobs) and len(jobs) > 1:
                for job in jobs:  # one of them cannot be computed: the others get their results
                    await self._answer([job])

    async def _answer(self, jobs: List[Job]) -> bool:
        """RETURNS (bool): Whether the jobs could be computed together. The error of a single job is its answer."""
        items = [item for job in jobs for item in job.items]
        started = time.perf_counter()
        try:
            results = iter(await asyncio.get_running_loop().run_in_executor(self._thread, self._compute, items))
        except Exception as error:
            if len(jobs) == 1 and not jobs[0].answer.done():
                jobs[0].answer.set_exception(error)
            return False
        self.counters["batches"] += 1
        self.counters["tokens"] += sum(map(self._count_tokens, items))
        self.counters["busy_s"] += time.perf_counter() - started
        for job in jobs:
            of_job = [next(results) for _ in job.items]
            if not job.answer.done():
                job.answer.set_result(of_job)
        return True

    def _compute(self, items: List[Any]) -> List[Any]:
        """RETURNS (List[ndarray]): The mean of the layers of each sentence, (T, D)."""
        return list(self.model.embed(items, layers="mean"))

    def _count_tokens(self, item: Any) -> int:
        return len(item)

    async def _collect(self) -> List[Job]:
        jobs = [await self.waiting.get()]
        end = time.perf_counter() + self.wait_s
        n_tokens = sum(map(self._count_tokens, jobs[0].items))
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
            n_tokens += sum(map(self._count_tokens, jobs[-1].items))
        return jobs


class Annotator(Batcher):
    """Annotates texts with a pipeline of spaCy."""

    def _compute(self, items: List[Any]) -> List[Any]:
        """RETURNS (List[Dict[str, Any]]): For each text what `Doc.to_json` gives."""
        with self.model.memory_zone():  # so that the strings of all requests do not add up
            return [doc.to_json() for doc in self.model.pipe(items)]

    def _count_tokens(self, item: Any) -> int:
        return 1 + len(item) // CHARACTERS_PER_TOKEN


def make_app(
    batcher: Batcher,
    annotator: Optional[Batcher] = None,
    *,
    max_bytes: int = 1_000_000,
    max_tokens: int = 20_000,
    timeout_s: float = 10.0,
) -> Starlette:
    """batcher (Batcher): Computes the vectors.
    annotator (Optional[Batcher]): Annotates texts; None to serve vectors only.
    max_bytes (int), max_tokens (int): Limits of a request.
    timeout_s (float): Limit of the time to an answer.
    RETURNS (Starlette): The application.
    """

    async def respond(request: Request, worker: Batcher, read: Any, to_response: Any) -> Response:
        worker.counters["requests"] += 1
        body = b""
        async for chunk in request.stream():
            body += chunk
            if len(body) > max_bytes:
                return refuse(413, f"The request has more than {max_bytes:,} bytes. Send less at a time.")
        try:
            items, option = read(body)
        except (ValueError, RecursionError) as error:
            return refuse(400, str(error))
        if sum(max(1, worker._count_tokens(item)) for item in items) > max_tokens:  # nothing counts as one token
            return refuse(413, f"The request has more than {max_tokens:,} tokens. Send less at a time.")
        try:
            results = await worker.compute(items, timeout_s)
        except asyncio.QueueFull:
            worker.counters["refused"] += 1
            return refuse(503, "The queue is full. Try again in a second.", {"Retry-After": "1"})
        except asyncio.TimeoutError:
            worker.counters["late"] += 1
            return refuse(504, f"There was no answer within {timeout_s:g} s. Send less at a time, or try again later.")
        except ValueError as error:  # of the library, for instance about a sentence that is too long
            return refuse(400, str(error))
        except Exception as error:
            logging.getLogger("uvicorn.error").exception("The model failed")
            return refuse(500, f"The model failed: {type(error).__name__}: {error}")
        # Not in the event loop, which answers the others meanwhile: 20,000 tokens are 100 MB of JSON.
        return await asyncio.get_running_loop().run_in_executor(None, to_response, results, option)

    async def embed(request: Request) -> Response:
        return await respond(request, batcher, read_sentences, to_vectors)

    async def annotate(request: Request) -> Response:
        if annotator is None:
            return refuse(404, "There is no pipeline. Start the server with --pipeline PATH.")
        return await respond(request, annotator, read_texts, to_docs)

    workers = {"elmo": batcher, **({} if annotator is None else {"elmo_annotate": annotator})}

    async def health(request: Request) -> Response:
        return JSONResponse({"status": "ok", "waiting": sum(one.waiting.qsize() for one in workers.values())})

    async def metrics(request: Request) -> Response:
        lines = [
            line
            for prefix, one in workers.items()
            for line in (
                *(f"{prefix}_{name}_total {value:g}" for name, value in one.counters.items()),
                f"{prefix}_waiting {one.waiting.qsize()}",
            )
        ]
        return PlainTextResponse("\n".join(lines) + "\n")

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        tasks = [asyncio.create_task(one.run()) for one in workers.values()]
        yield
        for task in tasks:
            task.cancel()

    routes = [
        Route("/embed", embed, methods=["POST"]),
        Route("/annotate", annotate, methods=["POST"]),
        Route("/health", health),
        Route("/metrics", metrics),
    ]
    return Starlette(routes=routes, lifespan=lifespan)


def read_sentences(body: bytes) -> Any:
    """RETURNS (Tuple[List[List[str]], Optional[str]]): The sentences and the pool of a request.
    RAISES (ValueError): If it is not valid.
    """
    content = json.loads(body)
    sentences, pool = (content.get("sentences"), content.get("pool")) if isinstance(content, dict) else (None, None)
    is_valid = isinstance(sentences, list) and all(
        isinstance(words, list) and all(isinstance(word, str) and word for word in words) for words in sentences
    )
    if not is_valid:
        raise ValueError("'sentences' should be a list of lists of words, none of them empty.")
    if pool is not None and not (isinstance(pool, str) and pool in POOLS):
        raise ValueError(f"'pool' is {pool!r}, should be one of {', '.join(POOLS)}, or left out.")
    return sentences, pool


def read_texts(body: bytes) -> Any:
    """RETURNS (Tuple[List[str], None]): The texts of a request.
    RAISES (ValueError): If it is not valid.
    """
    content = json.loads(body)
    texts = content.get("texts") if isinstance(content, dict) else None
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise ValueError("'texts' should be a list of strings.")
    return texts, None


def to_vectors(vectors: List[Any], pool: Optional[str]) -> Response:
    """RETURNS (Response): The vectors as JSON."""
    if pool is not None:
        vectors = [POOLS[pool](rows) if len(rows) else rows.sum(axis=0) for rows in vectors]
    return JSONResponse({"vectors": [rows.tolist() for rows in vectors]})


def to_docs(docs: List[Any], option: None) -> Response:
    """RETURNS (Response): Annotated texts as JSON."""
    return JSONResponse({"docs": docs})


def refuse(status: int, message: str, headers: Any = None) -> Response:
    """RETURNS (Response): An error as JSON."""
    return JSONResponse({"error": message}, status, headers)


def main(
    # fmt: off
    bilm_path: str = typer.Argument("en_elmo_sm", help="Name or path of the biLM for /embed."),
    pipeline: Optional[str] = typer.Option(
        None, "--pipeline", "-P", help="Name or path of a trained pipeline for /annotate."
    ),
    host: str = typer.Option(
        "127.0.0.1",
        "--host",
        "-H",
        help="Address to listen on; by default only this computer can connect, with 0.0.0.0 all others that reach it.",
    ),
    port: int = typer.Option(8000, "--port", "-p", help="Port; 0 for any that is free.", min=0, max=65535),
    wait_ms: float = typer.Option(0.0, "--wait-ms", "-w", help="Milliseconds that a request waits for others."),
    max_tokens: int = typer.Option(
        8192, "--max-tokens", "-t", help="Tokens computed together; 0 for one request at a time."
    ),
    max_waiting: int = typer.Option(256, "--max-waiting", "-q", help="Requests in the queue; further ones get 503."),
    # fmt: on
) -> None:
    """Serve vectors, and annotations of a pipeline, to this computer. There is no access control: for others, put a
    proxy with access control in front of it.
    """
    settings: Dict[str, Any] = {"max_waiting": max_waiting, "max_tokens": max_tokens, "wait_s": wait_ms / 1000}
    try:
        batcher = Batcher(load_bilm(bilm_path), **settings)
        annotator = None if pipeline is None else Annotator(spacy.load(pipeline), **settings)
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listener = socket.create_server((host, port), family=family)
    except (ValueError, OSError) as error:  # no such weights or pipeline, a port that is in use
        typer.echo(f"The server cannot start: {error}", err=True)
        raise typer.Exit(1) from error
    port = listener.getsockname()[1]
    typer.echo(f"Listening on http://{f'[{host}]' if ':' in host else host}:{port} (Ctrl+C stops)")
    uvicorn.Server(uvicorn.Config(make_app(batcher, annotator), log_level="warning")).run(sockets=[listener])


if __name__ == "__main__":
    typer.run(main)
