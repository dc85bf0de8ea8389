"""Kernels in PTX, NVIDIA's assembler, which the driver compiles for whatever GPU there is.

So a GPU can be measured where the training's Python has no library for it, and its L2, which takes a kernel
that reads the same memory many times. Each thread takes 16 bytes at a time; UNROLL of them are under way at
once, a grid's width apart, so that neighbours read next to each other. A block's round is TILE bytes; there
are whole rounds only.
"""

from __future__ import annotations

UNROLL = 4
THREADS = 256  # of a block
TILE = UNROLL * THREADS * 16
CHAINS = 8  # multiply-adds of a thread that do not wait for each other
LINKS = 16  # multiply-adds of a chain in a round

# Old enough for every GPU that a driver of today knows.
_HEAD = ".version 6.0\n.target sm_50\n.address_size 64\n"
# %r0: this thread's number, %r1: how many there are, %rd0: 16 x its number, %rd1: 16 x their number.
_WHO = """
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r3, %ntid.x;
    mov.u32 %r4, %tid.x;
    mov.u32 %r5, %nctaid.x;
    mad.lo.u32 %r0, %r2, %r3, %r4;
    mul.lo.u32 %r1, %r5, %r3;
    mul.wide.u32 %rd0, %r0, 16;
    mul.wide.u32 %rd1, %r1, 16;
"""
_REGISTERS = """
    .reg .pred %p<4>;
    .reg .b32 %r<64>;
    .reg .b64 %rd<16>;
    .reg .f32 %f<64>;
    .reg .f64 %d<64>;
"""


def source() -> str:
    """All kernels: empty, read, copy, triad, fma_f32, fma_f64."""
    return "\n".join([_HEAD, _entry("empty", "", ""), _read(), _copy(), _triad(), _fma("f32"), _fma("f64")])


def _entry(name: str, parameters: str, body: str) -> str:
    return f".visible .entry {name}({parameters})\n{{{_REGISTERS if body else ''}{body}    ret;\n}}\n"


def _four(kind: str, first: int) -> str:
    """A vector of four registers in a row."""
    return "{" + ", ".join(f"%{kind}{first + k}" for k in range(4)) + "}"


def _read() -> str:
    """read(array, parts, rounds, passes, result): past the L1, each block `passes` times a part of the array.

    The array has `parts` parts of `rounds` tiles; there may be more blocks than parts. From pass to pass a
    block goes on to the next part: what an L1 still held would be no use to it. The exclusive or of all that
    was read is stored only if it is a number that it as good as never is.
    """
    loads = "".join(
        f"    ld.global.cg.v4.u32 {_four('r', 16 + 4 * n)}, [%rd6];\n    add.u64 %rd6, %rd6, %rd1;\n"
        for n in range(UNROLL)
    )
    folds = "".join(f"    xor.b32 %r{10 + n % 4}, %r{10 + n % 4}, %r{16 + n};\n" for n in range(4 * UNROLL))
    body = f"""{_WHO}
    ld.param.u64 %rd4, [array];
    ld.param.u32 %r5, [parts];
    ld.param.u32 %r6, [rounds];
    ld.param.u32 %r7, [passes];
    rem.u32 %r2, %r2, %r5;
    mul.lo.u32 %r1, %r5, %r3;
    mul.wide.u32 %rd1, %r1, 16;
    ld.param.u64 %rd5, [result];
    mov.u32 %r10, 0;
    mov.u32 %r11, 0;
    mov.u32 %r12, 0;
    mov.u32 %r13, 0;
PASS:
    mad.lo.u32 %r0, %r2, %r3, %r4;
    mul.wide.u32 %rd0, %r0, 16;
    add.u64 %rd6, %rd4, %rd0;
    mov.u32 %r8, %r6;
ROUND:
{loads}{folds}    sub.u32 %r8, %r8, 1;
    setp.ne.u32 %p0, %r8, 0;
    @%p0 bra ROUND;
    add.u32 %r2, %r2, 1;
    setp.eq.u32 %p1, %r2, %r5;
    @%p1 mov.u32 %r2, 0;
    sub.u32 %r7, %r7, 1;
    setp.ne.u32 %p2, %r7, 0;
    @%p2 bra PASS;
    xor.b32 %r10, %r10, %r11;
    xor.b32 %r12, %r12, %r13;
    xor.b32 %r10, %r10, %r12;
    setp.ne.u32 %p3, %r10, 305419896;
    @%p3 bra END;
    st.global.u32 [%rd5], %r10;
END:
"""
    parameters = ".param .u64 array, .param .u32 parts, .param .u32 rounds, .param .u32 passes"
    return _entry("read", f"{parameters}, .param .u64 result", body)


