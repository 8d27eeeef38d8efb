"""Public arguments that differ from call to call: one plan, which takes them from buffers."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import tacit
from tacit.errors import PartyFailed, RangeError

LENGTH, WIDTH = 4, 6
SIZES = (WIDTH, WIDTH, WIDTH, 3, 2, WIDTH, 4)  # of masks


class Decoder(nn.Module):
    """Attention with a cache of keys and values of a fixed size, written at a public position."""

    def __init__(self):
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.register_buffer("keys", torch.zeros(LENGTH, WIDTH))
        self.register_buffer("values", torch.zeros(LENGTH, WIDTH))

    def forward(self, x, position):
        self.keys.index_copy_(0, position, self.key(x))
        self.values.index_copy_(0, position, self.value(x))
        later = torch.arange(LENGTH) > position
        scores = (self.query(x) @ self.keys.T).masked_fill(later, -30.0)
        return scores.softmax(-1) @ self.values


torch.manual_seed(5)
DECODER = Decoder().eval()
WORDS = torch.randn(2 * LENGTH, 1, WIDTH)


def own_decoder() -> Decoder:
    made = Decoder().eval()
    made.load_state_dict(DECODER.state_dict())
    return made


def decode(session):
    step = session.repeated(session.share(own_decoder(), owner=0))
    found = []
    with torch.no_grad():
        for i, word in enumerate(WORDS):
            y = step(session.share(word, owner=1), torch.tensor([i % LENGTH]))
            found.append(session.reveal(y))
    return torch.stack(found), [one.num_replays for one in step.recordings]


@pytest.mark.parametrize("transport", ["threads", "processes"])
def test_every_position_of_a_cache_is_one_plan(transport):
    model = own_decoder()
    with torch.no_grad():
        wanted = torch.stack([model(x, torch.tensor([i % LENGTH])) for i, x in enumerate(WORDS)])
    for found, num_replays in tacit.run(decode, transport=transport):
        torch.testing.assert_close(found, wanted, atol=1e-3, rtol=0)
        assert num_replays == [len(WORDS) - 4]


def test_positions_that_differ_between_parties_are_noticed():
    def main(session):
        cache = session.share(torch.zeros(LENGTH), owner=0)
        write = session.repeated(lambda x, at: cache.index_copy_(0, at, x).sum())
        for i in range(6):
            at = i + (i == 5 and session.rank == 1)
            write(session.share(torch.ones(1), owner=1), torch.tensor([at % LENGTH]))
        session.mesh.compare()

    with pytest.raises(PartyFailed, match="differ"):
        tacit.run(main)


def decided(session):
    """What is done follows from the public argument: Python reads it, or its size does."""
    x = session.share(torch.arange(6.0), owner=0)

    def by_reading(x, at):
        return x * 2 if float(at[0]) > 1.5 else x + 1

    def by_shape(x, at):
        return x[at > 0.5].sum()

    found = []
    for function in (by_reading, by_shape):
        step = session.repeated(function)
        for i in (0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3):
            at = torch.arange(6.0) % 4 == i if function is by_shape else torch.tensor([float(i)])
            found.append((session.reveal(step(x, at.float())), function(torch.arange(6.0), at)))
    return found


def test_a_function_that_decides_by_an_argument_has_a_plan_for_each():
    for found in tacit.run(decided):
        for got, wanted in found:
            torch.testing.assert_close(got, wanted, atol=1e-3, rtol=0)


def own_labels(session):
    """How many predictions are right, which one party alone counts, by labels that it has."""
    x = session.share(torch.eye(4), owner=0)

    def step(x, labels):
        return (session.reveal(x * 2).argmax(-1) == labels).sum()

    step, found = session.repeated(step), []
    for i in range(7):
        own = torch.arange(4).roll(i % 2)
        found.append(int(step(x, own if session.rank == 1 else torch.zeros(4).long())))
    return found, [one.num_replays for one in step.recordings]


def test_an_argument_that_meets_no_secret_is_a_partys_own_affair():
    """It may differ between parties and calls, and nobody else is told a digest of it."""
    for rank, (found, num_replays) in enumerate(tacit.run(own_labels)):
        assert found == ([4, 0, 4, 0, 4, 0, 4] if rank == 1 else [1] * 7)
        assert num_replays == [4]


def test_results_that_are_arguments_stay_what_they_were():
    def main(session):
        x = session.share(torch.ones(2), owner=0)
        step = session.repeated(lambda x, own: (x + x, own, own + 1))
        kept = [step(x, torch.tensor([float(i)]))[1:] for i in range(6)]
        return [(float(a), float(b)) for a, b in kept]

    assert tacit.run(main)[0] == [(i, i + 1) for i in range(6)]


def guarded(function, arguments, x=WIDTH):
    """The results of calls, and how many replays each recording made."""

    def main(session):
        secret = session.share(torch.arange(float(x)) - 1, owner=0)
        step = session.repeated(lambda y, at: function(y, at))
        found = []
        for at in arguments:
            try:
                found.append(session.reveal(step(secret, at)))
            except RangeError as error:
                found.append(error.number)
        return found, sum(one.num_replays for one in step.recordings)

    results = tacit.run(main)
    plain = torch.arange(float(x)) - 1
    for found, _ in results:
        for got, at in zip(found, arguments, strict=True):
            if isinstance(got, Tensor):
                torch.testing.assert_close(got, function(plain, at), atol=2e-3, rtol=0)
    return results


def test_factors_that_grow_are_recorded_again_and_smaller_ones_replayed():
    factors = [torch.tensor([0.3, -size]) for size in (0.4, 0.45, 0.5, 0.3, 90.0, 70.0, 0.2)]
    for _, num_replays in guarded(lambda y, at: (y[:2] * at).relu(), factors):
        assert num_replays >= 2  # after the factor of 90


def test_a_mask_that_hides_nothing_when_it_is_recorded_may_hide_later():
    hidden = [torch.zeros(WIDTH).masked_fill_(torch.arange(WIDTH) >= i, -torch.inf) for i in SIZES]
    for _, num_replays in guarded(lambda y, at: (y + at).softmax(-1), hidden):
        assert num_replays >= 1
    chosen = [torch.arange(WIDTH) >= i for i in SIZES]
    for _, num_replays in guarded(lambda y, at: (y * at.float() + y).relu(), chosen):
        assert num_replays >= 1


def test_a_row_that_is_none_is_refused_in_a_replay_as_in_a_call():
    rows = [torch.tensor([i]) for i in (0, 1, 2, 3, WIDTH, 2, 4)]
    for found, num_replays in guarded(lambda y, at: F.embedding(at, y.unsqueeze(1)), rows):
        assert found[4] == "index"
        assert num_replays >= 2


def test_numbers_that_are_none_are_refused_in_a_replay_as_in_a_call():
    numbers = [torch.tensor([x]) for x in (0.5, 0.6, 0.7, 0.8, torch.nan, 0.9)]
    for found, _ in guarded(lambda y, at: y * at, numbers):
        assert found[4] == "NaN"


def test_places_that_repeat_get_the_last_element_in_a_replay_too():
    places = [torch.tensor(x) for x in ([0, 1], [1, 2], [2, 3], [3, 4], [4, 4], [1, 1], [0, 5])]
    guarded(lambda y, at: (y * 0).index_copy(0, at, y[2:4]), places)


def test_what_python_reads_in_inference_mode_decides():
    """There torch calls `item` itself, and not what it is made of."""

    @torch.inference_mode()
    def decided(y, at):
        return y * 2 if at.item() > 1.5 else y + 1

    guarded(decided, [torch.tensor([float(i % 4)]) for i in range(14)])
