"""The commands that send requests to a model."""

from moorage_cli.ask.inference.request import InferenceProtocol
from moorage_cli.command_line.declared import (
    ACCESS,
    CLUSTER,
    NAME,
    NAMESPACE,
    Argument,
    Command,
    timeout,
)

__all__ = ["PROTOCOLS", "REQUESTS"]

PROTOCOLS = tuple(str(protocol) for protocol in InferenceProtocol)

REQUESTS: tuple[Command, ...] = (
    Command(
        "infer",
        "send a request from a file and print the response",
        "FILE is an Open Inference request in JSON; '-' is standard input. The request is "
        "converted to the model's protocol. A TensorFlow Serving or GRPS request in JSON is sent "
        "unchanged. The exit status is 0 if the server reports success, otherwise 1.",
        (
            NAME,
            Argument("-f", "--file", metavar="FILE", required=True, help="file with the request"),
            Argument(
                "--protocol",
                choices=PROTOCOLS,
                default="",
                help="protocol; defaults to the one in the model's status",
            ),
            Argument(
                "--transport",
                choices=("HTTP", "GRPC"),
                default="HTTP",
                help="transport",
            ),
            Argument(
                "--model-version",
                metavar="VERSION",
                default="",
                help="model version; by default, the server chooses",
            ),
            Argument(
                "--via",
                choices=("port-forward", "service"),
                default="port-forward",
                help="port-forward: through the API server to a ready pod; service: directly to "
                "the Service, from inside the cluster",
            ),
            *ACCESS,
            timeout(60.0),
            NAMESPACE,
            *CLUSTER,
        ),
        (
            "moorage infer digits -f examples/01-digits/samples/digit-3.json",
            "moorage infer digits -f request.json --protocol TensorFlowServing",
            "moorage infer digits -f request.json --transport GRPC",
        ),
    ),
)
