"""Random worlds for hypothesis, small enough to check by brute force."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st

from anyorder.chains.worlds import World, make_world

# Exactness is tested, not speed; the same worlds every time.
exact = settings(deadline=None, derandomize=True, max_examples=25)


@st.composite
def worlds(draw: st.DrawFn, names: tuple[str, ...] = ("random", "ising-chain", "ising-clique", "hmm")) -> World:
    name = draw(st.sampled_from(names))
    vocab = draw(st.sampled_from((2, 3)))
    n = draw(st.integers(2, 4 if vocab == 2 else 3))
    coupling = draw(st.floats(0.05, 1.2))
    return make_world(name, n=n, coupling=round(coupling, 3), seed=draw(st.integers(0, 99)), vocab=vocab)
