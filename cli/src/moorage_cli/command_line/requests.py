"""The commands that send requests to a model."""

from moorage_cli.ask.inference.request import InferenceProtocol
from moorage_cli.command_line.argument_types import rate, seconds, target
from moorage_cli.command_line.declared import (
    ACCESS,
    CLUSTER,
    NAME,
    NAMESPACE,
    Argument,
    Command,
    output,
    timeout,
)

__all__ = ["PROTOCOLS", "REQUESTS"]

PROTOCOLS = tuple(str(protocol) for protocol in InferenceProtocol)

PROTOCOL = Argument(
    "--protocol",
    choices=PROTOCOLS,
    default="",
    help="protocol; defaults to the one in the model's status",
)
MODEL_VERSION = Argument(
    "--model-version",
    metavar="VERSION",
    default="",
    help="model version; by default, the server chooses",
)
VIA = Argument(
    "--via",
    choices=("port-forward", "service"),
    default="port-forward",
    help="port-forward: through the API server to a ready pod; service: directly to "
    "the Service, from inside the cluster",
)

REQUESTS: tuple[Command, ...] = (
    Command(
        "infer",
        "send a request from a file and print the response",
        "FILE is an Open Inference request in JSON; '-' is standard input. The request is "
        "converted to the model's protocol. A TensorFlow Serving or GRPS request in JSON is sent "
        "unchanged. Prints the response as JSON, after the status of a failure; with -o json, "
        "only the document. The exit status is 0 if the server reports success, otherwise 1.",
        (
            NAME,
            Argument("-f", "--file", metavar="FILE", required=True, help="file with the request"),
            PROTOCOL,
            Argument(
                "--transport",
                choices=("HTTP", "GRPC"),
                default="HTTP",
                help="transport",
            ),
            MODEL_VERSION,
            VIA,
            *ACCESS,
            timeout(60.0),
            NAMESPACE,
            output("text", "json"),
            *CLUSTER,
        ),
        (
            "moorage infer digits -f examples/01-digits/samples/digit-3.json",
            "moorage infer digits -f request.json --protocol TensorFlowServing",
            "moorage infer digits -f request.json --transport grpc -o json",
        ),
    ),
    Command(
        "bench",
        "measure latencies at a fixed rate of requests",
        "Sends requests at the rate for the duration, whatever the server does (open loop), and "
        "prints the rate of successful responses, percentiles of their latency, a plot, and the "
        "failures by status. A latency counts from the scheduled time of its request, so a stall "
        "of the server is not hidden. The request is made from the metadata of the model, as "
        "moorage deploy prints it, or read from FILE. NAME is a model of the cluster; URL is that "
        "of a server, such as http://HOST:PORT/v2/models/NAME, with http, https, grpc or grpcs. "
        "Ctrl-C ends it with the results so far and exit status 130. The exit status is 0 if all "
        "requests succeed, otherwise 1.",
        (
            Argument(
                "target",
                metavar="NAME|URL",
                type=target,
                help="name of an InferenceModel, or URL",
            ),
            Argument("--rate", metavar="N", type=rate, default=10.0, help="requests per second"),
            Argument(
                "--duration",
                metavar="SECONDS",
                type=seconds,
                default=10.0,
                help="how long to send requests",
            ),
            Argument(
                "-f",
                "--data",
                metavar="FILE",
                default="",
                help="file with the request, in the form that infer accepts",
            ),
            PROTOCOL,
            Argument(
                "--transport",
                choices=("HTTP", "GRPC"),
                default="",
                help="transport; defaults to that of the URL, or to HTTP",
            ),
            Argument(
                "--model",
                metavar="MODEL",
                default="",
                help="name of the model in requests; by default, that of the status or the URL",
            ),
            MODEL_VERSION,
            VIA,
            *ACCESS,
            timeout(10.0),
            NAMESPACE,
            output("text", "json"),
            *CLUSTER,
        ),
        (
            "moorage bench iris --rate 50 --duration 30",
            "moorage bench http://localhost:8000/v2/models/iris --rate 500",
            "moorage bench grpcs://iris.models.svc:8001 --model iris --ca-file ca.crt",
        ),
    ),
)
