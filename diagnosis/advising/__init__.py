"""What to do next: the first rule of ``advice.toml`` whose conditions hold."""
