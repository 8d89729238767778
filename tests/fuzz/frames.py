"""Feeds mutated HTTP/2 frames to the server's session of `ngh2`, many and repeatable.

    python tests/fuzz/frames.py [--inputs N] [--seed N] [--processes N]

seeds of grpc_native -> frames -> mutations -> session -> replies -> whole frames

`make fuzz` follows the code that Python bytes reach, which says little about a library in C and
takes milliseconds per input. Here an input is a few calls of that library. The inputs depend on
the seed alone, so another build of the library, such as one with AddressSanitizer, gets the same.
A finding is a crash, an exception that the server does not expect, or a torn frame. The input is
written to build/fuzz, except after a crash, which `--seed` and `--inputs 1` of its part repeat.
"""

import argparse
import multiprocessing
import random
import resource
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import ngh2

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests")]

from fuzz.targets import FRAME_HEAD_BYTES, PREFACE, seeds
from moorage_runtime.frontends.grpc.methods import GrpcFault
from moorage_runtime.frontends.grpc.nghttp2 import replies
from moorage_runtime.frontends.grpc.nghttp2.limits import Limits

FOUND = ROOT / "build" / "fuzz"
PART = 50_000
"""Inputs of one task; each has a seed of its own."""

LIMITS = Limits()
ANSWER = (b"\0\0\0\0\5", b"hello")
FAULT = GrpcFault("INTERNAL", "50 %")
INTERESTING = (0, 1, 2, 9, 0x7F, 0x80, 0xFF)
MUTATION_CHANCE = 0.7
"""Of a first change, and after each of another one."""

HEADERS = 1
STREAMLESS = (b"\4", b"\6", b"\7")
"""SETTINGS, PING and GOAWAY."""


def frames_of(data: bytes) -> list[bytes]:
    """The frames of a client's bytes; an incomplete one at the end counts."""
    found: list[bytes] = []
    at = 0
    while at < len(data):
        stop = at + FRAME_HEAD_BYTES + int.from_bytes(data[at : at + 3], "big")
        found.append(data[at:stop])
        at = stop
    return found


def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    """One frame (RFC 9113, 4.1)."""
    head = len(payload).to_bytes(3, "big") + bytes((kind, flags))
    return head + stream.to_bytes(4, "big") + payload


def made_up(rng: random.Random) -> bytes:
    """A frame of any kind with plausible or arbitrary content."""
    kind = rng.randrange(12)
    sizes = {2: 5, 3: 4, 4: 6 * rng.randrange(4), 6: 8, 7: 8 + rng.randrange(9), 8: 4}
    size = sizes.get(kind, rng.randrange(40)) if rng.random() < 0.9 else rng.randrange(300)
    stream = 0 if kind in {4, 6, 7} and rng.random() < 0.9 else rng.choice((0, 1, 1, 3, 5, 2, 99))
    return frame(kind, rng.randrange(256), stream, rng.randbytes(size))


def repeated(frames: list[bytes], at: int, rng: random.Random) -> None:
    """The same frame once more, elsewhere."""
    frames.insert(rng.randrange(len(frames) + 1), frames[at])


def dropped(frames: list[bytes], at: int, _: random.Random) -> None:
    """A frame less."""
    del frames[at]


def inserted(frames: list[bytes], at: int, rng: random.Random) -> None:
    """A made-up frame."""
    frames.insert(at + rng.randrange(2), made_up(rng))


def moved(frames: list[bytes], at: int, rng: random.Random) -> None:
    """The same frame on another stream."""
    stream = rng.choice((1, 3, 5, 7, 0, 2)).to_bytes(4, "big")
    frames[at] = frames[at][:5] + stream + frames[at][FRAME_HEAD_BYTES:]


def cut_off(frames: list[bytes], at: int, rng: random.Random) -> None:
    """A shorter frame than its head announces, so that the next one continues it."""
    frames[at] = frames[at][: rng.randrange(len(frames[at]) + 1)]


def divided(frames: list[bytes], at: int, rng: random.Random) -> None:
    """One payload in two frames, the second of them mostly a CONTINUATION."""
    kind, flags, stream = frames[at][3], frames[at][4], int.from_bytes(frames[at][5:9], "big")
    payload = frames[at][FRAME_HEAD_BYTES:]
    middle = rng.randrange(len(payload) + 1)
    kinds = (9, 9, kind) if kind == HEADERS else (kind, kind, 9)
    frames[at : at + 1] = [
        frame(kind, flags & ~(4 if kind == HEADERS else 1), stream, payload[:middle]),
        frame(rng.choice(kinds), flags, stream, payload[middle:]),
    ]


