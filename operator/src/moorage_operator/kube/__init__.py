"""The Kubernetes API as the operator speaks it: few verbs, few kinds, one thin client."""
