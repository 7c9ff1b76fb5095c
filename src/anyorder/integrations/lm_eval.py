"""Any masked LM under EleutherAI's lm-evaluation-harness: likelihoods, rolling likelihoods and generation.

>>> import lm_eval
>>> from anyorder.integrations.lm_eval import AnyorderLM
>>> lm_eval.simple_evaluate(model=AnyorderLM(), tasks=["lambada_openai"])

The model is read in full, also one that could be read in order.

Traps: a masked LM sees how many tokens it is asked for, so its likelihoods are conditional on the length; compare
answers of different lengths with the length-normalised accuracy. Contexts longer than the model keep their end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from anyorder.conditionals.restricted import text_only
from anyorder.errors import AnyorderError
from anyorder.samplers import Seeds, any_order, run
from anyorder.samplers.warpers import warper
from anyorder.tasks.options import ScoreOptions
from anyorder.tasks.pieces import Piece, affixes, windows
from anyorder.tasks.score import Method, pad, score, score_pieces

try:
    from lm_eval.api.model import LM
except ImportError as error:
    raise AnyorderError("lm-eval is not installed: pip install 'anyorder[lm-eval]'") from error

if TYPE_CHECKING:
    from lm_eval.api.instance import Instance

    from anyorder.tasks.lm import MaskedLM

_MAX_NEW = 256  # the harness's own default for generation


class AnyorderLM(LM):
    """A masked LM as the harness's model.

    Args:
        pretrained: a facade, a Hugging Face name or a folder; the bundled model if None.
        method: ``chain`` (exact, left to right, one pass per token) or ``bound`` (the mean over all orders, estimated).
        samples: masks per text of the bound.
        block: tokens generated before looking for a stop string. They are drawn left to right with as many further
            blanks behind them, so that the model does not take the end of the block for the end of the text.
        seed: of the bound and of sampling.
        allow_pickle: also read ``.bin`` checkpoints.
        trust_remote_code: run code that comes with the checkpoint.
        batch_size: accepted because the harness passes it; batches are made by a token budget.
        device: where a checkpoint is loaded.
    """

    def __init__(
        self,
        pretrained: MaskedLM | str | None = None,
        *,
        method: str = "chain",
        samples: int = 16,
        block: int = 16,
        seed: int = 0,
        allow_pickle: bool = False,
        trust_remote_code: bool = False,
        batch_size: int | str | None = None,
        max_batch_size: int | None = None,
        device: str | None = None,
    ) -> None:
        super().__init__()
        if method not in ("chain", "bound"):
            raise AnyorderError(f"{method!r} is not a likelihood: choose chain or bound")
        import anyorder

        if pretrained is None or isinstance(pretrained, str):
            pretrained = anyorder.load(
                pretrained, allow_pickle=allow_pickle, trust_remote_code=trust_remote_code, device=device
            )
        self.lm: MaskedLM = pretrained
        # One law for all that is asked, so that figures of one run compare: that of the model read in full.
        self.options = ScoreOptions(method, samples=samples if method == "bound" else None, seed=seed, reading="full")
        self.block = block
        self.seed = seed
        self.before, self.after = affixes(self.lm.tokenizer)
        self.room = self.lm.max_length - len(self.before) - len(self.after)

    @property
    def tokenizer_name(self) -> str:
        """For the harness's own caches."""
        return self.lm.name.replace("/", "__")

    def loglikelihood(self, requests: list[Instance]) -> list[tuple[float, bool]]:
        """log p(continuation | context), and whether greedy left-to-right decoding would have written it."""
        rows: list[Piece] = []
        for number, request in enumerate(requests):
            context, continuation = self._encode(*request.args)
            ids = context + continuation
            rows += windows(
                ids, [0] * len(ids), self.before, self.after, self.room, max(1, self.room // 2),
                given=len(context), text=number,
            )  # fmt: skip
        total, greedy = [0.0] * len(requests), [True] * len(requests)
        best = self._greedy(rows)
        for row, is_best, (values, _) in zip(
            rows, best, score_pieces(self.lm.conditionals, rows, Method.of(self.options)), strict=True
        ):
            total[row.text] += sum(values)
            greedy[row.text] &= is_best
        answers = list(zip(total, greedy, strict=True))
        for request, answer in zip(requests, answers, strict=True):
            self.cache_hook.add_partial("loglikelihood", request.args, answer)
        return answers

    def loglikelihood_rolling(self, requests: list[Instance]) -> list[float]:
        """log p(text): every token once, long texts in windows that keep half a row of context."""
        texts = [request.args[0] for request in requests]
        answers = [result.log_prob for result in score(self.lm, texts, self.options)]
        for request, answer in zip(requests, answers, strict=True):
            self.cache_hook.add_partial("loglikelihood_rolling", request.args, answer)
        return answers

    def generate_until(self, requests: list[Instance]) -> list[str]:
        """Continue each context left to right until a stop string or ``max_gen_toks`` tokens."""
        answers: list[str] = [""] * len(requests)
        # Requests with the same settings run as one batch; in a task they all have the same.
        groups: dict[str, list[int]] = {}
        for i, request in enumerate(requests):
            groups.setdefault(repr(sorted(request.args[1].items())), []).append(i)
        for chosen in groups.values():
            contexts = [requests[i].args[0] for i in chosen]
            for i, text in zip(chosen, self._generate(contexts, dict(requests[chosen[0]].args[1])), strict=True):
                answers[i] = text
                self.cache_hook.add_partial("generate_until", requests[i].args, text)
        return answers

    def _encode(self, context: str, continuation: str) -> tuple[list[int], list[int]]:
        """Token ids of both; spaces at the end of the context belong to the word that follows."""
        stripped = context.rstrip()
        continuation, context = context[len(stripped) :] + continuation, stripped
        given = self._ids(context)
        whole = self._ids(context + continuation)
        if whole[: len(given)] == given:
            return given, whole[len(given) :]
        return given, self._ids(continuation)  # the two grew together at the seam

    def _ids(self, text: str) -> list[int]:
        return self.lm.tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"] if text else []

    def _greedy(self, rows: Sequence[Piece]) -> list[bool]:
        """Whether each row's scored tokens are the most probable ones, each in its turn from left to right.

        Most rows fail at their first token, so rows are asked one token at a time and drop out when they fail.
        """
        best = [True] * len(rows)
        alive, turn = list(range(len(rows))), 0
        q = self.lm.conditionals
        while alive := [i for i in alive if best[i] and rows[i].start + turn < rows[i].stop]:
            for part in _chunks(sorted(alive, key=lambda i: len(rows[i].tokens)), 256):
                tokens, free, _ = pad([rows[i] for i in part], q.pad_id)
                position = torch.tensor([rows[i].start + turn for i in part])[:, None]
                hidden = free & (torch.arange(tokens.shape[1]) >= position)
                answer = q(tokens.masked_fill(hidden, q.mask_id), position)[:, 0].argmax(-1)
                for i, hit in zip(part, answer == tokens.gather(1, position)[:, 0], strict=True):
                    best[i] = bool(hit)
            turn += 1
        return best

    def _generate(self, contexts: Sequence[str], settings: dict[str, Any]) -> list[str]:
        until = settings.get("until") or []
        stops = [until] if isinstance(until, str) else list(until)
        limit = int(settings.get("max_gen_toks", _MAX_NEW))
        temperature = float(settings.get("temperature", 0.0) or 0.0)
        sampled = bool(settings.get("do_sample", temperature > 0)) and temperature != 0
        warp = warper(top_k=1)
        if sampled:
            warp = warper(temperature=temperature, top_k=settings.get("top_k"), top_p=settings.get("top_p"))
        q = text_only(self.lm.conditionals, self.lm.tokenizer)
        sampler = any_order(q, order="left-to-right", warper=warp)
        given = [self._ids(context) for context in contexts]
        new: list[list[int]] = [[] for _ in contexts]
        texts, open_ = [""] * len(contexts), list(range(len(contexts)))
        # An answer depends on its context, whatever is asked with it; a context asked again gets other draws.
        times: Counter[str] = Counter()
        names = []
        for context in contexts:
            times[context] += 1
            names.append((context, times[context]))
        while open_ := [i for i in open_ if len(new[i]) < limit and not any(s and s in texts[i] for s in stops)]:
            for part in _chunks(open_, 64):
                rows = [self._blank(given[i] + new[i], limit - len(new[i])) for i in part]
                tokens, free, _ = pad(rows, q.pad_id)
                noise = Seeds(self.seed, ((*names[i], len(new[i])) for i in part))
                done = run(sampler, tokens, free, generator=noise, trace=False).tokens
                for i, row, filled in zip(part, rows, done.tolist(), strict=True):
                    new[i] += filled[row.start : row.stop]
                    texts[i] = str(self.lm.tokenizer.decode(new[i], skip_special_tokens=True))
        return [_cut(text, stops) for text in texts]

    def _blank(self, ids: list[int], left: int) -> Piece:
        """The end of ``ids``, a block of blanks to fill, and blanks behind it that are not."""
        size = min(self.block, left, max(1, self.room // 2))
        ahead = min(size, left - size, self.room // 4)
        kept = ids[-(self.room - size - ahead) :] if self.room > size + ahead else []
        mask = self.lm.conditionals.mask_id
        tokens = [*self.before, *kept, *[mask] * (size + ahead), *self.after]
        start = len(self.before) + len(kept)
        return Piece(text=0, tokens=tokens, start=start, stop=start + size, words=[0] * len(tokens))


def _chunks(items: Sequence[int], size: int) -> list[Sequence[int]]:
    return [items[i : i + size] for i in range(0, len(items), size)]


def _cut(text: str, stops: Sequence[str]) -> str:
    """``text`` before the first of the stop strings."""
    ends = [text.index(stop) for stop in stops if stop and stop in text]
    return text[: min(ends)] if ends else text