def altered(frames: list[bytes], at: int, rng: random.Random) -> None:
    """Up to three other bytes."""
    changed = bytearray(frames[at])
    for _ in range(rng.randrange(1, 4)):
        byte = rng.choice(INTERESTING) if rng.random() < 0.5 else rng.randrange(256)
        changed[rng.randrange(len(changed))] = byte
    frames[at] = bytes(changed)


MUTATIONS = (repeated, dropped, inserted, inserted, moved, cut_off, divided, altered, altered)


def mutated(corpus: list[list[bytes]], rng: random.Random) -> bytes:
    """The frames of up to three calls on one connection, with some changes."""
    frames: list[bytes] = []
    for number in range(rng.randrange(1, 4)):
        stream = (1 + 2 * number).to_bytes(4, "big")
        call = corpus[rng.randrange(len(corpus))]
        frames += [
            each if each[3:4] in STREAMLESS else each[:5] + stream + each[FRAME_HEAD_BYTES:]
            for each in call
        ]
    while rng.random() < MUTATION_CHANCE and frames:
        at = rng.randrange(len(frames))
        if len(frames[at]) >= FRAME_HEAD_BYTES:
            rng.choice(MUTATIONS)(frames, at, rng)
    return b"".join(frames)


def serve(data: bytes, rng: random.Random) -> bytes:
    """What a server's session sends for a client's bytes, which arrive in two parts."""
    session = replies.make_session(LIMITS)
    cut = rng.randrange(len(data) + 1)
    written = b""
    for part in (PREFACE + data[:cut], data[cut:]):
        try:
            session.receive_data(part)
        except ngh2.NGH2Error as error:
            return written + replies.goaway_frame(0, replies.error_code(error))
        for event in session.events():
            if isinstance(event, ngh2.RequestReceived):
                answer(session, event.stream_id, rng)
            elif isinstance(event, ngh2.DataReceived):
                replies.acknowledge(session, event.stream_id, len(event.data))
        try:
            written += session.data_to_send()
        except ngh2.NGH2Error:
            return written
    return written


def answer(session: ngh2.Connection, stream_id: int, rng: random.Random) -> None:
    """One of the ways in which the server answers a call."""
    match rng.randrange(6):
        case 0 | 1:
            replies.reply(session, stream_id, ANSWER, "identity")
        case 2:
            replies.begin(session, stream_id, "gzip")
            replies.send(session, stream_id, ANSWER)
            replies.finish(session, stream_id, None, has_head=True)
        case 3:
            replies.finish(session, stream_id, FAULT, has_head=False)
        case 4:
            replies.stop_reading(session, stream_id)
        case _:
            # a call that is never answered
            return


def play(seed: int) -> tuple[int, int]:
    """Play one part; the number of inputs, and of those after which the session still served."""
    rng = random.Random(seed)
    corpus = [frames_of(each) for each in seeds("grpc_native")]
    corpus += [frames_of(path.read_bytes()) for path in sorted(KEPT.iterdir())]
    corpus = [each for each in corpus if each]
    note = FOUND / f"frames-{seed}"
    served = 0
    for number in range(PART):
        data = mutated(corpus, rng)
        try:
            written = serve(data, rng)
            check(written)
        except BaseException:
            note.write_bytes(data)
            print(f"seed {seed}, input {number}: {note}", flush=True)
            raise
        # a HEADERS frame of the server: a call was answered
        served += any(each[3:4] == bytes((HEADERS,)) for each in frames_of(written))
    return PART, served


def check(written: bytes) -> None:
    """What the server sends are whole frames."""
    at = 0
    while at < len(written):
        at += FRAME_HEAD_BYTES + int.from_bytes(written[at : at + 3], "big")
    assert at == len(written), written


KEPT = ROOT / "tests" / "fuzz" / "corpus" / "grpc_native"


def main() -> None:
    """Play all parts, and print how many inputs there were."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--inputs", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1, help="of the first part")
    parser.add_argument("--processes", type=int, default=1)
    options = parser.parse_args()
    FOUND.mkdir(parents=True, exist_ok=True)
    parts = range(options.seed, options.seed + -(-options.inputs // PART))
    began, total, served = time.monotonic(), 0, 0
    context = multiprocessing.get_context("spawn")
    # A pool of this kind fails if a process crashes.
    with ProcessPoolExecutor(options.processes, mp_context=context) as pool:
        for part, (count, answered) in zip(parts, pool.map(play, parts), strict=True):
            total, served = total + count, served + answered
            print(
                f"seed {part}: {total} inputs so far, {served} answered, "
                f"{time.monotonic() - began:.0f} s",
                flush=True,
            )
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    print(f"{total} inputs, no finding; peak memory of a process: {peak:.0f} MiB")


if __name__ == "__main__":
    main()
