"""Others' clients work against the server: openai's and huggingface_hub's."""

from __future__ import annotations

import json
from typing import Any

import pytest
from huggingface_hub import InferenceClient

NAME = "bert"  # the tiny model's folder, without the path to it
PROMPT, SUFFIX = "The old man", "in the garden."


@pytest.fixture(scope="module")
def ai(client):
    # Here and not above: its import takes a second, which every process that collects the tests would pay.
    openai = pytest.importorskip("openai", reason="the openai client is not installed (extra dev)")
    return openai.OpenAI(base_url=f"{client.base_url}/v1", api_key="none", max_retries=0)


def test_openai_lists_the_model(ai):
    assert [one.id for one in ai.models.list()] == [NAME]
    assert ai.models.retrieve(NAME).id == NAME


def test_openai_may_send_what_changes_nothing(ai):
    said: dict[str, Any] = {"model": NAME, "prompt": PROMPT, "max_tokens": 2, "seed": 1}
    nothing: dict[str, Any] = {"stop": None, "frequency_penalty": 0, "presence_penalty": 0.0, "logit_bias": {}}
    made = ai.completions.create(**said, **nothing, best_of=1)
    assert made.choices[0].text == ai.completions.create(**said).choices[0].text
    import openai

    for wish in ({"stop": ["."]}, {"frequency_penalty": 1.0}, {"best_of": 3}):
        with pytest.raises(openai.BadRequestError, match="there is no such field"):
            ai.completions.create(**said, **wish)


def test_openai_completes_between_prompt_and_suffix(ai, tiny_lm):
    said: dict[str, Any] = {"model": NAME, "prompt": PROMPT, "suffix": SUFFIX, "max_tokens": 5, "seed": 3}
    made = ai.completions.create(**said, n=2, logprobs=1, temperature=0.8)
    assert [one.index for one in made.choices] == [0, 1]
    assert made.usage.completion_tokens == 10
    for one in made.choices:
        assert one.finish_reason == "length"
        assert len(one.logprobs.tokens) == len(one.logprobs.token_logprobs) == 5
        assert max(one.logprobs.token_logprobs) <= 0
        whole = PROMPT + one.text + SUFFIX
        # What stands between is what the tokens say: the tokenizer cuts the whole into prompt, them and suffix.
        sizes = [len(tiny_lm.tokenizer.tokenize(part)) for part in (PROMPT, SUFFIX)]
        assert len(tiny_lm.tokenizer.tokenize(whole)) <= sum(sizes) + 5
        assert one.text[0] in " .,!?'"
    (echoed,) = ai.completions.create(**said, logprobs=1, echo=True).choices
    for token, at in zip(echoed.logprobs.tokens, echoed.logprobs.text_offset, strict=True):
        assert echoed.text[at:].startswith(token)
    again = ai.completions.create(**said, n=2, logprobs=1, temperature=0.8)
    assert [one.text for one in again.choices] == [one.text for one in made.choices]
    assert made.choices[0].text != made.choices[1].text


def test_a_prompt_is_verbatim(ai, tiny_lm):
    made = ai.completions.create(model=NAME, prompt="the ___ ... cat", max_tokens=2, echo=True, seed=1)
    assert made.choices[0].text.startswith("the ___ ... cat")


@pytest.mark.parametrize("extra", [{}, {"order": "random"}, {"sampler": "parallel", "steps": 3}, {"sampler": "gibbs"}])
def test_a_stream_of_deltas_is_the_text(ai, tiny_lm, extra):
    said = {"model": NAME, "prompt": [PROMPT, "a dog"], "suffix": SUFFIX, "max_tokens": 9, "seed": 3}
    whole = ai.completions.create(**said, extra_body=extra)
    texts, ends = ["", ""], []
    for chunk in ai.completions.create(**said, stream=True, extra_body=extra):
        (one,) = chunk.choices
        texts[one.index] += one.text
        ends += [one.index] if one.finish_reason else []
    assert texts == [one.text for one in whole.choices]
    assert sorted(ends) == [0, 1]


