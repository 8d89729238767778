"""The gRPC listener: transport, method tables and the services that stand on them."""
