package limit

import (
	"log/slog"
	"time"

	"nightshift/internal/standby"
)

// FallbackOptions may all be zero.
type FallbackOptions struct {
	// Switch is shared with what else the same server keeps; nil: one of its own,
	// of the options below.
	Switch *standby.Switch
	// Timeout bounds a question to the shared store. Defaults to 2 s.
	Timeout time.Duration
	// Logger gets one line a change of who decides. Defaults to discarding.
	Logger *slog.Logger
}
