"""The engine: what waits shares a batch and changes no answer, slow work starves nobody, what nobody wants stops."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import httpx
import pytest

from anyorder.conditionals.mlm import ModelConditionals
from anyorder.errors import AnyorderError
from anyorder.serve.engine import QUICK, Engine
from anyorder.serve.jobs import Job, Refused
from anyorder.serve.metrics import Metrics
from anyorder.serve.turns import Pace, Turns
from anyorder.serve.writing import write
from anyorder.tasks.options import FillOptions, GenerateOptions
from crowd import WAIT, at_once, close


def run(main: Coroutine[Any, Any, None]) -> None:
    """In a thread of its own: the browser of other tests may keep a loop running in this one."""
    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, main).result()


class Bench:
    """An engine whose work is told by each job: ``extra["do"](pace)``, then it ends with its key."""

    def __init__(self, **settings: Any) -> None:
        self.batches: list[list[Job]] = []
        self.pace = Pace()
        self.engine = Engine(self.work, self.pace, **settings)

    def work(self, batch: Sequence[Job]) -> None:
        self.batches.append(list(batch))
        for job in batch:
            job.extra.get("do", lambda pace: None)(self.pace)
        for job in batch:
            job.end(job.key)

    def job(
        self, key: object = "a", *, cost: float = 1, seconds: float = WAIT, heavy: bool = False, **extra: Any
    ) -> Job:
        made = Job("fill", ["text"], FillOptions(), key, cost, seconds, heavy=heavy, extra=extra)
        return self.engine.submit(made)


@contextmanager
def bench(**settings: Any) -> Iterator[Bench]:
    made = Bench(**settings)
    made.engine.start()
    try:
        yield made
    finally:
        made.engine.close(0)


def until(event: threading.Event) -> Callable[[Pace], None]:
    """Work that goes on, a moment at a time, until ``event``."""

    def do(pace: Pace) -> None:
        while not event.is_set():
            pace()
            time.sleep(0.001)

    return do


def blocked(event: threading.Event) -> Callable[[Pace], None]:
    """Work that keeps the model to itself until ``event``."""
    return lambda pace: assert_set(event)


def assert_set(event: threading.Event) -> None:
    assert event.wait(WAIT)


async def answers(*jobs: Job) -> list[Any]:
    return await asyncio.wait_for(asyncio.gather(*(job.answer() for job in jobs)), WAIT)


def test_those_that_wait_share_a_batch_with_their_kind():
    async def main() -> None:
        with bench() as b:
            go = threading.Event()
            first = b.job("a", do=blocked(go))
            while not b.batches:
                await asyncio.sleep(0.001)
            with b.engine._changed:  # no idle thread takes the first of them before the last is there
                rest = [b.job("ab"[i % 2]) for i in range(6)]
            go.set()
            assert await answers(first, *rest) == ["a", *"ababab"]
            assert sorted(len(batch) for batch in b.batches) == [1, 3, 3]

    run(main())


def test_a_full_queue_refuses_and_says_when_to_come_back():
    async def main() -> None:
        with bench(most_waiting=2) as b:
            go = threading.Event()
            jobs = [b.job("a", do=blocked(go))]
            while not b.batches:
                await asyncio.sleep(0.001)
            jobs += [b.job("a"), b.job("a")]
            with pytest.raises(Refused, match="too many requests") as refused:
                b.job("a")
            assert (refused.value.status, refused.value.retry_after) == (429, 1)
            jobs[1].over = True  # its client went away: there is room again
            jobs.append(b.job("a"))
            go.set()
            await answers(jobs[0], *jobs[2:])

    run(main())


def test_a_queue_that_would_take_too_long_refuses_too():
    async def main() -> None:
        with bench() as b:
            b.engine.speed.measured(1 / 500)  # seconds per unit of cost
            go = threading.Event()
            first = b.job("a", cost=100, do=blocked(go))
            second = b.job("a", cost=2500, seconds=30)  # five seconds
            with pytest.raises(Refused, match="takes too long") as refused:
                b.job("a", seconds=2)
            assert refused.value.status == 429
            assert (refused.value.retry_after or 0) >= 1
            go.set()
            await answers(first, second, b.job("a", seconds=30))

    run(main())


def test_a_slow_request_that_would_end_too_late_in_company_is_refused_and_alone_is_not():
    """Its own work counts: quick requests that come later share the model with it."""

    async def main() -> None:
        with bench() as b:
            b.engine.speed.measured(1.0)  # seconds per unit of cost: every slow one takes hours
            go = threading.Event()
            quick = b.job("a", cost=0.001, do=blocked(go))
            with pytest.raises(Refused, match="takes too long"):
                b.job("slow", cost=QUICK + 1, seconds=WAIT)
            go.set()
            await answers(quick)
            while b.engine.running:
                await asyncio.sleep(0.001)
            await answers(b.job("slow", cost=QUICK + 1, seconds=WAIT))

    run(main())


def test_the_speed_measured_before_the_first_request_counts_until_its_kind_was_seen():
    async def main() -> None:
        with bench() as b:
            b.engine.speed.measured(1.0)  # seconds per unit of cost
            go = threading.Event()
            first = b.job("a", cost=100, do=blocked(go))
            with pytest.raises(Refused, match="takes too long"):
                b.job("a", seconds=WAIT)
            go.set()
            await answers(first)
            while b.engine.running:
                await asyncio.sleep(0.001)
            await answers(b.job("a", cost=100, seconds=WAIT), b.job("a", seconds=WAIT))  # now it is known to be quick

    run(main())


def test_slow_requests_keep_other_slow_ones_out_but_no_quick_one():
    async def main() -> None:
        with bench() as b:
            b.engine.speed.measured(1.0)
            stop = threading.Event()
            slow = b.job("slow", cost=QUICK + 1, seconds=3600, do=until(stop))
            with pytest.raises(Refused, match="takes too long"):
                b.job("slow too", cost=QUICK + 1, seconds=3600)
            assert await answers(b.job("quick")) == ["quick"]
            stop.set()
            await answers(slow)

    run(main())


def test_the_turns_of_others_do_not_make_work_slow():
    async def main() -> None:
        with bench() as b:
            stop = threading.Event()
            slow = b.job("slow", cost=QUICK + 1, do=until(stop))
            quick = b.job("quick", do=lambda pace: [pace() for _ in range(20)])  # a turn of the other's after each
            quick.kind = "score"
            await answers(quick)
            stop.set()
            await answers(slow)
            while b.engine.running:
                await asyncio.sleep(0.001)
            assert b.engine.speed.seconds([quick]) < 0.02 < 20 * 0.001 + b.engine.speed.seconds([slow])

    run(main())


def test_what_waits_too_long_is_told_so_while_it_waits():
    async def main() -> None:
        with bench() as b:
            go = threading.Event()
            first = b.job("a", do=blocked(go))
            while not b.batches:
                await asyncio.sleep(0.001)
            with pytest.raises(Refused, match="took longer"):
                await answers(b.job("a", seconds=0.1))
            go.set()
            await answers(first)

    run(main())


def test_slow_requests_do_not_keep_a_quick_one_waiting():
    async def main() -> None:
        with bench() as b:
            stop = threading.Event()
            slow = [b.job(i, cost=QUICK + 1, do=until(stop)) for i in range(8)]
            while len(b.batches) < 3:
                await asyncio.sleep(0.001)
            assert await answers(*(b.job("quick") for _ in range(5))) == ["quick"] * 5
            assert not any(job.over for job in slow)
            stop.set()
            await answers(*slow)

    run(main())


def test_tables_over_pairs_are_made_one_after_the_other():
    async def main() -> None:
        with bench() as b:
            stop = threading.Event()
            jobs = [b.job(i, cost=QUICK + 1, heavy=True, do=until(stop)) for i in range(2)]
            jobs.append(b.job("light", cost=QUICK + 1))
            await answers(jobs[2])
            while b.engine.running > 1:  # the light one, whose batch ends after it
                await asyncio.sleep(0.001)
            assert b.engine.waiting == 1
            stop.set()
            await answers(*jobs[:2])

    run(main())


def test_work_ends_when_nobody_wants_it_any_more():
    async def main() -> None:
        with bench() as b:
            go, never = threading.Event(), threading.Event()
            first = b.job("a", do=blocked(go))
            while not b.batches:
                await asyncio.sleep(0.001)
            two = [b.job("b", do=until(never)), b.job("b")]
            late = b.job("c", do=until(never), seconds=0.2)
            go.set()
            await answers(first)
            while len(b.batches) < 3:
                await asyncio.sleep(0.001)
            two[0].over = True
            await asyncio.sleep(0.05)
            assert any(two[0] in batch for batch in b.engine._running)  # the other one of its batch still waits
            two[1].over = True
            with pytest.raises(Refused, match="took longer"):
                await answers(late)
            while b.engine._running:
                await asyncio.sleep(0.001)

    run(asyncio.wait_for(main(), WAIT))


def test_errors_are_answers():
    def raises(error: Exception) -> Callable[[Pace], None]:
        def do(pace: Pace) -> None:
            raise error

        return do

    async def main() -> None:
        with bench() as b:
            with pytest.raises(AnyorderError, match="a sentence"):
                await answers(b.job(do=raises(AnyorderError("a sentence"))))
            with pytest.raises(Refused, match="something went wrong") as refused:
                await answers(b.job(do=raises(ZeroDivisionError("/secret/path"))))
            assert refused.value.status == 500
            assert await answers(b.job("still there")) == ["still there"]

    run(main())


def test_a_closing_engine_finishes_what_it_has_and_takes_no_more():
    async def main() -> None:
        with bench() as b:
            go = threading.Event()
            jobs = [b.job("a", do=blocked(go)), b.job("a"), b.job("b", cost=QUICK + 1)]
            with ThreadPoolExecutor(1) as pool:
                closing = pool.submit(b.engine.close, WAIT)
                while not b.engine._closing:
                    await asyncio.sleep(0.001)
                with pytest.raises(Refused, match="stopping"):
                    b.job()
                go.set()
                assert await answers(*jobs) == ["a", "a", "b"]
                await asyncio.wrap_future(closing)
        with bench() as b:
            never = threading.Event()
            job = b.job("a", do=until(never))
            b.engine.close(0.1)
            with pytest.raises(Refused, match="stopping"):
                await answers(job)

    run(main())


def test_turns_are_taken_in_the_order_of_asking():
    turns, order = Turns(), []
    with turns:
        threads = []
        for i in range(5):
            threads.append(threading.Thread(target=lambda i=i: turned(turns, order, i)))
            threads[-1].start()
            while len(turns._waiting) <= i:
                time.sleep(0.001)
        turns.pass_on()
        assert order == list(range(5))  # all who waited had theirs
    for thread in threads:
        thread.join(WAIT)


def turned(turns: Turns, order: list[int], i: int) -> None:
    with turns:
        order.append(i)


# --- over HTTP, with a model ------------------------------------------------------------------------------------------

PROMPTS = ["the ___ sat on the ___ .", "a ___{4} dog", "the old ___ ran", "___ and ___{2} .", "the cat ___{7}"]


@pytest.mark.parametrize(
    ("path", "bodies"),
    [
        ("/generate", [{"texts": p, "seed": s, "temperature": 0.9} for s, p in enumerate(PROMPTS * 2)]),
        (
            "/generate",
            [{"texts": p, "seed": s, "samples": 1 + s % 2, "sampler": "gibbs"} for s, p in enumerate(PROMPTS)],
        ),
        ("/fill", [{"texts": p, "top": 2} for p in PROMPTS[:4]]),
        (
            "/v1/completions",
            [{"prompt": f"the {w}", "max_tokens": 3 + len(w), "seed": 1} for w in ("cat", "dog", "king")],
        ),
        (
            "/score",
            [{"texts": [p, "the cat"], "method": "bound", "samples": 3} for p in ("a dog", "the old cat sat .", "cat")],
        ),
        (
            "/fill-mask",
            [{"inputs": p, "parameters": {"joint": True}} for p in ("a ___", "the ___ and the ___ .", "___ cat")],
        ),
    ],
    ids=["any-order", "gibbs", "fill", "completions", "score", "fill-mask"],
)
def test_the_answer_is_the_same_alone_and_in_a_crowd(server, path, bodies):
    client, app = server
    alone = [client.post(path, json=body) for body in bodies]
    before = batches(client)
    crowd = at_once(client, app, path, bodies)
    assert batches(client) < before + len(bodies)  # some of them did share one
    for one, other in zip(alone, crowd, strict=True):
        assert one.status_code == other.status_code == 200
        assert close(one.json(), other.json())


def batches(client: Any) -> float:
    lines = client.get("/metrics").text.splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.startswith("anyorder_batch_requests_count"))


def test_an_unusable_text_costs_only_its_own_request(server):
    client, app = server
    bodies = [{"texts": text, "top": 1} for text in ("a ___", "no blank", "the ___ dog")]
    answers = at_once(client, app, "/fill", bodies)
    assert [one.status_code for one in answers] == [200, 400, 200]
    assert answers[1].json()["error"]["message"].startswith("the text has no blank")


def test_a_full_queue_and_a_late_answer_over_http(serving):
    with serving(queue=1, seconds=1.0) as (client, app), ThreadPoolExecutor(8) as pool:
        with app.state.engine._turns:
            asked = [pool.submit(client.post, "/fill", json={"texts": "a ___"}) for _ in range(8)]
            time.sleep(1.2)
        answers = [one.result() for one in asked]
    refused = [one for one in answers if one.status_code == 429]
    assert len(refused) == 6
    assert all(one.headers["retry-after"] == "1" for one in refused)
    late = [one for one in answers if one.status_code == 504]
    assert len(late) == 2


def test_a_client_that_goes_away_ends_its_work(server):
    client, app = server
    body = {"texts": "the ___ sat", "sampler": "gibbs", "steps": 4000, "stream": True}
    with client.stream("POST", "/generate", json=body) as response:
        lines = response.iter_lines()  # kept: forgotten, it closes the connection before its time
        next(lines)
        assert app.state.engine._running
    start = time.monotonic()
    while app.state.engine._running:
        assert time.monotonic() < start + WAIT
        time.sleep(0.01)


def test_what_the_drain_has_no_time_for_is_answered(serving):
    body = {"texts": "the ___ sat", "sampler": "gibbs", "steps": 4000}
    with ThreadPoolExecutor(3) as pool:
        with serving(drain=0.3, seconds=3600.0) as (client, app):
            url = f"{client.base_url}/generate"
            said = [body, {**body, "stream": True}, {**body, "block": 1}]
            asked = [pool.submit(httpx.post, url, json=one, timeout=WAIT, trust_env=False) for one in said]
            start = time.monotonic()
            while app.state.engine.running + app.state.engine.waiting < 3:
                assert time.monotonic() < start + WAIT
                time.sleep(0.005)
        answers = [one.result() for one in asked]
    assert [one.status_code for one in answers] == [503, 200, 503]
    assert answers[0].headers["retry-after"] == "5"
    *_, error, done = answers[1].text.strip().split("\n\n")
    assert json.loads(error.removeprefix("data: "))["error"]["code"] == 503
    assert done == "data: [DONE]"


def test_a_client_that_goes_away_frees_its_rows_in_the_batch_it_shares(tiny_lm):
    sent: list[int] = []

    class Counted(ModelConditionals):
        def __call__(self, tokens: Any, positions: Any) -> Any:
            sent.append(int((positions >= 0).any(1).sum()))
            return super().__call__(tokens, positions)

    inner = tiny_lm.conditionals
    counted = Counted(inner.model, mask_id=inner.mask_id, pad_id=inner.pad_id, max_length=inner.max_length)

    async def main() -> None:
        options = [GenerateOptions(samples=3, seed=1), GenerateOptions(samples=2, seed=2)]
        gone, stays = [Job("generate", ["the ___{6} ."], one, 0, 1, WAIT, watched=True) for one in options]
        steps = 0

        def pace() -> None:
            nonlocal steps
            steps += 1
            gone.over = steps > 3  # the first is before the first step

        write(replace(tiny_lm, conditionals=counted), [gone, stays], pace, Metrics(lambda: 0))
        assert sent == [5, 5, 5, 2, 2, 2]
        found = await stays.answer()
        expected = tiny_lm.generate("the ___{6} .", samples=2, seed=2)
        assert [one["text"] for one in found[0]] == [one.text for one in expected]

    run(main())
