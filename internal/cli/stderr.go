package cli

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"

	"golang.org/x/term"
)

// Stderr is the standard error stream. While a progress bar is on the terminal,
// lines go above it. It is safe for concurrent use.
type Stderr struct {
	mu       sync.Mutex
	w        io.Writer
	over     io.Writer // where lines go while a bar is shown; nil: to w
	terminal bool
	smudged  atomic.Bool // the terminal may have echoed ^C where the next line begins
}

// Write writes p; callers write whole lines.
func (s *Stderr) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over != nil {
		return s.over.Write(p)
	}
	return s.direct(p)
}

// sweep goes to the begin of the terminal's line and erases it.
const sweep = "\r\x1b[K"

// direct writes to the stream itself. It takes no lock: the bar calls it while
// a line waits for the bar.
func (s *Stderr) direct(p []byte) (int, error) {
	if !s.smudged.Load() {
		return s.w.Write(p)
	}
	n, err := s.w.Write(append([]byte(sweep), p...))
	return max(0, n-len(sweep)), err
}

// smudge notes a signal: a terminal echoes the key that sent it, before or
// after we learn of it, so from now on every write begins with a clean line.
func (s *Stderr) smudge() {
	if s.terminal {
		s.smudged.Store(true)
	}
}

// divert sends what is written to w; nil ends that.
func (s *Stderr) divert(w io.Writer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = w
}

// console is the terminal as the bar needs it: each flush replaces the lines of
// the one before. It implements mpb's ConsoleWriter; the library's own would
// write past Stderr.
type console struct {
	bytes.Buffer
	err *Stderr
}

// IsTerminal says whether there is a width to ask for.
func (c *console) IsTerminal() bool { return isTerminal(c.err.w) }

// GetTermSize returns the terminal's size in characters.
func (c *console) GetTermSize() (width, height int, err error) {
	f, ok := c.err.w.(*os.File)
	if !ok {
		return 0, 0, os.ErrInvalid
	}
	return term.GetSize(int(f.Fd()))
}

// Flush writes what was gathered, and begins the next flush with going back to
// the first of its lines.
func (c *console) Flush(lines int) error {
	_, err := c.err.direct(c.Bytes())
	c.Reset()
	if lines > 0 {
		fmt.Fprintf(c, "\x1b[%dA\x1b[J", lines)
	}
	return err
}
