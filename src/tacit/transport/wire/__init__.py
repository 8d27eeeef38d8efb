"""Messages over sockets: their layout, sending, receiving, heartbeats, encryption."""
