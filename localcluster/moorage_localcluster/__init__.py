"""A real single-node Kubernetes cluster from Go modules and Debian packages, no Docker needed.

Only Python's standard library, since it runs before anything is installed.

    __main__ -> commands: install, up, down, status, load, base-image, build, control-plane
    layout   -> every path and address, one frozen value
    render   -> configuration files and command lines (pure)
    running  -> which part starts and stops when
    processes, containers, network, mounts, ports, ownership, certificates, packages, binaries,
    images, files -> the acting parts
"""
