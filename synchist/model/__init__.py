"""The data: columns, parts of epochs, deltas and the log, and their digest."""
