"""The `mt-context` command: what the policies do, on recorded sessions. Nobody imports it but the command itself."""
