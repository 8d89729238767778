"""The commands that follow and control the rollout of a model."""

from moorage_cli.command_line.argument_types import count, seconds
from moorage_cli.command_line.declared import (
    CLUSTER,
    NAME,
    NAMESPACE,
    Argument,
    Command,
    output,
)

__all__ = ["ROLLOUTS"]

ROLLOUTS: tuple[Command, ...] = (
    Command(
        "wait",
        "wait until the applied spec serves, or its rollout fails",
        "Waits until the status describes the applied spec and both UpToDate and Ready are true. "
        "A spec that serves with the pods of an earlier operator (OperatorUpdatePending) counts. "
        "Ends at once with exit status 3 if the rollout fails, is aborted or cannot continue: it "
        "was rolled back or paused, the API server refuses an object, or the model is suspended. "
        "Also ends with exit status 3 if nothing serves because the model does not load, breaks "
        "an enforced contract or smoke test, or its image has an invalid name, and this has "
        "lasted for health.failureThreshold periods (15 seconds). Other causes, such as a missing "
        "Secret or a failed download, can still resolve, so the command waits. "
        "The exit status is 1 if the time is over first. Prints what moorage why prints. A canary "
        "that waits for approval does not end the command, nor does an API server that does not "
        "answer for a while.",
        (
            NAME,
            NAMESPACE,
            Argument(
                "--timeout",
                metavar="SECONDS",
                type=seconds,
                default=600.0,
                help="how long to wait",
            ),
            output("text", "json"),
            *CLUSTER,
        ),
        ("moorage wait iris", "moorage wait iris --timeout 60 -o json"),
    ),
    Command(
        "rollout",
        "show the revisions of a model, and follow its rollout",
        "Prints a tree of the revisions: the current one, the candidate of a rollout, the last "
        "one that served, and the previous one, each with its replicas, its share of the requests "
        "of a canary, and its age. Also prints the step of a canary and what ends it, how long "
        "the first replica took to serve, and the cause of trouble. With --watch, redraws the "
        "tree on a terminal, and otherwise prints a line for each change, until the spec serves "
        "or its rollout fails. The exit status is that of moorage wait.",
        (
            NAME,
            Argument(
                "-w", "--watch", action="store_true", help="follow the rollout until it ends"
            ),
            Argument(
                "--timeout",
                metavar="SECONDS",
                type=seconds,
                default=86400.0,
                help="with --watch, how long to follow it",
            ),
            NAMESPACE,
            output("text", "json"),
            *CLUSTER,
        ),
        ("moorage rollout iris", "moorage rollout iris --watch"),
    ),
    Command(
        "promote",
        "let a canary advance without waiting for its steps",
        "Sets spec.rollout.promote. REVISION approves all remaining steps of that revision, and "
        "REVISION/STEP ends the pause of one step. The exit status is 1 if the revision is not a "
        "canary in progress.",
        (
            NAME,
            Argument(
                "revision",
                metavar="REVISION",
                nargs="?",
                default="",
                help="revision or step to promote; defaults to the current candidate",
            ),
            NAMESPACE,
            output("text", "json"),
            *CLUSTER,
        ),
        ("moorage promote iris", "moorage promote iris 4c1f0a9d2e/2"),
    ),
    Command(
        "abort",
        "give up a rollout and return to the last revision that served",
        "Sets spec.rollout.abort. The revision stays aborted until the spec changes or the field "
        "is removed. The exit status is 1 if no rollout is in progress, or if no revision has "
        "served before.",
        (
            NAME,
            Argument(
                "revision",
                metavar="REVISION",
                nargs="?",
                default="",
                help="revision to give up; defaults to the current candidate",
            ),
            NAMESPACE,
            output("text", "json"),
            *CLUSTER,
        ),
        ("moorage abort iris",),
    ),
    Command(
        "restart",
        "replace all pods of a model, in a rollout of the same spec",
        "Sets spec.rollout.restartedAt to the current time. Also retries a failed rollout, and "
        "applies the pods that a newer version of the operator generates.",
        (NAME, NAMESPACE, output("text", "json"), *CLUSTER),
        ("moorage restart iris",),
    ),
    Command(
        "retry",
        "try a revision again whose rollout was given up",
        "Sets spec.rollout.restartedAt to the current time, as restart does, but only if a "
        "revision was given up. Also removes spec.rollout.promote and spec.rollout.abort, which "
        "name that revision. The exit status is 1 if none was given up.",
        (NAME, NAMESPACE, output("text", "json"), *CLUSTER),
        ("moorage retry iris",),
    ),
    Command(
        "scale",
        "set the number of replicas",
        "Sets spec.replicas. The exit status is 1 if the model has spec.scaling, because an "
        "autoscaler sets its replicas then.",
        (
            NAME,
            Argument("replicas", metavar="N", type=count, help="number of replicas"),
            NAMESPACE,
            output("text", "json"),
            *CLUSTER,
        ),
        ("moorage scale iris 3",),
    ),
    Command(
        "rollback",
        "return to the spec of the previous or another revision",
        "Restores the spec of an earlier revision, field for field, and prints the names of that "
        "revision and of the one that it replaces. It restores the revision of --to, if you name "
        "one. Otherwise, it restores the last one that served if a rollout is in progress or has "
        "failed, and if not, the one that ran before the current one, served, and has another "
        "spec. A model that has returned from a revision that did not serve goes back to it only "
        "with --to, so a second rollback is refused. "
        "Fields that are not part of a revision stay: replicas, suspend, paused, scaling, "
        "disruptionBudget, networkPolicy, route, objectMetadata and rollout. The exit status is 1 "
        "if that spec is not kept or cannot be restored exactly, such as that of a model with an "
        "InferenceRuntime; nothing is changed then.",
        (
            NAME,
            Argument(
                "--to",
                metavar="REVISION",
                default="",
                help="revision to restore; defaults to the previous one",
            ),
            Argument(
                "--dry-run", action="store_true", help="print the JSON patch and change nothing"
            ),
            NAMESPACE,
            output("text", "json"),
            *CLUSTER,
        ),
        ("moorage rollback iris", "moorage rollback iris --to 93ab01c6f2 --dry-run"),
    ),
    Command(
        "pause",
        "keep the operator from changing the objects of a model",
        "Sets spec.paused to true. The status is still updated.",
        (NAME, NAMESPACE, output("text", "json"), *CLUSTER),
        ("moorage pause iris",),
    ),
    Command(
        "resume",
        "end the pause of a model",
        "Sets spec.paused to false. Pending edits roll out, and manual edits of the model's "
        "objects are reverted.",
        (NAME, NAMESPACE, output("text", "json"), *CLUSTER),
        ("moorage resume iris",),
    ),
)
