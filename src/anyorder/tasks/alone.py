"""Each blank for itself, as fill-mask answers: what filling them jointly is to be compared with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from anyorder.tasks.fill import read_template
from anyorder.tasks.lengths import length_posterior
from anyorder.tasks.options import FillOptions
from anyorder.text.template import allowed, layout
from anyorder.text.vocabulary import vocabulary

if TYPE_CHECKING:
    from anyorder.tasks.lm import MaskedLM


def alone(lm: MaskedLM, text: str, options: FillOptions) -> dict[str, Any]:
    """The likeliest tokens of every blank, log q(x_t | the text, all blanks masked), and the text of the best ones.

    Blanks of open length have the likeliest one; ``lengths`` has p(lengths | text) of the likeliest combinations.
    Probabilities are the model's own, as those of :func:`anyorder.tasks.fill.fill`: with one blank both say the same.
    """
    vocab = vocabulary(lm.tokenizer, lm.conditionals.vocab_size)
    template = read_template(lm, text, vocab)
    layouts = [layout(template.texts, n, vocab, lm.max_length, options.allow_unknown) for n in template.lengths()]
    log_length = length_posterior(lm.conditionals, layouts, template, vocab)
    chosen = layouts[int(log_length.argmax())]
    rules = allowed(chosen, vocab, whole_words=options.whole_words, special_tokens=options.special_tokens)
    places = torch.tensor([p for run in chosen.slots for p in run])
    with torch.inference_mode():
        log_q = lm.conditionals(chosen.tokens[None], places[None])[0]  # [K, V]
    # A token that is allowed comes before one that is not, even if the model calls both impossible.
    log_q = log_q.clamp(min=torch.finfo(log_q.dtype).min).masked_fill(~rules[places], -torch.inf)
    best = log_q.topk(min(options.top, int(rules[places].sum(-1).min())), dim=-1)
    row = chosen.tokens.clone()
    row[places] = best.indices[:, 0]
    blanks = [
        [{"token": vocab.surface(t), "prob": p} for t, p in zip(ids, values, strict=True)]
        for ids, values in zip(best.indices.tolist(), best.values.exp().tolist(), strict=True)
    ]
    out: dict[str, Any] = {"text": chosen.render(row, vocab)[0], "blanks": blanks}
    if len(layouts) > 1:
        likely = log_length.exp().topk(min(options.top, len(layouts)))
        out["lengths"] = [
            {"lengths": [len(run) for run in layouts[n].slots], "prob": p}
            for n, p in zip(likely.indices.tolist(), likely.values.tolist(), strict=True)
        ]
    return out
