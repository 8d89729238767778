"""What several kinds of tests stand on: waiting for conditions, driving kubectl."""
