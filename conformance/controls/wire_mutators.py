"""The defects on the wire, by capability; importing this declares them all."""

from __future__ import annotations

from conformance.controls import wire_admin, wire_clients, wire_frames, wire_later, wire_messages, wire_naming

__all__ = ["wire_admin", "wire_clients", "wire_frames", "wire_later", "wire_messages", "wire_naming"]
