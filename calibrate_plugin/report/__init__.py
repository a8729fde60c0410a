"""The typed report and its renderers. Each renderer is a module of its own, so that a caller pays only for what it uses."""
