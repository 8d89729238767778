"""Continuous gRPC calls from a separate process, and their results.

`python -m support.grpc_traffic TARGET REQUEST` calls ModelInfer at the target until its standard
input ends, then prints JSON: the number of answered calls of each client, and the failures.
REQUEST is the message in hexadecimal. One client keeps its channel and lets it reconnect. The
other opens a channel for each call, which therefore goes to the pods that the Service selects at
that time. Neither retries a failed call.
"""

import json
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc

from moorage_runtime.codec._generated import oip_pb2
from support.client_process import client_process

METHOD = "/inference.GRPCInferenceService/ModelInfer"
TIMEOUT_SECONDS = 10
PAUSE_SECONDS = 0.01


@dataclass
class GrpcTally:
    """The results of each client's calls; available when the traffic ends."""

    kept: int = 0
    fresh: int = 0
    failures: list[str] = field(default_factory=list)


@contextmanager
def grpc_traffic(target: str, model: str, body: dict[str, Any]) -> Iterator[GrpcTally]:
    """Calls from the start of the block to its end, when the tally is filled in.

    Args:
        target: HOST:PORT.
        model: The model's name.
        body: A request of FP32 tensors in the JSON of the Open Inference Protocol.
    """
    tally = GrpcTally()
    request = message(model, body).hex()
    with client_process("support.grpc_traffic", target, request) as result:
        yield tally
    tally.kept, tally.fresh = result["kept"], result["fresh"]
    tally.failures = result["failures"]


def message(model: str, body: dict[str, Any]) -> bytes:
    """A ModelInferRequest of FP32 tensors, from the JSON of the Open Inference Protocol."""
    inputs = [
        oip_pb2.ModelInferRequest.InferInputTensor(
            name=each["name"],
            datatype=each["datatype"],
            shape=each["shape"],
            contents=oip_pb2.InferTensorContents(fp32_contents=list(_numbers(each["data"]))),
        )
        for each in body["inputs"]
    ]
    return oip_pb2.ModelInferRequest(model_name=model, inputs=inputs).SerializeToString()


def _numbers(data: Any) -> Iterator[float]:
    if isinstance(data, list):
        for each in data:
            yield from _numbers(each)
    else:
        yield data


class _Clients:
    """Both clients and what they count."""

    def __init__(self, target: str, request: bytes) -> None:
        self.target = target
        self.request = request
        self.ended = threading.Event()
        self.answered = {"kept": 0, "fresh": 0}
        self.failures: list[str] = []

    def keep(self) -> None:
        with grpc.insecure_channel(self.target) as channel:
            while not self.ended.wait(PAUSE_SECONDS):
                self._call(channel, "kept")

    def renew(self) -> None:
        # a channel would else share the connection of another to the same target
        alone = [("grpc.use_local_subchannel_pool", 1)]
        while not self.ended.wait(PAUSE_SECONDS):
            with grpc.insecure_channel(self.target, options=alone) as channel:
                self._call(channel, "fresh")

    def _call(self, channel: grpc.Channel, client: str) -> None:
        began = time.strftime("%H:%M:%S")
        call = channel.unary_unary(METHOD)
        try:
            answer = call(self.request, timeout=TIMEOUT_SECONDS)
            assert oip_pb2.ModelInferResponse.FromString(answer).outputs
            self.answered[client] += 1
        except grpc.RpcError as error:
            self.failures.append(f"{began} {client}: {error.code()} {error.details()}")


def main(target: str, request: str) -> None:
    """Call until standard input ends; print the tally."""
    clients = _Clients(target, bytes.fromhex(request))
    threads = [threading.Thread(target=run) for run in (clients.keep, clients.renew)]
    for thread in threads:
        thread.start()
    sys.stdin.read()
    clients.ended.set()
    for thread in threads:
        thread.join()
    sys.stdout.write(json.dumps({**clients.answered, "failures": clients.failures}))


if __name__ == "__main__":
    main(*sys.argv[1:])