def _copy() -> str:
    """copy(from, to, rounds)"""
    moves = "".join(
        f"    ld.global.v4.u32 {_four('r', 16 + 4 * n)}, [%rd6];\n    add.u64 %rd6, %rd6, %rd1;\n"
        for n in range(UNROLL)
    ) + "".join(
        f"    st.global.v4.u32 [%rd7], {_four('r', 16 + 4 * n)};\n    add.u64 %rd7, %rd7, %rd1;\n"
        for n in range(UNROLL)
    )
    body = f"""{_WHO}
    ld.param.u64 %rd4, [source];
    ld.param.u64 %rd5, [target];
    ld.param.u32 %r6, [rounds];
    add.u64 %rd6, %rd4, %rd0;
    add.u64 %rd7, %rd5, %rd0;
ROUND:
{moves}    sub.u32 %r6, %r6, 1;
    setp.ne.u32 %p0, %r6, 0;
    @%p0 bra ROUND;
"""
    return _entry("copy", ".param .u64 source, .param .u64 target, .param .u32 rounds", body)


def _triad() -> str:
    """triad(a, b, c, rounds): a = b + 3 c on f32"""
    steps = []
    for n in range(UNROLL):
        b, c = _four("f", 8 * n), _four("f", 8 * n + 4)
        steps.append(
            f"    ld.global.v4.f32 {b}, [%rd7];\n"
            f"    ld.global.v4.f32 {c}, [%rd8];\n"
            "    add.u64 %rd7, %rd7, %rd1;\n"
            "    add.u64 %rd8, %rd8, %rd1;\n"
        )
    for n in range(UNROLL):
        b, c = _four("f", 8 * n), _four("f", 8 * n + 4)
        steps += [
            f"    fma.rn.f32 %f{8 * n + k}, %f{8 * n + 4 + k}, %f63, %f{8 * n + k};\n" for k in range(4)
        ]
        steps.append(f"    st.global.v4.f32 [%rd6], {b};\n    add.u64 %rd6, %rd6, %rd1;\n")
    body = f"""{_WHO}
    ld.param.u64 %rd6, [a];
    ld.param.u64 %rd7, [b];
    ld.param.u64 %rd8, [c];
    ld.param.u32 %r6, [rounds];
    add.u64 %rd6, %rd6, %rd0;
    add.u64 %rd7, %rd7, %rd0;
    add.u64 %rd8, %rd8, %rd0;
    mov.f32 %f63, 0f40400000;
ROUND:
{"".join(steps)}    sub.u32 %r6, %r6, 1;
    setp.ne.u32 %p0, %r6, 0;
    @%p0 bra ROUND;
"""
    return _entry("triad", ".param .u64 a, .param .u64 b, .param .u64 c, .param .u32 rounds", body)


def _fma(kind: str) -> str:
    """fma_KIND(factor, summand, rounds, result): CHAINS x LINKS multiply-adds a thread and round.

    Factor and summand come from outside, so that nothing can be reckoned beforehand; the sum of the chains is
    stored only if it is one number of all.
    """
    r = {"f32": "f", "f64": "d"}[kind]
    starts = f"    cvt.rn.{kind}.u32 %{r}0, %r0;\n" + "".join(
        f"    add.{kind} %{r}{n}, %{r}{n - 1}, %{r}60;\n" for n in range(1, CHAINS)
    )
    links = "".join(
        f"    fma.rn.{kind} %{r}{n}, %{r}{n}, %{r}60, %{r}61;\n" for _ in range(LINKS) for n in range(CHAINS)
    )
    sums = "".join(f"    add.{kind} %{r}0, %{r}0, %{r}{n};\n" for n in range(1, CHAINS))
    never = {"f32": "0f4B18967F", "f64": "0d416312D000000000"}[kind]
    body = f"""{_WHO}
    ld.param.{kind} %{r}60, [factor];
    ld.param.{kind} %{r}61, [summand];
    ld.param.u32 %r6, [rounds];
    ld.param.u64 %rd5, [result];
{starts}ROUND:
{links}    sub.u32 %r6, %r6, 1;
    setp.ne.u32 %p0, %r6, 0;
    @%p0 bra ROUND;
{sums}    setp.neu.{kind} %p1, %{r}0, {never};
    @%p1 bra END;
    st.global.{kind} [%rd5], %{r}0;
END:
"""
    parameters = f".param .{kind} factor, .param .{kind} summand, .param .u32 rounds, .param .u64 result"
    return _entry(f"fma_{kind}", parameters, body)