def test_a_stream_can_carry_its_canvas_and_its_usage(client, tiny_lm):
    body = {"prompt": "a dog", "max_tokens": 3, "seed": 1, "stream": True, "canvas": True}
    answer = client.post("/v1/completions", json={**body, "stream_options": {"include_usage": True}}).text
    *chunks, done = [line.removeprefix("data: ") for line in answer.splitlines() if line]
    assert done == "[DONE]"
    told = [json.loads(chunk) for chunk in chunks]
    assert [one["canvas"]["type"] for one in told[:-1]] == ["start", "state", "state", "state", "end"]
    assert told[-1]["usage"]["completion_tokens"] == 3


def test_temperature_zero_takes_the_likeliest_token(ai, tiny_lm):
    made = {
        ai.completions.create(model=NAME, prompt=PROMPT, max_tokens=4, temperature=0, seed=s).choices[0].text
        for s in range(3)
    }
    assert len(made) == 1


def test_openai_raises_what_we_refuse(ai, tiny_lm):
    import openai

    with pytest.raises(openai.NotFoundError, match="its model is"):
        ai.completions.create(model="gpt-4", prompt="a")
    with pytest.raises(openai.BadRequestError, match="do not fit the model"):
        ai.completions.create(model=NAME, prompt="a", max_tokens=500)
    with pytest.raises(openai.APIError, match="do not fit the model"):
        list(ai.completions.create(model=NAME, prompt="a", max_tokens=500, stream=True))


def test_huggingface_fills_masks(client, tiny_lm, monkeypatch):
    # The tests ask no hub, and the client takes every address for one.
    monkeypatch.setattr("huggingface_hub.constants.is_offline_mode", lambda: False)
    hub = InferenceClient(model=f"{client.base_url}/fill-mask")
    found = hub.fill_mask("the [MASK] sat on the mat .", top_k=3)
    expected = tiny_lm.fill("the [MASK] sat on the mat .", top=3, whole_words=False, special_tokens=True)
    assert [one.score for one in found] == pytest.approx([one.prob for one in expected], rel=1e-3)
    assert [one.token_str for one in found] == [one.fills[0] for one in expected]
    assert found[0].sequence == expected[0].text
    some = hub.fill_mask("the [MASK] sat .", targets=["cat", "dog"])
    assert {one.token_str for one in some} == {"cat", "dog"}
    first, second = hub.fill_mask("the [MASK] sat on the [MASK] .", top_k=2)
    assert len(first) == len(second) == 2


def test_all_masks_jointly_beside_each(client, tiny_lm):
    body = {"inputs": ["the ___ sat on the ___ .", "a ___"], "parameters": {"top_k": 2, "joint": True}}
    both, one = client.post("/fill-mask", json=body).json()
    assert [len(both["masks"]), len(one["masks"])] == [2, 1]
    assert [best["sequence"] for best in both["joint"]] == [c.text for c in tiny_lm.fill(body["inputs"][0], top=2)]


def test_infill_as_llama_cpp_has_it(client, tiny_lm):
    said = {"input_prefix": "the old ", "prompt": "man ", "input_suffix": " in the garden .", "n_predict": 4, "seed": 1}
    made = client.post("/infill", json={**said, "cache_prompt": True}).json()
    assert made["stop"] is True
    assert made["tokens_predicted"] == 4
    answer = client.post("/infill", json={**said, "stream": True}).text
    chunks = [json.loads(line.removeprefix("data: ")) for line in answer.splitlines() if line]
    assert "".join(chunk["content"] for chunk in chunks) == made["content"]
    assert [chunk["stop"] for chunk in chunks][-1] is True
    long = {**said, "input_prefix": "the cat sat . " * 200, "input_suffix": "the dog ran . " * 200}
    assert client.post("/infill", json=long).status_code == 200


def test_masks_of_open_length_are_fills_business(client):
    """Taken as one token each, their lists would not be of what is filled jointly."""
    answer = client.post("/fill-mask", json={"inputs": "the ___{1-3} sat", "parameters": {"joint": True}})
    assert answer.status_code == 400
    assert "ask /fill for open lengths" in answer.json()["error"]["message"]
    assert len(client.post("/fill-mask", json={"inputs": "the ___{2} sat"}).json()) == 2


def test_infill_without_the_places_of_tokens_is_refused_in_a_sentence(client, tiny_lm, monkeypatch):
    monkeypatch.setattr(type(tiny_lm.tokenizer), "is_fast", False)
    answer = client.post("/infill", json={"input_prefix": "the cat", "n_predict": 2})
    assert (answer.status_code, "/v1/completions" in answer.text) == (400, True)
