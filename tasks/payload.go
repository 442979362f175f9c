package tasks

import (
	"encoding/json"
	"fmt"

	"nightshift/batch"
)

// TaskType is the asynq type of every task of ours.
const TaskType = "nightshift:line"

// payloadVersion is raised when an older worker could not read the payload.
const payloadVersion = 1

// payload is what a task carries: a reference, never the request, because asynq
// rewrites the payloads of all active tasks at every heartbeat.
type payload struct {
	Version    int    `json:"v"`
	Batch      string `json:"b"`
	Line       int64  `json:"l"`
	Generation int    `json:"g"`
}

// VersionError is a payload written by a newer worker; it is left for one.
type VersionError struct{ Version int }

// Error names the version.
func (e *VersionError) Error() string {
	return fmt.Sprintf("payload has version %d, this worker reads %d", e.Version, payloadVersion)
}

// Encode writes the payload of a line's task.
func Encode(ref batch.Ref) ([]byte, error) {
	b, err := json.Marshal(payload{payloadVersion, ref.Batch, ref.Line, ref.Generation})
	if err != nil {
		return nil, fmt.Errorf("encode payload of %s line %d: %w", ref.Batch, ref.Line, err)
	}
	return b, nil
}

// Decode reads the payload of a line's task. It returns *VersionError for one
// that a newer worker wrote.
func Decode(b []byte) (batch.Ref, error) {
	var p payload
	if err := json.Unmarshal(b, &p); err != nil {
		return batch.Ref{}, fmt.Errorf("decode payload: %w", err)
	}
	if p.Version > payloadVersion {
		return batch.Ref{}, &VersionError{p.Version}
	}
	if p.Version < 1 || p.Batch == "" || p.Line < 1 || p.Generation < 0 {
		return batch.Ref{}, fmt.Errorf("decode payload: no reference to a line in %.80q", b)
	}
	return batch.Ref{Batch: p.Batch, Line: p.Line, Generation: p.Generation}, nil
}

// TaskID returns the fixed ID of a line's task, so that enqueueing it twice is
// one task: <batch>:<line, 8 digits>.<generation>.
func TaskID(ref batch.Ref) string {
	return fmt.Sprintf("%s:%08d.%d", ref.Batch, ref.Line, ref.Generation)
}
