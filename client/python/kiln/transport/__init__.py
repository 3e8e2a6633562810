"""Connections to a server: channels, bytes of buffers on their way, memory that both see, handles that go back."""
