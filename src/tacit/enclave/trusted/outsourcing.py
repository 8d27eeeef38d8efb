"""Products of the enclave, computed by workers that it does not trust.

A product of floats becomes one of small integers (`quantise.py`), which is exact in a ring. Workers
compute it on masked operands (`worker_roles.py`). The enclave checks the result (`freivalds.py`).
The sizes and the order of the messages depend on the shapes of the operands alone.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import count

import torch
from torch import Tensor

from ...config import VISIBLE_WEIGHTS
from ...crypto import KEY_BYTES, Key
from ...errors import CheatingDetected, ConfigError, ProtocolError
from ...kernels.activations import Integers
from ...kernels.quantisation import CIPHER, MOST_EXPONENT, add_three
from ...kernels.stream import CIPHERS
from ...protocols.plain_memory import UNLIMITED, PlainMemory
from ...protocols.products.bilinear import MATMUL, Bilinear, Einsum, MatMul, Mul
from ...transport import Mesh
from ..mask_keys import MaskKeys
from ..messages import result_shape
from ..pieces import pieces
from ..worker_roles import DUTIES, Role
from .checks import Checks
from .counters import Counters
from .inside import multiply_inside, multiply_integers
from .links import PeerLink, WorkerLinks, wrong_answer
from .masking import MODES, NUM_MASK_PARTS, MaskedProduct, Operand
from .operand_cache import OperandCache
from .operand_parts import OperandParts
from .product_blocks import Block, Cut
from .product_bytes import product_bytes
from .quantise import dequantise, find_precision
from .quantised_operands import QuantisedOperands
from .visible_weights import VisibleWeights

NONCE_BYTES = 16


class Outsourcer:
    """Multiplies the tensors of an enclave with the help of workers.

    links: the links to the workers, each a mesh of two with the enclave at rank 0, in the order of
        the workers. In "three-server" mode these are workers 0, 1 and 2. No two of them may
        collude. In "two-server" mode the enclave computes u ⊗ v itself, which costs as much as the
        product; in "one-worker" mode two such terms; in "none" everything, with torch's kernels. In
        "one-worker-visible-weights" mode the worker multiplies with tensors that were shown, which
        it sees; the enclave computes other products itself.
    precision: "swalp" (8 bits, stochastic rounding), "fixed" (22 bits), or "goten", which wraps as
        the paper's modulus does, for comparison.
    check_bits: a wrong answer passes with a probability of at most 2^-check_bits; 0 checks nothing.
    key: 32 secret bytes of the enclave. Rounding is a function of them. Masks are not: each
        outsourcer has masks of its own.
    peer: the link to the other enclave, if there are two. Enclave 0 has the links of workers 0
        and 2, enclave 1 that of worker 1. Both have the same key, make the same calls and get the
        same results.
    kept_bytes: so many bytes of quantised operands are kept inside, for tensors that are used
        again, and their masked form is kept at the workers. Two enclaves keep none: which tensors
        are alive may differ between them.
    cipher: of the masks; "chacha20" if workers draw theirs on a GPU.
    memory: what operands, quantised ones too, and results lie in. If it is limited, a product that
        does not fit is computed in blocks; everything that a block takes counts, masks too.
    pins_memory: masked operands lie in pinned memory, for workers on a GPU of this process.

    It is used by one thread. After an error other than a RangeError it cannot be used again.
    """

    def __init__(
        self,
        links: Sequence[Mesh],
        mode: str,
        *,
        precision: str = "swalp",
        check_bits: int = 40,
        key: bytes,
        peer: Mesh | None = None,
        kept_bytes: int = 1 << 27,
        cipher: str = CIPHER,
        memory: PlainMemory = UNLIMITED,
        pins_memory: bool = False,
    ) -> None:
        self._roles = _roles(mode, peer)
        if len(links) != len(self._roles):
            needed = f"{mode!r} needs {len(self._roles)} at this enclave"
            raise ConfigError(f"{len(links)} links to workers", limit=needed)
        if len(key) != KEY_BYTES or not any(key):
            raise ConfigError("key", limit=f"{KEY_BYTES} secret bytes are needed")
        self.mode, self.counters, self._memory = mode, Counters(), memory
        self._pins_memory = pins_memory
        self._precision = find_precision(precision)
        self._workers = WorkerLinks(dict(zip(self._roles, links, strict=True)))
        self._peer = PeerLink(peer) if peer else None
        self._key = Key(key, ())
        self._checks = Checks(self._key, check_bits, self._precision.bound)
        self._cache = OperandCache(0 if peer else kept_bytes)
        self._number = 0
        self._keys = self._mask_keys(cipher)
        numbers = count(1)  # of operands, and so of masks
        self._weights = VisibleWeights(self._keys, self._precision.ring, numbers, memory)
        self._operands = QuantisedOperands(
            self._precision, self._key, self._cache, self._weights, numbers, memory
        )
        self._parts = OperandParts(memory, numbers, self._cache.forget)
        for worker, role in self._roles.items():
            self._workers.tell(worker, self._keys.some(DUTIES[role].mask_parts))

    def product(self, op: Bilinear, a: Tensor, b: Tensor) -> Tensor:
        """Returns op(a, b) of two tensors of floats, in the dtype of a. `multiply` says more."""
        made = self.multiply(op, a, b)
        return self._floats(made, a.dtype) if isinstance(made, Integers) else made

    def multiply(self, op: Bilinear, a: Tensor, b: Tensor) -> Tensor | Integers:
        """Returns op(a, b) of two tensors of floats, in the dtype of a.

        If workers compute it, it may be integers, which the caller has to read as float32.
        Elementwise products are computed inside. An operand that is not finite is a RangeError, a
        worker that fails or is late WorkerFailed, and one that answers wrongly CheatingDetected.
        """
        compute = self._memory.compute
        if isinstance(op, Mul):
            made: Tensor = compute("a product", torch.mul, a, b)
            return made
        if isinstance(op, Einsum):
            product = self.product(MATMUL, *compute("einsum", op.matrices, a, b))
            return compute("einsum", op.finish, product, a.shape, b.shape)
        if isinstance(op, MatMul) and 1 in (a.dim(), b.dim()):
            return self._with_vector(a, b)
        shape = result_shape(op, tuple(a.shape), tuple(b.shape))
        if 0 in (*a.shape, *b.shape, *shape):
            made = compute("a product", lambda x: x.new_zeros(shape), a)
            return made  # noqa: RET504  has the type of the one above
        with self.counters.product(op, a.shape, b.shape):
            return self._product(op, a, b)

    def show(self, weight: Tensor) -> None:
        """Lets the worker see a tensor that nobody writes to any more, if the mode is for that."""
        if self.mode == VISIBLE_WEIGHTS:
            self._weights.show(weight)

    def precompute(self, calls: int) -> None:
        """Makes u ⊗ W ahead, for so many further calls of each product with a visible weight."""
        self._weights.precompute(calls)

    def close(self) -> None:
        """Tells the workers that no product follows, and wipes the keys."""
        self._workers.close()
        if self._peer:
            self._peer.close()
        self._key.wipe()

    def _with_vector(self, a: Tensor, b: Tensor) -> Tensor:
        """Returns a product of matrices of which one is a vector."""
        left, right = (
            (a.unsqueeze(0) if a.dim() == 1 else a),
            (b.unsqueeze(1) if b.dim() == 1 else b),
        )
        found = self.product(MATMUL, left, right)
        found = found.squeeze(-1) if b.dim() == 1 else found
        return found.squeeze(-1 if b.dim() == 1 else -2) if a.dim() == 1 else found

    def _product(self, op: Bilinear, a: Tensor, b: Tensor) -> Tensor | Integers:
        name = type(op).__name__
        if self.mode == "none" and not self._precision.stochastic:
            with self.counters.phase("inside"):
                return multiply_inside(self._memory, op, a, b)
        with self.counters.phase("quantise"):
            left, right = (self._operands.get(name, x) for x in (a, b))
        if self.mode == "none" and self._precision.modulus is None:
            with self.counters.phase("inside"):
                exponent = left.exponent + right.exponent
                return multiply_integers(
                    self._memory, op, left.values, right.values, exponent, a.dtype
                )
        return self._in_blocks(name, op, left, right, a.dtype)

    def _in_blocks(
        self, name: str, op: Bilinear, a: Operand, b: Operand, dtype: torch.dtype
    ) -> Tensor | Integers:
        """Returns a product; as floats, block by block, if memory is limited."""
        exponent, cut = a.exponent + b.exponent, Cut(op, a.values.shape, b.values.shape)
        integers = partial(self._integers, name, op, (a, b), cut)
        if self._memory.limit is None:
            [blocks] = cut.blocks()
            found = Integers(integers(blocks).contiguous(), exponent)
            self._parts.drop()
            may_wait = dtype == torch.float32 and abs(exponent) <= MOST_EXPONENT
            return found if may_wait else self._floats(found, dtype)

        def floats(blocks: Sequence[Block]) -> Tensor:
            return self._floats(Integers(integers(blocks), exponent), dtype)

        needed = partial(product_bytes, self._precision, MODES[self.mode])
        return cut.computed(self._memory, name, needed, dtype, floats, self._parts.drop)

    def _integers(
        self,
        name: str,
        op: Bilinear,
        operands: tuple[Operand, Operand],
        cut: Cut,
        blocks: Sequence[Block],
    ) -> Tensor:
        """Returns a part of a product: the sum of these blocks, which is exact."""
        a, b = operands
        total, is_long = None, op.terms(a.values.shape, b.values.shape) > self._precision.most_terms
        for block in blocks:
            taken = self._parts.take(name, block, a, b)
            self._parts.prefetch(name, cut.following(block), a, b)
            found = self._exact(block.op, *taken)
            found = found.long() if is_long else found
            total = found if total is None else total + found
        assert total is not None
        values = self._precision.reduced(total)
        if values is not total:
            self.counters.count_wrapped(int((values != total).sum()), values.numel())
        return values

    def _floats(self, product: Integers, dtype: torch.dtype) -> Tensor:
        with self.counters.phase("dequantise"):
            return dequantise(*product, dtype)

    def _exact(self, op: Bilinear, a: Operand, b: Operand) -> Tensor:
        """Returns the product of integers, from the workers, and ends all of them if one fails."""
        parts = pieces(op, a.values.shape, b.values.shape, self._precision.most_terms)
        try:
            *others, last = parts
            totals = [self._piece(part, a, b).long() for part in others]
            totals.append(self._piece(last, a, b, self._cache.forgotten()))
            return sum(totals[1:], totals[0])
        except BaseException as error:
            self._workers.abort(error)
            if self._peer and not isinstance(error, CheatingDetected):  # the other enclave knows
                self._peer.abort(error)
            raise

    def _piece(
        self, op: Bilinear, a: Operand, b: Operand, forgotten: tuple[int, ...] = ()
    ) -> Tensor:
        self._number += 1
        if self.mode in (VISIBLE_WEIGHTS, "none"):
            return self._with_visible_weight(op, a, b)
        keys, ring, pins_memory = self._keys, self._precision.ring, self._pins_memory
        product = MaskedProduct(keys, ring, self._number, op, a, b, pins_memory=pins_memory)
        return self._outsourced(product, forgotten)

    def _with_visible_weight(self, op: Bilinear, a: Operand, b: Operand) -> Tensor:
        """Returns a product of a weight that the worker sees; without one, computed inside."""
        ring = self._precision.ring
        with self.counters.phase("inside"):
            product = self._weights.product(self._number, op, a, b)
            if product is None:
                return op(*(x.values.to(ring.dtype) for x in (a, b)))
        with self._memory.opened(type(op).__name__, [product.term.values]):
            return self._outsourced(product, (product.term.number, *self._weights.forgotten()))

    def _outsourced(self, product: MaskedProduct, forgotten: tuple[int, ...]) -> Tensor:
        """Returns a product from the workers, checked."""
        for worker, role in sorted(self._roles.items(), reverse=True):
            with self.counters.phase("mask"):
                sent = product.sent(role)
            with self.counters.phase("send"):
                self._workers.begin(worker, product.task(role, forgotten), sent)
            self.counters.count_bytes(sum(x.nbytes for x in sent), 0)
        product.mark_sent()
        with self.counters.phase("inside"):
            inside = product.computed_inside(MODES[self.mode])
        with self.counters.phase("wait"):
            answers = self._workers.answers()
        self.counters.count_bytes(0, sum(x.nbytes for x in answers.values()))
        with self.counters.phase("unmask"):
            c = self._total(answers, inside)
        with self.counters.phase("check"):
            if not self._checks.agree(product, c):
                self._accuse(product, answers)
        return c

    def _total(self, answers: Mapping[int, Tensor], inside: Tensor | None) -> Tensor:
        """Returns the sum of the answers of all workers and of what was computed inside."""
        terms = list(answers.values())
        if self._peer:
            terms = [self._peer.total(sum(terms[1:], terms[0]))]
        if inside is not None:
            terms.append(inside)
        return add_three(*terms) if len(terms) == 3 else sum(terms[1:], terms[0])

    def _accuse(self, product: MaskedProduct, answers: Mapping[int, Tensor]) -> None:
        """Computes what each worker should have answered, and names those that did not."""
        roles = self._roles
        liars = bytes(w for w, c in answers.items() if not c.equal(product.expected(roles[w])))
        if self._peer:
            liars += self._peer.both(liars)
        if not liars:
            raise ProtocolError(
                "a product is wrong although all answers are right",
                remedy="the memory or the processor of the enclave is faulty: replace the machine",
            )
        raise wrong_answer(sorted(liars), type(product.op).__name__)

    def _mask_keys(self, cipher: str) -> MaskKeys:
        """Returns keys for masks that no other outsourcer has, even one with the same key."""
        if cipher not in CIPHERS:
            raise ConfigError(f"cipher={cipher!r}", limit=f"allowed are {', '.join(CIPHERS)}")
        nonce = secrets.token_bytes(NONCE_BYTES)
        nonce = self._peer.first_says(nonce) if self._peer else nonce
        uses = (f"mask part {part}|{nonce.hex()}" for part in range(NUM_MASK_PARTS))
        size = MaskKeys.size(cipher)
        return MaskKeys(cipher, tuple(self._key.derive(use, size) for use in uses))


def _roles(mode: str, peer: Mesh | None) -> dict[int, Role]:
    """Returns the roles of the workers that an enclave has links to, by worker."""
    if mode not in MODES:
        raise ConfigError(f"mode={mode!r}", limit=f"allowed are {', '.join(MODES)}")
    roles = dict(enumerate(MODES[mode]))
    if peer is None:
        return roles
    if len(roles) < 2:
        raise ConfigError(f"mode={mode!r} with two enclaves", limit="each needs a worker")
    return {worker: role for worker, role in roles.items() if worker % 2 == peer.rank}
