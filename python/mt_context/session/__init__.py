"""The durable side: transcript, artifacts, figures of a session."""
