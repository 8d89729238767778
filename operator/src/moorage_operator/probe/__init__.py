"""Asking model servers, replica by replica, whether they live, are ready and serve the model."""
