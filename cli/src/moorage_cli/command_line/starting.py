"""The commands that start to serve a model: `run` on this machine, `deploy` in a cluster."""

from moorage_cli.command_line.argument_types import (
    count,
    model_name,
    object_name,
    port,
    quantity,
    seconds,
    storage_class,
)
from moorage_cli.command_line.declared import (
    CLUSTER,
    NAMESPACE,
    Argument,
    Command,
    output,
)

__all__ = ["STARTING"]

STARTING: tuple[Command, ...] = (
    Command(
        "run",
        "serve a model file or folder on this machine",
        "Starts the bundled runtime (the program moorage-runtime) for a model file, the folder of "
        "a model, or a folder of several models, on the loopback address only. Waits until the "
        "models are loaded, then prints their tensors and a curl command that sends a sample "
        "request. The server's log goes to standard error. Ctrl-C ends the server, with exit "
        "status 0. The exit status is 1 if no model can be served or the server ends by itself.",
        (
            Argument("path", metavar="PATH", help="model file or folder"),
            Argument(
                "--name",
                metavar="NAME",
                type=model_name,
                default="",
                help="name of the model; defaults to the name of the file or folder",
            ),
            Argument(
                "--http-port",
                metavar="PORT",
                type=port,
                default=8000,
                help="HTTP port; 0 is any free port",
            ),
            Argument(
                "--grpc-port",
                metavar="PORT",
                type=port,
                default=8001,
                help="gRPC port; 0 is any free port",
            ),
            Argument(
                "--trusted", action="store_true", help="load pickles, which can run any code"
            ),
        ),
        ("moorage run model.onnx", "moorage run models/ --http-port 0 --grpc-port 0"),
    ),
    Command(
        "deploy",
        "serve a model file, folder or URI in the cluster",
        "Writes an InferenceModel by server-side apply and waits until it serves. Uploads a local "
        "path first: up to 1 MiB of files without folders into a ConfigMap, more, or with "
        "--claim, into a PersistentVolumeClaim, through a temporary pod, and with --to into a "
        "bucket or an OCI registry. The place has the digest of the content in its name, so "
        "deploying changed files is a rollout, and earlier revisions can be restored. Ends with a "
        "curl command that sends a sample request. An option that you leave out the next time is "
        "removed from the spec again. The exit status is 3 if the rollout fails, with the text of "
        "moorage why, and 1 if anything else fails or the time is over.",
        (
            Argument("source", metavar="PATH|URI", help="model file, folder, or supported URI"),
            Argument(
                "--name",
                metavar="NAME",
                type=object_name,
                required=True,
                help="name of the InferenceModel",
            ),
            Argument(
                "--runtime",
                metavar="NAME",
                type=object_name,
                default="",
                help="InferenceRuntime that serves it",
            ),
            Argument(
                "--replicas", metavar="N", type=count, default=None, help="number of replicas"
            ),
            Argument(
                "--trusted", action="store_true", help="load pickles, which can run any code"
            ),
            Argument(
                "--contract",
                action="store_true",
                help="declare the tensors of a local ONNX file as the contract with clients; "
                "requires the package onnx",
            ),
            Argument(
                "--to",
                metavar="STORE",
                default="",
                help="bucket or registry that gets the files, with your own login: "
                "s3://BUCKET[/FOLDER], gs://BUCKET[/FOLDER], "
                "azblob://ACCOUNT/CONTAINER[/FOLDER] or oci://REGISTRY[/PATH]",
            ),
            Argument(
                "--credentials",
                metavar="SECRET",
                type=object_name,
                default="",
                help="Secret with the credentials for the download from a URI or from --to",
            ),
            Argument(
                "--claim",
                metavar="CLAIM",
                type=object_name,
                default="",
                help="claim that gets the files, created if it does not exist; defaults to "
                "NAME-models for files that do not fit a ConfigMap",
            ),
            Argument(
                "--storage-class",
                metavar="CLASS",
                type=storage_class,  # an empty one is a claim without a class
                default=None,
                help="storage class of a new claim; defaults to the cluster's",
            ),
            Argument(
                "--size",
                metavar="SIZE",
                type=quantity,
                default="",
                help="size of a new claim, such as 20Gi; defaults to room for the model and an "
                "update",
            ),
            Argument(
                "--image",
                metavar="IMAGE",
                default="",
                help="image of the upload pod, with Python 3; defaults to the bundled runtime's, "
                "which is read from the operator's Deployment",
            ),
            Argument(
                "--force",
                action="store_true",
                help="take over fields that somebody else has set to other values",
            ),
            Argument(
                "--dry-run",
                action="store_true",
                help="print the objects as YAML and change nothing",
            ),
            Argument(
                "--local-port",
                metavar="PORT",
                type=port,
                default=8000,
                help="port of this machine in the printed commands",
            ),
            Argument(
                "--timeout",
                metavar="SECONDS",
                type=seconds,
                default=600.0,
                help="how long to wait for the upload pod, and for the rollout",
            ),
            NAMESPACE,
            output("text", "json"),
            *CLUSTER,
        ),
        (
            "moorage deploy model.onnx --name iris",
            "moorage deploy models/iris --name iris --claim models --replicas 2",
            "moorage deploy model.onnx --name iris --to s3://models --credentials models-reader",
            "moorage deploy s3://models/iris --name iris --credentials models-reader",
        ),
    ),
)
