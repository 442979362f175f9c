package main

import (
	"os"
	"runtime/debug"
)

// leanGC is by how much the heap may grow between two collections of a submission,
// in per cent. What lives is IDs and buffers, without pointers, so that one is over
// in a millisecond.
const leanGC = 20

// lean keeps a submission within its memory: docs/batches.md says how much that is,
// and TestMemoryOfASubmission holds it. GOGC in the environment is somebody's wish.
func lean() (restore func()) {
	dropStartPages()
	if os.Getenv("GOGC") != "" {
		return func() {}
	}
	before := debug.SetGCPercent(leanGC)
	return func() { debug.SetGCPercent(before) }
}
