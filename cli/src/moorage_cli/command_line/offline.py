"""The commands that need no cluster and start nothing: `lint`, `convert` and `completion`."""

from moorage_cli.command_line.declared import Argument, Command, output

__all__ = ["COMPLETION", "MANIFESTS"]

MANIFESTS: tuple[Command, ...] = (
    Command(
        "lint",
        "check manifests without a cluster",
        "Checks each InferenceModel and InferenceRuntime in the files against the schema and "
        "rules of the API, the shapes of smoke tests, the fields of podTemplate, the variables "
        "in the commands of runtimes, the requirements of scaling, and the limits of GPUs and "
        "other devices. Compares models with the runtimes in the same files. Prints one line per "
        "problem, with the path of the field. If there is none, standard error notes what a valid "
        "manifest leaves to you, such as an image that does not use the requested GPU. "
        "With --model, also compares contract and smoke tests with the tensors of the model. The "
        "exit status is 1 if there is a problem, otherwise 0.",
        (
            Argument("files", metavar="FILE", nargs="+", help="manifest; '-' is standard input"),
            Argument(
                "--model",
                metavar="ONNX",
                default="",
                help="ONNX file of the model; requires the package onnx",
            ),
            output("text", "json"),
        ),
        (
            "moorage lint model.yaml",
            "moorage lint model.yaml --model model.onnx",
            "helm template . | moorage lint -",
        ),
    ),
    Command(
        "convert",
        "rewrite manifests of an earlier format or of another project",
        "Rewrites InferenceModels whose fields have moved, as moorage lint reports them, and "
        "converts resources of other projects: InferenceService, ServingRuntime and "
        "ClusterServingRuntime of KServe, Model of Seldon Core 2, config.pbtxt of Triton, and "
        "model-settings.json of MLServer. The format is detected by content. Standard error names "
        "each field that changes, is not needed or is lost, with its value, the reason and what "
        "to do instead. Documents that need no change stay as they are, comments included; a file "
        "with only other kinds is named on standard error, and a document without a kind is an "
        "error. A "
        "document that is rewritten keeps the comments before its first field and loses the "
        "others; standard error names such documents. No file is changed without --in-place, nor "
        "if any of the files cannot be converted. The exit status is 1 if a file cannot be read, "
        "converted or written, or with --strict if a field is lost, otherwise 0.",
        (
            Argument("files", metavar="FILE", nargs="+", help="manifest; '-' is standard input"),
            Argument(
                "--in-place",
                action="store_true",
                help="write the files instead of printing the result",
            ),
            Argument(
                "--strict",
                action="store_true",
                help="print and write nothing if a field is lost, and exit with status 1",
            ),
            Argument(
                "--uri",
                metavar="URI",
                default="",
                help="location of the model's files, such as s3://models/iris, in place of the "
                "one that the file names",
            ),
        ),
        (
            "moorage convert model.yaml",
            "moorage convert --in-place models/*.yaml",
            "kubectl get inferenceservices -o yaml | moorage convert - > models.yaml",
            "moorage convert models/iris/config.pbtxt --uri s3://models/iris",
        ),
    ),
)
COMPLETION = Command(
    "completion",
    "print a completion script for a shell",
    "The script also completes the names of models and runtimes, from the cluster. In bash and "
    "zsh, these are the names of the namespace and context on the command line. Run it when the "
    "shell starts, such as from ~/.bashrc, ~/.zshrc, ~/.config/fish/config.fish or $PROFILE. The "
    "scripts for bash, zsh and fish are tested in these shells; that for "
    "PowerShell is not run here. kubectl moorage needs none of them: the completion of kubectl "
    "itself runs kubectl_complete-moorage, which is installed with this tool.",
    (Argument("shell", choices=("bash", "zsh", "fish", "powershell"), help="shell"),),
    (
        "source <(moorage completion bash)",
        "source <(moorage completion zsh)",
        "moorage completion fish | source",
        "moorage completion powershell | Out-String | Invoke-Expression",
    ),
)
