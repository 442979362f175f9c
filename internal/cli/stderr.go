package cli

import (
	"io"
	"sync"
)

// Stderr is the standard error stream. While a progress bar is on the terminal,
// lines go above it. It is safe for concurrent use.
type Stderr struct {
	mu       sync.Mutex
	w        io.Writer
	over     io.Writer // where lines go while a bar is shown; nil: to w
	terminal bool
}

// Write writes p; callers write whole lines.
func (s *Stderr) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over != nil {
		return s.over.Write(p)
	}
	return s.w.Write(p)
}

// divert sends what is written to w; nil ends that.
func (s *Stderr) divert(w io.Writer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = w
}
